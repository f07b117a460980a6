"""Tensor Comprehensions: index notation whose ranges and output shapes are inferred."""

from loomir.tc.define import Comprehension, Operator, define

__all__ = ["Comprehension", "Operator", "define"]
