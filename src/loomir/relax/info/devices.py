"""Devices in structural information: read them, and fill them in."""

from __future__ import annotations

from collections.abc import Iterator

from loomir.ir.module import VDevice
from loomir.ir.visit import Step, trampoline
from loomir.relax.info.describe import format_info
from loomir.relax.info.relations import is_same_device
from loomir.relax.node import StructInfo
from loomir.relax.struct_info import (
    FuncStructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from loomir.support.span import Span
from loomir.tir.rules import refuse

__all__ = ["find_only_device", "tensors_in", "update_struct_info", "with_devices"]


def tensors_in(info: StructInfo) -> Iterator[TensorStructInfo]:
    """List the tensors that a value holds: itself, or the fields of a tuple."""
    stack = [info]
    while stack:
        part = stack.pop()
        if isinstance(part, TensorStructInfo):
            yield part
        elif isinstance(part, TupleStructInfo):
            stack.extend(reversed(part.fields))


def find_only_device(info: StructInfo) -> VDevice | None:
    """Return the device of a tensor, or the one of all tensors of a tuple that have one."""
    found: VDevice | None = None
    for tensor in tensors_in(info):
        if tensor.vdevice is not None:
            if found is not None and not is_same_device(found, tensor.vdevice):
                return None
            found = tensor.vdevice
    return found


def update_struct_info(info: StructInfo, device: VDevice, span: Span | None = None) -> StructInfo:
    """Put a tensor on a device, or those of a tuple, or what a function returns.

    Errors: RLX0320 for a tensor that is on another device.
    """
    return trampoline(_update(info, device, span))


def _update(info: StructInfo, device: VDevice, span: Span | None) -> Step[StructInfo]:
    if isinstance(info, TensorStructInfo):
        return _place_on(info, device, span)
    if isinstance(info, TupleStructInfo):
        fields: list[StructInfo] = []
        for field in info.fields:
            fields.append((yield _update(field, device, span)))
        return _tuple(info, fields)
    if isinstance(info, FuncStructInfo) and info.params is not None:
        ret = yield _update(info.ret, device, span)
        return info if ret is info.ret else _replace_result(info, ret)
    return info


def with_devices(info: StructInfo, source: StructInfo, span: Span | None = None) -> StructInfo:
    """Fill in the devices that another description of the same value has.

    Errors: RLX0320 where both have one and they differ.
    """
    return trampoline(_fill(info, source, span))


def _fill(info: StructInfo, source: StructInfo, span: Span | None) -> Step[StructInfo]:
    if isinstance(info, TensorStructInfo):
        if isinstance(source, TensorStructInfo) and source.vdevice is not None:
            return _place_on(info, source.vdevice, span)
    elif isinstance(info, TupleStructInfo):
        if isinstance(source, TupleStructInfo) and len(source.fields) == len(info.fields):
            fields: list[StructInfo] = []
            for mine, theirs in zip(info.fields, source.fields):
                fields.append((yield _fill(mine, theirs, span)))
            return _tuple(info, fields)
    elif isinstance(info, FuncStructInfo) and isinstance(source, FuncStructInfo):
        if info.params is None or source.params is None:
            return info
        params: list[StructInfo] = []
        for mine, theirs in zip(info.params, source.params):
            params.append((yield _fill(mine, theirs, span)))
        ret = yield _fill(info.ret, source.ret, span)
        same = all(a is b for a, b in zip(params, info.params))
        if not same or ret is not info.ret:
            return FuncStructInfo(tuple(params), ret, info.purity, span=info.span)
    return info


def _place_on(info: TensorStructInfo, device: VDevice, span: Span | None) -> TensorStructInfo:
    if info.vdevice is None:
        return TensorStructInfo(info.shape, info.dtype, device, info.ndim, span=info.span)
    if not is_same_device(info.vdevice, device):
        refuse(
            "RLX0320",
            f"a tensor is wanted on {_name_device(device)} and on"
            f" {_name_device(info.vdevice)}: {format_info(info)}",
            help="move it with R.to_vdevice",
            span=span or info.span,
        )
    return info


def _name_device(device: VDevice) -> str:
    return f"{device.target} {device.dev_id}"


def _tuple(info: TupleStructInfo, fields: list[StructInfo]) -> TupleStructInfo:
    if all(a is b for a, b in zip(fields, info.fields)):
        return info
    return TupleStructInfo(tuple(fields), span=info.span)


def _replace_result(info: FuncStructInfo, ret: StructInfo) -> FuncStructInfo:
    return FuncStructInfo(info.params, ret, info.purity, span=info.span)
