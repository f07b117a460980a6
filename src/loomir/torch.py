"""The public name of ``loomir.frontend.torch``."""

from __future__ import annotations

import sys

from loomir.frontend import torch
from loomir.frontend.torch import *  # noqa: F403 - what type checkers see

sys.modules[__name__] = torch
