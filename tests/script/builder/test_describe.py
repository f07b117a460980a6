"""What values are called in messages: never by the name of a Python class."""

from __future__ import annotations

import pytest

from loomir.script import from_source
from loomir.support.diagnostics import CompileError

_SAID = {
    "T.float32x4": "the dtype T.float32x4",
    "T.handle": "T.handle",
    "T.serial(4)": "the head of a statement",
    "T.Buffer((4,), 'float32')": "a declared buffer",
    "T.prim_func": "the decorator T.prim_func",
    "T.axis": "the namespace T.axis",
    "T.env_thread('threadIdx.x')": "the index of a thread",
    "T.Range(0, 4)": "a range",
    "I.GlobalVar('x')": "the function 'x'",
    "T.min": "a function",
}


@pytest.mark.parametrize("value", sorted(_SAID))
def test_values_are_named(value: str):
    text = f"@T.prim_func\ndef f(a: T.Buffer((4,), 'float32')):\n    a[0] = {value}\n"
    with pytest.raises(CompileError) as refused:
        from_source(text)
    (found,) = refused.value.diagnostics
    wanted = f"what is stored must be a value of the program, not {_SAID[value]}"
    assert found.message == wanted


@pytest.mark.parametrize(
    ("info", "said"),
    [("T.float32x4", "the dtype T.float32x4"), ("R.nn", "the namespace R.nn")],
)
def test_what_describes_no_value_is_named(info: str, said: str):
    with pytest.raises(CompileError) as refused:
        from_source(f"@R.function\ndef f(x: {info}):\n    return x\n")
    (found,) = refused.value.diagnostics
    assert (found.code, found.message) == ("SCR0033", f"{said} does not describe a value of Relax")
