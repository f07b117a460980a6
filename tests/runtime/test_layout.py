"""The numbers of ``layout`` against the headers that tvm-ffi ships, as a C compiler reads them."""

from __future__ import annotations

import ctypes
import importlib.util
import re
from pathlib import Path

import pytest

from loomir.runtime import layout as at

C = {
    "uint8_t": ctypes.c_uint8,
    "uint16_t": ctypes.c_uint16,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "DLDeviceType": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "double": ctypes.c_double,
}


def header(name: str) -> str:
    """The text of a header without comments and preprocessor lines."""
    found = importlib.util.find_spec("tvm_ffi")
    assert found is not None
    assert found.origin is not None
    text = (Path(found.origin).parent / "include" / name).read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.sub(r"//[^\n]*|^\s*#[^\n]*", "", text, flags=re.MULTILINE)


def struct(text: str, name: str, known: dict[str, type]) -> type[ctypes.Structure]:
    """Make a ctypes structure of a C struct whose unions count by their largest first member."""
    end = re.search(rf"\}}\s*{name}\s*;", text)
    assert end is not None, name
    # The body starts at the brace that matches the last one.
    depth, start = 1, end.start()
    while depth:
        start -= 1
        depth += {"}": 1, "{": -1}.get(text[start], 0)
    body = text[start + 1 : end.start()]
    fields: list[tuple[str, type]] = []
    for kind, union, declaration in re.findall(r"(union)\s*\{(.*?)\};|([^;{}]+);", body, re.DOTALL):
        if kind:
            members = [member(m, known) for m in union.split(";") if m.strip()]
            fields.append(max(members, key=lambda m: ctypes.sizeof(m[1])))
            continue
        fields.append(member(declaration, known))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def member(declaration: str, known: dict[str, type]) -> tuple[str, type]:
    """Read one member: a function pointer, an array, a pointer, or a value."""
    declaration = declaration.strip()
    pointer = re.search(r"\(\*(\w+)\)", declaration)
    if pointer:
        return pointer[1], ctypes.c_void_p
    array = re.fullmatch(r"char\s+(\w+)\[(\d+)\]", declaration)
    if array:
        return array[1], ctypes.c_char * int(array[2])
    kind, star, name = re.fullmatch(
        r"(?:const\s+)?(?:struct\s+)?(\w+)\s*(\*?)\s*(\w+)", declaration
    ).groups()  # type: ignore[union-attr]
    return name, ctypes.c_void_p if star else {**C, **known}[kind]


@pytest.fixture(scope="module")
def structs() -> dict[str, type[ctypes.Structure]]:
    dlpack, api = header("dlpack/dlpack.h"), header("tvm/ffi/c_api.h")
    made: dict[str, type[ctypes.Structure]] = {}
    for name in ("DLPackVersion", "DLDevice", "DLDataType", "DLTensor", "DLManagedTensorVersioned"):
        made[name] = struct(dlpack, name, made)
    for name in ("TVMFFIObject", "TVMFFIAny"):
        made[name] = struct(api, name, made)
    return made


def test_any(structs: dict[str, type[ctypes.Structure]]):
    any_ = structs["TVMFFIAny"]
    assert ctypes.sizeof(any_) == at.ANY_SIZE
    assert any_.type_index.offset == at.ANY_TYPE_INDEX
    assert any_.type_index.size == 4
    assert any_.zero_padding.offset == at.ANY_PADDING
    assert any_.v_int64.offset == at.ANY_VALUE
    assert any_.v_int64.size == 8


def test_tensor(structs: dict[str, type[ctypes.Structure]]):
    tensor, dtype, device = structs["DLTensor"], structs["DLDataType"], structs["DLDevice"]
    assert ctypes.sizeof(tensor) == at.DLTENSOR_SIZE
    assert tensor.data.offset == at.DLTENSOR_DATA
    assert tensor.device.offset + device.device_type.offset == at.DLTENSOR_DEVICE_TYPE
    assert tensor.device.offset + device.device_id.offset == at.DLTENSOR_DEVICE_ID
    assert tensor.ndim.offset == at.DLTENSOR_NDIM
    assert tensor.dtype.offset + dtype.code.offset == at.DLTENSOR_CODE
    assert tensor.dtype.offset + dtype.bits.offset == at.DLTENSOR_BITS
    assert tensor.dtype.offset + dtype.lanes.offset == at.DLTENSOR_LANES
    assert tensor.shape.offset == at.DLTENSOR_SHAPE
    assert tensor.strides.offset == at.DLTENSOR_STRIDES
    assert tensor.byte_offset.offset == at.DLTENSOR_BYTE_OFFSET


def test_tensor_object_holds_the_tensor_after_its_header(
    structs: dict[str, type[ctypes.Structure]],
):
    assert ctypes.sizeof(structs["TVMFFIObject"]) == at.TENSOR_OBJECT_DLTENSOR
    text = header("tvm/ffi/c_api.h")
    assert re.search(
        r"TVMFFITensorGetDLTensorPtr.*?obj\)\s*\+\s*sizeof\(TVMFFIObject\)", text, re.DOTALL
    )


def test_managed_tensor(structs: dict[str, type[ctypes.Structure]]):
    managed = structs["DLManagedTensorVersioned"]
    assert managed.version.offset == at.MANAGED_MAJOR
    assert managed.flags.offset == at.MANAGED_FLAGS
    assert managed.dl_tensor.offset == at.MANAGED_DLTENSOR
    text = (
        Path(importlib.util.find_spec("tvm_ffi").origin).parent / "include/dlpack/dlpack.h"  # type: ignore[union-attr,arg-type]
    ).read_text(encoding="utf-8")
    assert re.search(r"DLPACK_FLAG_BITMASK_READ_ONLY \(1UL << 0UL\)", text)
    assert at.MANAGED_FLAG_READ_ONLY == 1 << 0


def test_numbers_of_kinds():
    api, dlpack = header("tvm/ffi/c_api.h"), header("dlpack/dlpack.h")

    def number(text: str, name: str) -> int:
        found = re.search(rf"\b{name}\s*=\s*(\d+)", text)
        assert found is not None, name
        return int(found[1])

    assert number(api, "kTVMFFINone") == at.TYPE_NONE
    assert number(api, "kTVMFFIInt") == at.TYPE_INT
    assert number(api, "kTVMFFIBool") == at.TYPE_BOOL
    assert number(api, "kTVMFFIFloat") == at.TYPE_FLOAT
    assert number(api, "kTVMFFIOpaquePtr") == at.TYPE_OPAQUE_PTR
    assert number(api, "kTVMFFIDLTensorPtr") == at.TYPE_DLTENSOR_PTR
    assert number(api, "kTVMFFITensor") == at.TYPE_TENSOR
    assert number(dlpack, "kDLCPU") == at.DEVICE_CPU
    assert number(dlpack, "kDLInt") == at.CODE_INT
    assert number(dlpack, "kDLUInt") == at.CODE_UINT
    assert number(dlpack, "kDLFloat") == at.CODE_FLOAT
    assert number(dlpack, "kDLBfloat") == at.CODE_BFLOAT
    assert number(dlpack, "kDLBool") == at.CODE_BOOL
