"""The public name of ``loomir.frontend.onnx``."""

from __future__ import annotations

import sys

from loomir.frontend import onnx
from loomir.frontend.onnx import *  # noqa: F403 - what type checkers see

sys.modules[__name__] = onnx
