"""Operators on images."""

from loomir.op.image.grid import *  # noqa: F403
from loomir.op.image.resizing import *  # noqa: F403
