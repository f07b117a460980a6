"""``loomir.torch.from_exported``: turn a program of ``torch.export`` into a Relax module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loomir.frontend.torch.converters import load_converters
from loomir.frontend.torch.decompositions import export_decompositions, is_decomposed
from loomir.frontend.torch.mistakes import refuse_program
from loomir.frontend.torch.package import torch_package
from loomir.frontend.torch.program import translate
from loomir.ir.module import IRModule
from loomir.support.argument_errors import explain_arguments, with_remedy

__all__ = ["from_exported"]


def _export_first(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
    return "export it first: torch.export.export(model.eval(), (x,))" if len(args) > 1 else None


@explain_arguments
@with_remedy(_export_first)
def from_exported(program: Any, *, name: str = "main", decompose: bool = True) -> IRModule:
    """Import a program of ``torch.export.export``.

    The module has one function, whose parameters are the program's tensor inputs in order.
    Parameters and buffers are constants that share the memory of their tensors. Dynamic dimensions
    stay symbolic, and the function's attribute ``torch_ranges`` has their bounds.

    The function returns the output, or a tuple of several: the leaves of what the model returns, in
    order. Those may be tensors, sizes, and Python numbers, strings and None, which are constants.

    Buffers that the program changes are parameters after the inputs, and their new values are
    outputs after the others; the attribute ``torch_mutated`` names them in that order.

    ``decompose``: break operators without converters into core ones first, by
    ``program.run_decompositions``. Leave it out for a program that was decomposed already.

    Errors: PTC0001; PTC0002 for any other object; PTC0010 to PTC0013 for everything that cannot be
    imported, in one error.
    """
    torch = torch_package()
    load_converters()
    if not isinstance(program, torch_package("export").ExportedProgram):
        raise refuse_program(
            "PTC0002",
            f"a program of torch.export is needed, not a {type(program).__name__}",
            help="export it first: torch.export.export(model.eval(), (x,))"
            if isinstance(program, torch.nn.Module)
            else "pass the result of torch.export.export(model, inputs)",
        )
    if decompose and not is_decomposed(program):
        with torch.no_grad():
            program = program.run_decompositions(export_decompositions())
    return _import(program, name)


def _import(program: Any, name: str) -> IRModule:
    signature = program.graph_signature
    changes = {
        i: spec.target
        for i, spec in enumerate(signature.output_specs)
        if spec.kind.name in ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION")
    }
    constants: dict[Any, Any] = {}
    own: list[Any] = []
    mutated: dict[str, Any] = {}
    names: dict[Any, str] = {}
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    for spec in signature.input_specs:
        node = nodes.get(getattr(spec.arg, "name", ""))
        if node is None or spec.kind.name == "TOKEN":  # a token only orders effects
            continue
        tensor = _tensor_of(program, spec)
        if tensor is None:
            own.append(node)
        elif spec.target in changes.values():
            mutated[spec.target] = node
            names[node] = spec.target
        else:
            constants[node] = tensor
    attrs: dict[str, Any] = {}
    if changes:
        attrs["torch_mutated"] = list(changes.values())
    ranges = _ranges(program)
    if ranges:
        attrs["torch_ranges"] = ranges
    made = translate(
        program.graph_module,
        constants=constants,
        name=name,
        names=names,
        outputs=[*_user_outputs(program), *changes],
        attrs=attrs,
        order=[*own, *[mutated[t] for t in changes.values() if t in mutated]],
    )
    return made.module


def _tensor_of(program: Any, spec: Any) -> Any:
    """Return the program's own tensor for an input; None if the caller passes it."""
    kind = spec.kind.name
    if kind in ("PARAMETER", "BUFFER"):
        found = program.state_dict.get(spec.target)
        return program.constants.get(spec.target) if found is None else found
    if kind == "CONSTANT_TENSOR":
        return program.constants[spec.target]
    return None


def _user_outputs(program: Any) -> list[int]:
    """Return the indices of the outputs that the model itself returns."""
    return [
        i
        for i, spec in enumerate(program.graph_signature.output_specs)
        if spec.kind.name == "USER_OUTPUT"
    ]


def _ranges(program: Any) -> Mapping[str, Any]:
    """Return the least and the greatest value of each dynamic dimension; -1 is no bound."""
    found: dict[str, Any] = {}
    for symbol, bounds in program.range_constraints.items():
        greatest = bounds.upper
        found[str(symbol)] = [
            int(bounds.lower) if bounds.lower.is_Integer else 0,
            int(greatest) if greatest.is_Integer else -1,
        ]
    return found
