"""Write a model in the formats of all runtimes, with inputs and float64 results.

It is a process of its own, because it needs PyTorch and holds a model several times:
``python -m benchmarks.models.files CASE SIZE FOLDER FORMATS``. ``formats.json`` tells for each
format why it could not be written, if so.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.models import Model, models
from benchmarks.models.cases import CASES, Case

__all__ = ["export_onnx", "export_program", "main", "write"]


def as_tensors(value: Any) -> list[Any]:
    """Return the outputs of a model as a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def export_program(model: Model, *, symbolic: bool) -> Any:
    """Export a model by ``torch.export``."""
    shapes: Any = None
    if symbolic:
        named: dict[str, Any] = {}
        per_input = [
            {axis: named.setdefault(name, torch.export.Dim(name)) for axis, name in axes.items()}
            for axes in (model.dynamic.get(i, {}) for i in range(len(model.inputs)))
        ]
        shapes = tuple(per_input)
    return torch.export.export(model.module, model.inputs, dynamic_shapes=shapes)


def export_onnx(model: Model, path: Path, outputs: int, *, symbolic: bool) -> None:
    """Export a model to ONNX; its inputs are ``x0``, ``x1``, …, its outputs ``y0``, ``y1``, …."""
    axes = {f"x{i}": dict(axes) for i, axes in model.dynamic.items()} if symbolic else None
    torch.onnx.export(
        model.module,
        model.inputs,
        str(path),
        input_names=[f"x{i}" for i in range(len(model.inputs))],
        output_names=[f"y{i}" for i in range(outputs)],
        dynamic_axes=axes,
        opset_version=18,
        dynamo=False,
    )


def _write_ir(path: Path) -> None:
    import openvino  # noqa: PLC0415 - need not be installed

    model = openvino.convert_model(str(path))
    openvino.save_model(model, str(path.with_suffix(".xml")), compress_to_fp16=False)


def write(case: Case, size: str, folder: Path, formats: Collection[str]) -> dict[str, str]:
    """Write the files of a case; return what went wrong with each format, or nothing."""
    model = models(case.architecture, size)[case.model]
    tensors = [x.numpy() for x in model.inputs]
    np.savez(folder / "inputs.npz", **{f"x{i}": x for i, x in enumerate(tensors)})
    with torch.no_grad():
        count = len(as_tensors(model.module(*model.inputs)))
    onnx = folder / "model.onnx"
    exports: dict[str, Callable[[], object]] = {
        "pt": lambda: torch.save(model.module, folder / "model.pt"),
        "onnx": lambda: export_onnx(model, onnx, count, symbolic=case.symbolic),
        "pt2": lambda: torch.export.save(
            export_program(model, symbolic=case.symbolic), folder / "model.pt2"
        ),
        "xml": lambda: _write_ir(onnx),  # from the file of ONNX, hence after it
    }
    asked = {*formats, *(["onnx"] if "xml" in formats else [])}
    problems: dict[str, str] = {}
    for name in (n for n in exports if n in asked):
        try:
            exports[name]()
            problems[name] = ""
        except Exception as error:  # noqa: BLE001 - whatever an exporter raises is told
            problems[name] = f"{type(error).__name__}: {error}"[:300]
    wide = model.module.double()
    with torch.no_grad():
        given = [x.double() if x.is_floating_point() else x for x in model.inputs]
        wanted = as_tensors(wide(*given))
    np.savez(folder / "wanted.npz", **{f"y{i}": y.numpy() for i, y in enumerate(wanted)})
    (folder / "formats.json").write_text(json.dumps(problems), encoding="utf-8")
    return problems


def main() -> None:
    """Write what the command line names."""
    name, size, folder, *formats = sys.argv[1:]
    (case,) = (c for c in CASES if c.name == name)
    warnings.simplefilter("ignore")  # exporters warn of what they know to be right
    for format_, problem in write(case, size, Path(folder), formats).items():
        if problem:
            print(f"{name}: no {format_}: {problem}", file=sys.stderr)


if __name__ == "__main__":
    main()
