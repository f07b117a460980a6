"""Memory layouts at the native boundary: the structures of tvm-ffi and DLPack.

Offsets and sizes are in bytes, for 64-bit machines. Code generators emit loads at these offsets; a
test compares each with the headers that tvm-ffi ships.
"""

from __future__ import annotations

from typing import Final

# TVMFFIAny: an argument or a result.
ANY_SIZE: Final = 16
ANY_TYPE_INDEX: Final = 0  # i32
ANY_PADDING: Final = 4  # i32, must be zero
ANY_VALUE: Final = 8  # i64, double or pointer

# Values of the type index of a TVMFFIAny.
TYPE_NONE: Final = 0
TYPE_INT: Final = 1
TYPE_BOOL: Final = 2
TYPE_FLOAT: Final = 3
TYPE_OPAQUE_PTR: Final = 4
TYPE_DLTENSOR_PTR: Final = 7  # the value points to a DLTensor
TYPE_RAW_STR: Final = 8  # the value points to a C string
TYPE_ERROR: Final = 67
TYPE_TENSOR: Final = 70  # the value points to an object that holds a DLTensor
TENSOR_OBJECT_DLTENSOR: Final = 24

# DLTensor.
DLTENSOR_SIZE: Final = 48
DLTENSOR_DATA: Final = 0  # pointer
DLTENSOR_DEVICE_TYPE: Final = 8  # i32
DLTENSOR_DEVICE_ID: Final = 12  # i32
DLTENSOR_NDIM: Final = 16  # i32
DLTENSOR_CODE: Final = 20  # u8
DLTENSOR_BITS: Final = 21  # u8
DLTENSOR_LANES: Final = 22  # u16
DLTENSOR_SHAPE: Final = 24  # pointer to i64
DLTENSOR_STRIDES: Final = 32  # pointer to i64, in elements; may be NULL
DLTENSOR_BYTE_OFFSET: Final = 40  # u64
DEVICE_CPU: Final = 1

# DLPack's codes of element types; a bool has 8 bits in memory.
CODE_INT: Final = 0
CODE_UINT: Final = 1
CODE_FLOAT: Final = 2
CODE_BFLOAT: Final = 4
CODE_BOOL: Final = 6

# DLManagedTensorVersioned, which a versioned DLPack capsule points to.
MANAGED_MAJOR: Final = 0  # u32
MANAGED_FLAGS: Final = 24  # u64
MANAGED_FLAG_READ_ONLY: Final = 1
MANAGED_DLTENSOR: Final = 32

FAULT_KIND: Final = "LoomirFault"
"""The kind of error that native code raises, with the message ``<site>;<v0>;<v1>;…;<root>``."""

SITE_ARGUMENTS: Final = -1
"""The site of arguments that do not fit; nothing was written."""
