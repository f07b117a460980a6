"""Types of a call's arguments: arrays by dtype and rank, numbers by dtype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from loomir.runtime.dlpack import capsule_of, is_array
from loomir.runtime.errors import RunTypeError
from loomir.runtime.ffi import is_tensor, tensor_from_capsule
from loomir.runtime.torch_tensor import is_torch_tensor
from loomir.script.parser.open_function import ArgumentType, OpenParameter
from loomir.support.diagnostics import Diagnostic, RunError, with_article
from loomir.support.dtype import DataType, dtype_of_numpy
from loomir.support.runtime_types import quote_name

__all__ = ["share_extents", "types_of"]

_INT: Final = DataType("int64")
_BOOL: Final = DataType("bool")
_WIDEST: Final = DataType("float64")
_SINGLE: Final = DataType("float32")
_EXPORT_ERRORS: Final = (AttributeError, BufferError, RuntimeError, TypeError, ValueError)


def types_of(
    parameters: Sequence[OpenParameter], given: Mapping[str, object], *, is_graph: bool = False
) -> dict[str, ArgumentType]:
    """Return the types of the arguments for open parameters.

    A Python float gets the widest float dtype of the call's arrays, or float64 without any: as in
    NumPy, ``x * 2.0`` is float32 if ``x`` is. In graphs, a Python integer gets it too, or else the
    dtype of the first array.

    Errors: RUN0103 for an argument that is no array and no number, RUN0105 for elements of a dtype
    that TIR does not have.
    """
    found: dict[str, ArgumentType] = {}
    plain: list[str] = []
    integers: list[str] = []
    floats: set[DataType] = set()
    for p in parameters:
        if p.name not in given:
            continue
        value = given[p.name]
        if not p.is_open:
            floats |= _floats_of(value)
            continue
        if type(value) is float and p.may_be_number:
            plain.append(p.name)
            found[p.name] = ArgumentType(_WIDEST)
            continue
        if is_graph and type(value) is int and p.may_be_number:
            integers.append(p.name)
            found[p.name] = ArgumentType(_INT)
            continue
        found[p.name] = made = _type_of(p, value)
        if made.rank is not None and made.dtype.is_float:
            floats.add(made.dtype)
    for name in plain:
        found[name] = ArgumentType(_widest(floats))
    arrays = [t.dtype for t in found.values() if t.rank is not None and not t.dtype.is_bool]
    for name in integers:
        if floats or arrays:
            found[name] = ArgumentType(_widest(floats) if floats else arrays[0])
    return found


def share_extents(
    types: Mapping[str, ArgumentType], given: Mapping[str, object]
) -> dict[str, ArgumentType]:
    """Name the extents of a graph's arguments: equal ones get one name, and 1 stays 1.

    Equal extents decide how a graph broadcasts and what it can fuse.
    """
    names: dict[int, str | int] = {1: 1}
    made: dict[str, ArgumentType] = {}
    for name, found in types.items():
        shape: Any = getattr(given[name], "shape", None)
        if found.rank is None or shape is None or len(shape) != found.rank:
            made[name] = found
            continue
        extents: list[str | int] = []
        for axis, extent in enumerate(shape):
            known = names.setdefault(int(extent), f"{name}_{axis}")
            # Equal extents of one argument are more often coincidence than intention.
            extents.append(f"{name}_{axis}" if known in extents and known != 1 else known)
        made[name] = found._replace(extents=tuple(extents))
    return made


def _widest(floats: set[DataType]) -> DataType:
    if not floats:
        return _WIDEST
    bits = max(dtype.bits for dtype in floats)
    widest = [dtype for dtype in floats if dtype.bits == bits]
    return widest[0] if len(widest) == 1 else _SINGLE  # float16 beside bfloat16


def _floats_of(value: Any) -> set[DataType]:
    """Return the float dtype of an array with a declared dtype, as a set; empty for others."""
    if not is_array(value):
        return set()
    dtype = dtype_of_numpy(value.dtype)
    return {dtype} if dtype is not None and dtype.is_float else set()


def _type_of(parameter: OpenParameter, value: Any) -> ArgumentType:
    if is_array(value):
        return ArgumentType(_check_known(parameter, value.dtype), value.ndim)
    if is_torch_tensor(value):
        return ArgumentType(
            _read_name(parameter, str(value.dtype).removeprefix("torch.")), value.ndim
        )
    is_scalar = _is_scalar(value)
    if not is_scalar and (is_tensor(value) or hasattr(value.__class__, "__dlpack__")):
        return _ask_dlpack(parameter, value)
    if parameter.may_be_number:
        if is_scalar:
            return ArgumentType(_check_known(parameter, value.dtype))
        if isinstance(value, bool):
            return ArgumentType(_BOOL)
        if isinstance(value, float):
            return ArgumentType(_WIDEST)
        if hasattr(value.__class__, "__index__"):
            return ArgumentType(_INT)
    raise _no_array(parameter, value)


def _is_scalar(value: object) -> bool:
    return isinstance(value, np.generic)


def _ask_dlpack(parameter: OpenParameter, value: Any) -> ArgumentType:
    """Read the type of another library's array through DLPack."""
    try:
        tensor: Any = value if is_tensor(value) else tensor_from_capsule(capsule_of(value))
    except _EXPORT_ERRORS as error:
        raise _refuse(
            parameter,
            "RUN0110",
            f"({_kind(value)}) does not export its memory: {error}",
            f"pass numpy.array(...) of {parameter.name}, or what else has its data",
        ) from error
    return ArgumentType(_read_name(parameter, str(tensor.dtype)), len(tensor.shape))


def _check_known(parameter: OpenParameter, dtype: Any) -> DataType:
    found = dtype_of_numpy(dtype)
    if found is not None:
        return found
    native: Any = dtype.newbyteorder("=")
    if dtype_of_numpy(native) is not None:
        raise _refuse(
            parameter,
            "RUN0105",
            f"has elements in the byte order of other machines ({dtype.str})",
            f"pass {parameter.name}.astype({native.name!r})",
        )
    raise _no_dtype(parameter, str(dtype))


def _read_name(parameter: OpenParameter, name: str) -> DataType:
    try:
        return DataType(name)
    except Exception as error:
        raise _no_dtype(parameter, name) from error


def _no_dtype(parameter: OpenParameter, name: str) -> RunError:
    return _refuse(
        parameter,
        "RUN0105",
        f"has elements of dtype {name}, for which there is no dtype in TIR",
        f"convert it: pass {parameter.name}.astype('float32'), or another number's dtype",
    )


def _no_array(parameter: OpenParameter, value: Any) -> RunError:
    wanted = "an array or a number" if parameter.may_be_number else "an array"
    help_ = "pass a NumPy array, a PyTorch tensor, or anything that has __dlpack__"
    if isinstance(value, (list, tuple)):
        help_ = f"make it an array first: numpy.array({parameter.name}, dtype='float32')"
    elif _is_scalar(value) or isinstance(value, (int, float)):
        help_ = f"for an array without axes pass numpy.array({parameter.name})"
    return _refuse(parameter, "RUN0103", f"must be {wanted}, not {_kind(value)}", help_)


def _refuse(parameter: OpenParameter, code: str, what: str, remedy: str) -> RunError:
    return RunTypeError(
        Diagnostic(
            code,
            f"{parameter.name} {what}",
            span=parameter.span,
            label=f"{parameter.name} is declared here",
            help=remedy,
        )
    )


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, str):
        return f"the string {quote_name(value)}"
    cls = cast("type[Any]", value.__class__)
    where = "" if cls.__module__ == "builtins" else f"{cls.__module__}."
    return with_article(f"{where}{cls.__qualname__}")
