"""The names of dtypes in ``T``, in one list."""

from __future__ import annotations

from typing import Final

from loomir.script.builder.dtypes import DTypeFunction, HandleFunction

__all__ = [
    "bf16",
    "bfloat16",
    "bfloat16x2",
    "bfloat16x3",
    "bfloat16x4",
    "bfloat16x8",
    "bfloat16x16",
    "bfloat16x32",
    "bfloat16x64",
    "bool",
    "boolean",
    "boolx2",
    "boolx3",
    "boolx4",
    "boolx8",
    "boolx16",
    "boolx32",
    "boolx64",
    "f16",
    "f32",
    "f64",
    "float16",
    "float16x2",
    "float16x3",
    "float16x4",
    "float16x8",
    "float16x16",
    "float16x32",
    "float16x64",
    "float32",
    "float32x2",
    "float32x3",
    "float32x4",
    "float32x8",
    "float32x16",
    "float32x32",
    "float32x64",
    "float64",
    "float64x2",
    "float64x3",
    "float64x4",
    "float64x8",
    "float64x16",
    "float64x32",
    "float64x64",
    "handle",
    "i8",
    "i16",
    "i32",
    "i64",
    "int8",
    "int8x2",
    "int8x3",
    "int8x4",
    "int8x8",
    "int8x16",
    "int8x32",
    "int8x64",
    "int16",
    "int16x2",
    "int16x3",
    "int16x4",
    "int16x8",
    "int16x16",
    "int16x32",
    "int16x64",
    "int32",
    "int32x2",
    "int32x3",
    "int32x4",
    "int32x8",
    "int32x16",
    "int32x32",
    "int32x64",
    "int64",
    "int64x2",
    "int64x3",
    "int64x4",
    "int64x8",
    "int64x16",
    "int64x32",
    "int64x64",
    "u8",
    "u16",
    "u32",
    "u64",
    "uint1",
    "uint8",
    "uint8x2",
    "uint8x3",
    "uint8x4",
    "uint8x8",
    "uint8x16",
    "uint8x32",
    "uint8x64",
    "uint16",
    "uint16x2",
    "uint16x3",
    "uint16x4",
    "uint16x8",
    "uint16x16",
    "uint16x32",
    "uint16x64",
    "uint32",
    "uint32x2",
    "uint32x3",
    "uint32x4",
    "uint32x8",
    "uint32x16",
    "uint32x32",
    "uint32x64",
    "uint64",
    "uint64x2",
    "uint64x3",
    "uint64x4",
    "uint64x8",
    "uint64x16",
    "uint64x32",
    "uint64x64",
    "void",
]

# One line each, so that editors know every name.
boolean: Final = DTypeFunction("bool")
void: Final = DTypeFunction("void")
handle: Final = HandleFunction("handle")
int8: Final = DTypeFunction("int8")
int8x2: Final = DTypeFunction("int8x2")
int8x3: Final = DTypeFunction("int8x3")
int8x4: Final = DTypeFunction("int8x4")
int8x8: Final = DTypeFunction("int8x8")
int8x16: Final = DTypeFunction("int8x16")
int8x32: Final = DTypeFunction("int8x32")
int8x64: Final = DTypeFunction("int8x64")
int16: Final = DTypeFunction("int16")
int16x2: Final = DTypeFunction("int16x2")
int16x3: Final = DTypeFunction("int16x3")
int16x4: Final = DTypeFunction("int16x4")
int16x8: Final = DTypeFunction("int16x8")
int16x16: Final = DTypeFunction("int16x16")
int16x32: Final = DTypeFunction("int16x32")
int16x64: Final = DTypeFunction("int16x64")
int32: Final = DTypeFunction("int32")
int32x2: Final = DTypeFunction("int32x2")
int32x3: Final = DTypeFunction("int32x3")
int32x4: Final = DTypeFunction("int32x4")
int32x8: Final = DTypeFunction("int32x8")
int32x16: Final = DTypeFunction("int32x16")
int32x32: Final = DTypeFunction("int32x32")
int32x64: Final = DTypeFunction("int32x64")
int64: Final = DTypeFunction("int64")
int64x2: Final = DTypeFunction("int64x2")
int64x3: Final = DTypeFunction("int64x3")
int64x4: Final = DTypeFunction("int64x4")
int64x8: Final = DTypeFunction("int64x8")
int64x16: Final = DTypeFunction("int64x16")
int64x32: Final = DTypeFunction("int64x32")
int64x64: Final = DTypeFunction("int64x64")
uint8: Final = DTypeFunction("uint8")
uint8x2: Final = DTypeFunction("uint8x2")
uint8x3: Final = DTypeFunction("uint8x3")
uint8x4: Final = DTypeFunction("uint8x4")
uint8x8: Final = DTypeFunction("uint8x8")
uint8x16: Final = DTypeFunction("uint8x16")
uint8x32: Final = DTypeFunction("uint8x32")
uint8x64: Final = DTypeFunction("uint8x64")
uint16: Final = DTypeFunction("uint16")
uint16x2: Final = DTypeFunction("uint16x2")
uint16x3: Final = DTypeFunction("uint16x3")
uint16x4: Final = DTypeFunction("uint16x4")
uint16x8: Final = DTypeFunction("uint16x8")
uint16x16: Final = DTypeFunction("uint16x16")
uint16x32: Final = DTypeFunction("uint16x32")
uint16x64: Final = DTypeFunction("uint16x64")
uint32: Final = DTypeFunction("uint32")
uint32x2: Final = DTypeFunction("uint32x2")
uint32x3: Final = DTypeFunction("uint32x3")
uint32x4: Final = DTypeFunction("uint32x4")
uint32x8: Final = DTypeFunction("uint32x8")
uint32x16: Final = DTypeFunction("uint32x16")
uint32x32: Final = DTypeFunction("uint32x32")
uint32x64: Final = DTypeFunction("uint32x64")
uint64: Final = DTypeFunction("uint64")
uint64x2: Final = DTypeFunction("uint64x2")
uint64x3: Final = DTypeFunction("uint64x3")
uint64x4: Final = DTypeFunction("uint64x4")
uint64x8: Final = DTypeFunction("uint64x8")
uint64x16: Final = DTypeFunction("uint64x16")
uint64x32: Final = DTypeFunction("uint64x32")
uint64x64: Final = DTypeFunction("uint64x64")
float16: Final = DTypeFunction("float16")
float16x2: Final = DTypeFunction("float16x2")
float16x3: Final = DTypeFunction("float16x3")
float16x4: Final = DTypeFunction("float16x4")
float16x8: Final = DTypeFunction("float16x8")
float16x16: Final = DTypeFunction("float16x16")
float16x32: Final = DTypeFunction("float16x32")
float16x64: Final = DTypeFunction("float16x64")
float32: Final = DTypeFunction("float32")
float32x2: Final = DTypeFunction("float32x2")
float32x3: Final = DTypeFunction("float32x3")
float32x4: Final = DTypeFunction("float32x4")
float32x8: Final = DTypeFunction("float32x8")
float32x16: Final = DTypeFunction("float32x16")
float32x32: Final = DTypeFunction("float32x32")
float32x64: Final = DTypeFunction("float32x64")
float64: Final = DTypeFunction("float64")
float64x2: Final = DTypeFunction("float64x2")
float64x3: Final = DTypeFunction("float64x3")
float64x4: Final = DTypeFunction("float64x4")
float64x8: Final = DTypeFunction("float64x8")
float64x16: Final = DTypeFunction("float64x16")
float64x32: Final = DTypeFunction("float64x32")
float64x64: Final = DTypeFunction("float64x64")
bfloat16: Final = DTypeFunction("bfloat16")
bfloat16x2: Final = DTypeFunction("bfloat16x2")
bfloat16x3: Final = DTypeFunction("bfloat16x3")
bfloat16x4: Final = DTypeFunction("bfloat16x4")
bfloat16x8: Final = DTypeFunction("bfloat16x8")
bfloat16x16: Final = DTypeFunction("bfloat16x16")
bfloat16x32: Final = DTypeFunction("bfloat16x32")
bfloat16x64: Final = DTypeFunction("bfloat16x64")
boolx2: Final = DTypeFunction("boolx2")
boolx3: Final = DTypeFunction("boolx3")
boolx4: Final = DTypeFunction("boolx4")
boolx8: Final = DTypeFunction("boolx8")
boolx16: Final = DTypeFunction("boolx16")
boolx32: Final = DTypeFunction("boolx32")
boolx64: Final = DTypeFunction("boolx64")

# Other names of the same.
bool = boolean  # noqa: A001, called as in the language
uint1 = boolean
bf16 = bfloat16
f16 = float16
f32 = float32
f64 = float64
i8 = int8
i16 = int16
i32 = int32
i64 = int64
u8 = uint8
u16 = uint16
u32 = uint32
u64 = uint64
