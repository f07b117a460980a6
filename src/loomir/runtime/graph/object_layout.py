"""The memory layout of graph values: reference-counted objects.

Offsets and sizes are in bytes, for 64-bit machines; ``codegen.llvm.support.ir.objects`` writes the
code that creates and frees objects. Every object begins with a header: reference count, kind,
flags.

- A negative count never changes: the object is a constant in some program's code.
- A tensor's DLTensor points to its extents, which follow it, and to its data: after the extents, in
  memory of another object (``owner``), or in memory borrowed from Python until the call ends.
- Tuples, closures and packed functions own their items.
- Kinds are indices into ``relax.faults.KINDS``; a test compares them.
"""

from __future__ import annotations

from typing import Final

from loomir.runtime.layout import DLTENSOR_SIZE

# The header.
COUNT: Final = 0  # i64
KIND: Final = 8  # i32
FLAGS: Final = 12  # i32
HEADER_SIZE: Final = 16
IMMORTAL: Final = -(2**62)
"""The reference count of constants: far below 0, so that they are never freed."""

# Kinds.
TENSOR: Final = 0
TUPLE: Final = 1
SHAPE: Final = 2
PRIM: Final = 3
CLOSURE: Final = 4
PACKED: Final = 5
STRING: Final = 6
DTYPE: Final = 7
NULL_OBJECT: Final = 8
FOREIGN: Final = 9

# Flags.
READ_ONLY: Final = 1
"""A tensor whose memory must not be written."""
UNTYPED: Final = 4
"""A scalar from a Python number: it takes the first dtype that is required of it."""
TRAMPOLINE: Final = 2
"""A Python function: its first item is the foreign object to call."""
LENT: Final = 8
"""A tensor with memory of no object: the lender keeps the memory until the tensor is freed."""

# A tensor. Its extents follow, then its strides if it has any, then, aligned, its own data.
TENSOR_DLTENSOR: Final = HEADER_SIZE
TENSOR_OWNER: Final = TENSOR_DLTENSOR + DLTENSOR_SIZE  # pointer to an object, or NULL
TENSOR_CAPACITY: Final = TENSOR_OWNER + 8  # i64: the bytes available from its first element on
TENSOR_EXTENTS: Final = TENSOR_CAPACITY + 8  # i64 each
DATA_ALIGNMENT: Final = 64

# Tuples, shapes and strings: the length, then the items, extents or bytes (and a zero after bytes).
LENGTH: Final = HEADER_SIZE  # i64
ITEMS: Final = LENGTH + 8

# Closures and packed functions: the number of items, the code, a description, the items.
CODE: Final = LENGTH + 8  # pointer: i32 (context, self, arguments, count, result)
INFO: Final = CODE + 8  # pointer to the description: three words
CAPTURED: Final = INFO + 8
INFO_PARAMETERS: Final = 0  # i64, -1 for any number
INFO_NUMBER: Final = 8  # i64: in the table of the module, -1 for a Python function
INFO_FIXED: Final = 16  # i64: 1 if all functions with this description have the same signature

# Scalars and dtypes: DLPack's code, bits and lanes in one word; then, for a scalar, its 64 bits.
DTYPE_WORD: Final = HEADER_SIZE  # i64
PRIM_VALUE: Final = DTYPE_WORD + 8

# Python objects: a handle, and the C function that releases it.
HANDLE: Final = HEADER_SIZE  # i64
RELEASE: Final = HANDLE + 8  # pointer: void (i64)

STATUS_RAISED: Final = 3
"""The status of a function in which Python raised: the caller has to write the fault."""
