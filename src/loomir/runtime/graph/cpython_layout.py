"""Memory layouts on which the fast entry into graphs relies: NumPy's, CPython's and Loomir's.

Offsets are in bytes, for 64-bit machines. ``runtime.graph.fast_call`` tests each offset on arrays
before it runs code that depends on it; ``codegen.llvm.support.ir.fast_call`` writes that code.
"""

from __future__ import annotations

from typing import Final

# Python objects and NumPy arrays.
OBJECT_TYPE: Final = 8  # pointer
OBJECT_SIZE: Final = 16
ARRAY_DATA: Final = 16  # pointer
ARRAY_RANK: Final = 24  # i32
ARRAY_SHAPE: Final = 32  # pointer to i64
ARRAY_STRIDES: Final = 40  # pointer to i64, in bytes
ARRAY_DTYPE: Final = 56  # pointer
ARRAY_FLAGS: Final = 64  # i32
ARRAY_SIZE: Final = 72
ARRAY_ROW_MAJOR: Final = 0x1
ARRAY_ALIGNED: Final = 0x100
ARRAY_WRITEABLE: Final = 0x400

# NumPy's table of functions.
API_VERSION: Final = 0
API_NEW_FROM_DESCR: Final = 94
API_SET_BASE_OBJECT: Final = 282
API_MAJOR: Final = 2

# The host's words: the class of arrays, two functions of NumPy, None, the number of dtypes, and for
# each dtype its object, DLPack's word, and the bytes of an element.
HOST_CLASS: Final = 0
HOST_NEW: Final = 8
HOST_BASE: Final = 16
HOST_NONE: Final = 24
HOST_COUNT: Final = 32
HOST_DTYPES: Final = 40
HOST_STEP: Final = 24

# A function's words: the entry of the program, the function object, the number of its arguments,
# and the most values of a fault.
FUNCTION_ENTER: Final = 0
FUNCTION_OBJECT: Final = 8
FUNCTION_COUNT: Final = 16
FUNCTION_VALUES: Final = 24

# The words of a call that Python must finish: the status, the result, the number of lent tensors,
# these tensors, and the report.
RECORD_STATUS: Final = 0
RECORD_RESULT: Final = 8
RECORD_COUNT: Final = 16
RECORD_LENT: Final = 24

CAPSULE: Final = b"loomir.tensor"
"""The name of the capsules that own results for NumPy."""
