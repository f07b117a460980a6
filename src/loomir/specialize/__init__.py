"""Functions that are compiled at their first call, once for each set of dtypes and ranks."""

from loomir.specialize.function import JitFunction, jit

__all__ = ["JitFunction", "jit"]
