"""Tensor Comprehensions: index notation whose ranges and output shapes are inferred."""

from loomir.support.argument_errors import explain_exported as _explain_exported
from loomir.tc.define import Comprehension, Operator, define

__all__ = ["Comprehension", "Operator", "define"]

globals().update(_explain_exported(globals(), __all__))
