"""The runtime: loaded code and calls of it, usable without the compiler."""

from loomir.runtime.errors import (
    CacheWarning,
    RunAssertionError,
    RunIndexError,
    RunKeyError,
    RunMemoryError,
    RunOverflowError,
    RunRecursionError,
    RunTypeError,
    RunValueError,
    RunZeroDivisionError,
)
from loomir.runtime.executable import Executable
from loomir.runtime.fault import Fault, FaultKind, Value
from loomir.runtime.function import Function
from loomir.runtime.packed.nan_check import check_nan
from loomir.runtime.packed.registry import get_func, list_funcs, register_func, remove_func
from loomir.runtime.parameter import Parameter
from loomir.runtime.storage.object_cache import CacheSize, ObjectCache

__all__ = [
    "CacheSize",
    "CacheWarning",
    "Executable",
    "Fault",
    "FaultKind",
    "Function",
    "ObjectCache",
    "Parameter",
    "RunAssertionError",
    "RunIndexError",
    "RunKeyError",
    "RunMemoryError",
    "RunOverflowError",
    "RunRecursionError",
    "RunTypeError",
    "RunValueError",
    "RunZeroDivisionError",
    "Value",
    "check_nan",
    "get_func",
    "list_funcs",
    "register_func",
    "remove_func",
]
