"""Check what a model declares of its outputs against what its nodes compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loomir.frontend.onnx.graph import type_of
from loomir.frontend.onnx.mistakes import CannotImport
from loomir.frontend.onnx.model import STORED_AS, NodeType, TensorType
from loomir.frontend.onnx.problems import Problems
from loomir.frontend.onnx.values import Value
from loomir.support.diagnostics import Diagnostic

__all__ = ["check_output_types", "list_other_shapes"]


def check_output_types(
    declared: Mapping[str, NodeType], values: Sequence[Value], problems: Problems
) -> None:
    """Note outputs of which the elements are of another type than the model says."""
    for (name, kind), value in zip(declared.items(), values):
        made = type_of(value)
        if made is None or not isinstance(kind, TensorType):
            continue
        if STORED_AS.get(kind.element, made[0]) != STORED_AS.get(made[0], made[0]):
            problems.add(
                None,
                CannotImport(
                    f"its output {name!r} is declared as {kind.element}, and its nodes compute "
                    f"{made[0]}",
                    help="export it again, or declare the type that they compute",
                    code="ONX0002",
                ),
            )


def list_other_shapes(
    declared: Mapping[str, NodeType], values: Sequence[Value]
) -> list[Diagnostic]:
    """Warn of outputs that certainly have another shape than the model says.

    An extent of 0 says nothing: exporters write it for one that they do not know.
    """
    found: list[Diagnostic] = []
    for (name, kind), value in zip(declared.items(), values):
        made = type_of(value)
        if made is None or not isinstance(kind, TensorType):
            continue
        said, real = kind.dims, made[1]
        if said is None or real is None:
            continue
        differ = any(
            isinstance(a, int) and isinstance(b, int) and a > 0 and a != b
            for a, b in zip(said, real)
        )
        if differ or len(said) != len(real):
            found.append(
                Diagnostic(
                    "ONX0007",
                    f"the model declares its output {name!r} with the shape {_text(said)}, and its "
                    f"nodes compute {_text(real)}",
                    help="trust the result's own shape, or export the model again",
                    severity="warning",
                )
            )
    return found


def _text(dims: Sequence[int | str | None]) -> str:
    shown = ", ".join("?" if d is None else str(d) for d in dims)
    return f"({shown},)" if len(dims) == 1 else f"({shown})"
