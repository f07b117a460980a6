"""Memory and shapes of which little is known before the program runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir.ir.module import IRModule
from loomir.runtime.shape import Shape
from loomir.script import from_source
from tests.codegen.relax.compare_engines import same

FOUR = np.arange(4, dtype="float32")


def program(params: str, *lines: str, result: str = "y") -> IRModule:
    body = "".join(f"        {line}\n" for line in lines)
    made = from_source(f"""
from loomir.script import ir as I, relax as R
@I.ir_module
class Module:
    @R.function(pure=False)
    def main({params}):
{body}        return {result}
""")
    assert isinstance(made, IRModule)
    return made


def outcome(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except loomir.RunError as error:
        return error.diagnostic.code


def agree(mod: IRModule, *args: Any) -> Any:
    """Run both ways, compare results or codes of errors, and give what came."""
    wanted = outcome(lambda *given: loomir.interpret(mod, "main", *given), *args)
    given = outcome(loomir.compile(mod, opt_level=0)["main"], *args)
    if isinstance(wanted, str) or isinstance(given, str):
        assert given == wanted
    else:
        assert same(wanted, given), f"interpreted {wanted!r}, compiled {given!r}"
    return given


PARTS = [
    ("R.memory.view(x, R.shape([2, 2]))", [[0, 1], [2, 3]]),
    ("R.memory.view(x, R.shape([2]), relative_byte_offset=8)", [2, 3]),
    ("R.memory.view(x, R.shape([0, 7]), relative_byte_offset=16)", np.zeros((0, 7))),
    ("R.memory.view(x, R.shape([8]))", "RUN0450"),
    ("R.memory.view(x, R.shape([1]), relative_byte_offset=16)", "RUN0450"),
    ("R.memory.view(x, R.shape([1]), relative_byte_offset=3)", "RUN0451"),
]


def same_as(given: Any, wanted: Any) -> bool:
    return given == wanted if isinstance(wanted, str) else np.array_equal(given, wanted)


KNOWN = ["R.Tensor", 'R.Tensor("float32")', "R.Tensor(ndim=1)", "R.Object"]


@pytest.mark.parametrize("known", [*KNOWN, 'R.Tensor(("n",), "float32")'])
@pytest.mark.parametrize(("view", "wanted"), PARTS)
def test_views_of_tensors_of_which_little_is_known(known: str, view: str, wanted: Any) -> None:
    if "=3" in view and "float32" in known:
        with pytest.raises(loomir.CompileError, match="OPS0028"):
            program(f"x: {known}", f"y = {view}")
        return
    given = agree(program(f"x: {known}", f"y = {view}"), FOUR)
    assert same_as(given, wanted)


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float64", "int64"])
def test_a_view_of_all_of_a_tensor(known: str, dtype: str) -> None:
    mod = program(f"x: {known}".replace("float32", dtype), "y = R.memory.view(x)")
    for shape in ((), (2, 3), (0, 1)):
        if "ndim" not in known or len(shape) == 1:
            given = agree(mod, np.ones(shape, dtype))
            assert given.shape == shape
            assert given.dtype == dtype


@pytest.mark.parametrize(
    ("view", "shape", "wanted"),
    [
        ("R.memory.view(x, s)", (4,), [0, 1, 2, 3]),
        ("R.memory.view(x, s)", (2, 1, 2), [[[0, 1]], [[2, 3]]]),
        ("R.memory.view(x, s, 'int32')", (), 0),
        ("R.memory.view(x, s, 'float64')", (3,), "RUN0450"),
        ("R.memory.view(x, s)", (-1,), "RUN0409"),
        ("R.memory.view(x, s)", (1 << 40, 1 << 40), "RUN0411"),
    ],
)
@pytest.mark.parametrize("known", ["R.Tensor", 'R.Tensor((4,), "float32")'])
def test_views_of_shapes_of_any_length(known: str, view: str, shape: Any, wanted: Any) -> None:
    given = agree(program(f"x: {known}, s: R.Shape", f"y = {view}"), FOUR, Shape(shape))
    assert same_as(given, wanted)


NEW = {
    "fresh": ["y = R.builtin.alloc_tensor(s, 'float32')"],
    "in storage": [
        "m = R.memory.alloc_storage(R.shape([32]))",
        "y = R.memory.alloc_tensor(m, 0, s, 'float32')",
    ],
    "as others say it": [
        "m = R.vm.alloc_storage(R.shape([32]), 0, 'uint8')",
        "y = R.vm.alloc_tensor(m, 0, s, 'float32')",
    ],
}


@pytest.mark.parametrize("form", NEW)
def test_tensors_of_shapes_of_any_length(form: str) -> None:
    mod = program("s: R.Shape", *NEW[form], "z = R.shape_of(y)", result="z")
    for extents in ((), (4,), (2, 0, 9), (2, 2, 2)):
        assert agree(mod, Shape(extents)) == extents
    assert agree(mod, Shape((2, -1))) == "RUN0409"
    assert agree(mod, Shape((1 << 40, 1 << 40))) == "RUN0411"
    if form != "fresh":
        assert agree(mod, Shape((3, 3))) == "RUN0450"


def test_storage_of_a_size_that_is_a_value() -> None:
    mod = program(
        "s: R.Shape",
        "m = R.memory.alloc_storage(s)",
        "y = R.memory.alloc_tensor(m, 0, R.shape([4]), 'float32')",
        "z = R.shape_of(y)",
        result="z",
    )
    assert agree(mod, Shape((16,))) == (4,)
    assert agree(mod, Shape((15,))) == "RUN0450"
    assert agree(mod, Shape((-15,))) == "RUN0409"
    assert agree(mod, Shape(())) == agree(mod, Shape((4, 4))) == "RUN0403"


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shapes_are_made_of_integers_of_any_width(dtype: str) -> None:
    known = [f'R.Tensor(("n",), "{dtype}")', f'R.Tensor("{dtype}")', "R.Tensor(ndim=1)", "R.Any"]
    largest = min(int(np.iinfo(dtype).max), 2**63 - 1)
    for info in known:
        mod = program(f"x: {info}", "y = R.tensor_to_shape(x)")
        for extents in ((3, largest, 0), (), (1,)):
            assert agree(mod, np.array(extents, dtype)) == extents
        if dtype.startswith("i"):
            assert agree(mod, np.array([1, -2], dtype)) == "RUN0409"


def test_shapes_are_made_of_nothing_else() -> None:
    mod = program("x: R.Tensor", "y = R.tensor_to_shape(x)")
    assert agree(mod, np.array([1.0])) == agree(mod, np.array([True])) == "RUN0402"
    assert agree(mod, np.array([[1]])) == agree(mod, np.array(1)) == "RUN0403"
