"""Import ONNX models as Relax modules.

``load`` gives a module that ``loomir.compile`` takes; ``register_converter`` teaches it an
operator. Nothing here is imported before ``loomir.onnx`` is asked for, and the package onnx not
before a model is read.

How a model is imported
    ``proto`` reads a file into plain data (``model``), ``importer`` makes a function of it, and
    ``graph`` walks its nodes in order. What is known at import, such as shapes, is computed by
    ``shape_arithmetic``; every other node is made by its converter. An operator without one that
    the standard defines by others is made of these.

How to add a converter
    1. Write a function in its family's file in ``converters/``. It takes a ``Node`` and returns an
       expression of ``loomir.op`` for the output, or a list with one for each output::

           def _relu(node: Node) -> RelaxExpr:
               return op.nn.relu(node[0])

       ``node[i]`` is an input as an expression, ``node.get("axis", -1)`` an attribute,
       ``node.dims(i)`` the extents of an input, ``node.find_known(i)`` its elements where they are
       known at import; ``node.emit(expr)`` binds what is used more than once,
       ``node.compute`` makes a kernel of tensor expressions, and ``node.one("Add", a, b)`` is
       another operator. What cannot be made raises ``node.refuse("why")``; it is listed with
       everything else.
    2. Add its row to ``ROWS`` at the end of the file: ``row("Relu", _relu)``, with ``since=``
       where a version changed what the operator means.
    3. Prove it: ``python -m tools.onnx_node_tests --only relu`` compiles and runs the standard's
       own tests of the operator. ``tests/frontend/onnx/`` has tests of each family.
"""

from typing import TYPE_CHECKING, Any

from loomir.frontend.onnx.load import load
from loomir.frontend.onnx.registry import (
    MICROSOFT,
    Converter,
    Row,
    known_operators,
    register_converter,
)
from loomir.support.argument_errors import refuse_missing as _refuse_missing
from loomir.support.fork_safe import import_module

if TYPE_CHECKING:
    from loomir.frontend.onnx.node import Node

__all__ = [
    "MICROSOFT",
    "Converter",
    "Node",
    "Row",
    "known_operators",
    "load",
    "register_converter",
]

_refuse = _refuse_missing(
    "loomir.onnx",
    __all__,
    dict.fromkeys(
        ("from_onnx", "import_model", "load_model", "convert", "import_onnx"),
        'loomir.onnx.load("model.onnx"), or of a ModelProto',
    ),
)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Loaded when it is asked for: with it come the operators.
        if name != "Node":
            return _refuse(name)
        found = import_module("loomir.frontend.onnx.node").Node
        globals()[name] = found
        return found
