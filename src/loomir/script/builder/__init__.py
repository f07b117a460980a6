"""The builder of programs: frames, and the functions of ``T`` that create and fill them."""

from loomir.script.builder.frame import Frame, IRBuilder
from loomir.script.builder.mistakes import ArgumentError

__all__ = ["ArgumentError", "Frame", "IRBuilder"]
