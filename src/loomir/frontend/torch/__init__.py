"""Import PyTorch programs as Relax modules, and Loomir as a backend of ``torch.compile``.

``from_exported`` and ``load`` give a module that ``loomir.compile`` takes; ``compile`` gives a
module of PyTorch that runs what Loomir compiled; ``register_converter`` teaches both an operator.
Nothing here is imported before ``loomir.torch`` is asked for, and the package torch not before it
is used.

How a program is imported
    ``saved`` reads a file of ``torch.export.save``, without pickle.
    ``exported`` and ``dynamo`` have torch break a program into core operators
    (``decompositions``), ``program`` makes a function of its inputs and outputs, and ``graph``
    walks its nodes in order. Sizes are expressions of symbols, which ``sizes`` brings over; every
    other node is made by its converter.

How to add a converter
    1. Write a function in its family's file in ``converters/``, with its row above it. It takes a
       ``Node`` and returns an expression of ``loomir.op`` for the output, or a list with one for
       each output::

           @register("aten.relu.default")
           def _relu(node: Node) -> RelaxExpr:
               return op.nn.relu(node.tensor(0))

       ``node[i]`` and ``node["dim"]`` are arguments, with the defaults of the operator's schema;
       ``node.tensor(i, dtype)`` is one as a tensor; ``node.dtype`` and ``node.shape`` are those
       that torch says the result has; ``node.emit(expr)`` binds what is used more than once, and
       ``node.compute`` makes a kernel of tensor expressions. What cannot be made raises
       ``node.refuse("why")``; it is listed with everything else.
    2. Prove it: ``python -m tools.opinfo_table --only relu`` compares it with PyTorch on the
       samples that PyTorch tests its own operators with.
    3. ``python -m tools.torch_page`` writes the table of operators anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from loomir.frontend.torch.converters import load_converters
from loomir.frontend.torch.dynamo import backend, compile
from loomir.frontend.torch.exported_program import from_exported
from loomir.frontend.torch.node import Node
from loomir.frontend.torch.registry import (
    Converter,
    Row,
    known_operators,
    register_converter,
)
from loomir.frontend.torch.saved_program import load
from loomir.support.argument_errors import refuse_missing as _refuse_missing

__all__ = [
    "Converter",
    "Node",
    "Row",
    "backend",
    "compile",
    "from_exported",
    "known_operators",
    "load",
    "register_converter",
    "supported",
]


def supported() -> Mapping[str, str]:
    """Return the overloads with converters, each with what is not supported."""
    load_converters()
    return {name: row.note for name, row in known_operators().items()}


if not TYPE_CHECKING:
    __getattr__ = _refuse_missing(
        "loomir.torch",
        __all__,
        {
            **dict.fromkeys(
                ("from_fx", "from_torch", "from_pytorch", "from_exported_program"),
                "loomir.torch.from_exported(torch.export.export(model, (x,)))",
            ),
            "optimize": "loomir.torch.compile(model)",
            "jit": "loomir.torch.compile(model)",
        },
    )
