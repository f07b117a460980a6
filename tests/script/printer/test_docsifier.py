"""The way from IR to text: documents in between, chosen by dialect and class of node."""

from __future__ import annotations

from loomir.script.printer import docsify, script
from loomir.script.printer.doc import ForDoc, FunctionDoc, StmtBlockDoc
from loomir.script.printer.docsifier import Docsifier
from loomir.script.printer.python_printer import to_python
from tests.clause import clauses
from tests.script.parser.programs import read

FUNC = read(
    '@T.prim_func\ndef f(A: T.Buffer((8,), "float32")):\n'
    "    for i in range(8):\n        A[i] = 1.0\n    for i in range(4):\n        A[i] = 2.0\n"
)


@clauses("TS-OV-05")
def test_ir_becomes_documents_and_those_become_python():
    made = docsify(FUNC)
    assert isinstance(made, StmtBlockDoc)
    (function,) = made.statements
    assert isinstance(function, FunctionDoc)
    assert [type(part) for part in function.body] == [ForDoc, ForDoc]
    assert script(FUNC).endswith(to_python(made))


@clauses("TS-PRN-05")
def test_names_end_with_their_frame():
    # Both loops have a frame of their own, so that each may call its variable i.
    assert script(FUNC).count("for i in range(") == 2
    d = Docsifier()
    outer = d.top
    with d.frame("loop") as frame:
        assert d.top is frame
        name = d.define(FUNC.params[0], "k")
        assert d.find_known(FUNC.params[0]) is name
    assert d.top is outer
    assert d.find_known(FUNC.params[0]) is None
