from __future__ import annotations

from typing import Any

import pytest

from loomir.runtime import Executable
from loomir.support.diagnostics import RunError
from tests.runtime.native import ID_INT, NOTHING, function, scalar


def executable(**functions: object) -> Executable:
    return Executable(
        functions,  # type: ignore[arg-type]
        script=lambda: "the script",
        llvm_ir=lambda: "the IR",
        assembly=lambda: "the assembly",
    )


def test_functions_are_called_by_name():
    exe = executable(one=function(ID_INT, scalar("n", "int32")), two=function(NOTHING))
    assert exe["one"](3) == 3
    assert exe["two"]() is None
    assert list(exe.functions) == ["one", "two"]
    assert repr(exe) == "<executable of one, two>"


def test_the_only_function_needs_no_name():
    exe = executable(main=function(ID_INT, scalar("n", "int32")))
    assert exe(4) == 4
    assert exe(n=5) == 5


def test_main_needs_no_name_among_others():
    exe = executable(other=function(NOTHING), main=function(ID_INT, scalar("n", "int32")))
    assert exe(4) == 4
    assert exe(n=5) == 5


@pytest.mark.parametrize("names", [(), ("f", "g")])
def test_which_function_must_be_clear(names: Any):
    exe = executable(**{name: function(NOTHING) for name in names})
    with pytest.raises(RunError) as caught:
        exe()
    assert caught.value.diagnostic.code == "RUN0122"
    assert isinstance(caught.value, TypeError)
    remedy = "name it: exe['f'](...)" if names else "compile a public function"
    assert caught.value.diagnostic.help == remedy
    assert caught.value.diagnostic.notes == (f"its functions are: {', '.join(names) or '(none)'}",)


def test_an_unknown_name_gets_a_guess():
    exe = executable(main=function(NOTHING))
    with pytest.raises(RunError) as caught:
        exe["mian"]
    assert caught.value.diagnostic.code == "RUN0121"
    assert isinstance(caught.value, KeyError)
    assert caught.value.diagnostic.help == "did you mean 'main'?"
    with pytest.raises(RunError) as caught:
        exe["q"]
    assert caught.value.diagnostic.help == "use a name that the note lists"


def test_functions_cannot_be_exchanged():
    exe = executable(main=function(NOTHING))
    with pytest.raises(TypeError):
        exe.functions["main"] = None  # type: ignore[index]


def test_views_are_asked_for_when_needed():
    exe = executable(main=function(NOTHING))
    assert (exe.script(), exe.llvm_ir(), exe.assembly()) == (
        "the script",
        "the IR",
        "the assembly",
    )
