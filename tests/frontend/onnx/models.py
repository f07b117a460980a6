"""Models for tests, written as text of ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser

HEAD = '<ir_version: 9, opset_import: ["" : {version}, "com.microsoft" : 1, "own" : 1]>'


def model(text: str, constants: Mapping[str, Any] | None = None, version: int = 19) -> Any:
    """Make a model of text such as ``main (float[N] x) => (float[N] y) { y = Relu(x) }``."""
    made = onnx.parser.parse_model(HEAD.format(version=version) + text)
    for name, value in (constants or {}).items():
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    return made


def reference(made: Any, *inputs: Any) -> list[Any]:
    """Run a model by the reference implementation of the standard."""
    from onnx.reference import ReferenceEvaluator

    names = [v.name for v in made.graph.input]
    return ReferenceEvaluator(made).run(None, dict(zip(names, inputs)))
