"""``loomir.frontend.onnx`` under the name by which users import it."""

from __future__ import annotations

import sys

from loomir.frontend import onnx
from loomir.frontend.onnx import *  # noqa: F403 - what type checkers see

sys.modules[__name__] = onnx
