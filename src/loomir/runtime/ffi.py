"""The interface to tvm-ffi, the calling convention of native code; imported on first use.

No other module imports ``tvm_ffi``: that takes 0.2 s, and imports torch if it is installed.
Programs that only parse or check never pay for it.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

import numpy as np

from loomir.runtime.layout import FAULT_KIND
from loomir.support.fork_safe import ForkSafeLock, delay_forks

__all__ = [
    "NativeFault",
    "direct_classes",
    "function_from_address",
    "global_function",
    "is_loaded",
    "is_tensor",
    "native_symbols",
    "tensor_from_capsule",
]

_SYMBOLS: Final = (
    "TVMFFIErrorSetRaisedFromCStr",
    "TVMFFIFunctionCall",
    "TVMFFIFunctionGetGlobal",
    "TVMFFIObjectDecRef",
    "TVMFFIObjectIncRef",
)
_NO_TORCH_ADDON: Final = "TVM_FFI_DISABLE_TORCH_C_DLPACK"

_lock: Final = ForkSafeLock()
_loaded: Final[list[ModuleType]] = []


class NativeFault(Exception):
    """The error of native code: ``<site>;<v0>;<v1>;<v2>;<root>``, or with more values."""

    def split(self) -> tuple[int, tuple[int, ...]]:
        """Return the site and the values."""
        site, *values, _ = str(self).split(";")
        return int(site), tuple(map(int, values))

    @property
    def root(self) -> int:
        """The number of the native call, by which errors of its callbacks are kept."""
        return int(str(self).rpartition(";")[2])


class _HideTorch(MetaPathFinder):
    """Make ``import torch`` fail, only in the thread that created this object."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse to import torch; leave other modules to other finders."""
        if fullname == "torch" and threading.get_ident() == self._thread:
            raise ModuleNotFoundError("torch is hidden while tvm_ffi is imported", name=fullname)
        return None


@contextmanager
def _hide_torch() -> Generator[None]:
    """Keep tvm-ffi from importing torch, or from compiling an addon if torch is imported already.

    Nothing is lost by that, since tensors are passed through DLPack anyway.
    """
    hide = _HideTorch()
    sys.meta_path.insert(0, hide)
    before = os.environ.get(_NO_TORCH_ADDON)
    if "torch" in sys.modules and before is None:
        os.environ[_NO_TORCH_ADDON] = "1"
    try:
        yield
    finally:
        sys.meta_path.remove(hide)
        if before is None:
            os.environ.pop(_NO_TORCH_ADDON, None)


def _tvm_ffi() -> Any:
    if _loaded:
        return _loaded[0]
    with _lock:
        if not _loaded:
            with delay_forks(), _hide_torch():
                module: Any = importlib.import_module("tvm_ffi")
            module.register_error(FAULT_KIND, NativeFault)
            _loaded.append(module)
        return _loaded[0]


def is_loaded() -> bool:
    """Tell whether tvm-ffi has been imported."""
    return bool(_loaded)


def function_from_address(address: int, keep_alive: object = None) -> Callable[..., object]:
    """Make a Python callable of a native entry point.

    The GIL is released while it runs. The callable keeps ``keep_alive``, the owner of the code,
    alive.
    """
    module = _tvm_ffi()
    function = module.Function.__from_extern_c__(address, keep_alive_object=keep_alive)
    function.release_gil = True
    return function


def global_function(name: str) -> Callable[..., object] | None:
    """Return the function registered in tvm-ffi by that name, from C++ or Python, or None."""
    return _tvm_ffi().get_global_func(name, allow_missing=True)


def native_symbols() -> dict[str, int]:
    """Return the addresses of the C functions that compiled code may call."""
    library = _library()
    return {name: _address(getattr(library, name)) for name in _SYMBOLS}


def _library() -> Any:
    """Return tvm-ffi's library; the package is imported only if the library is elsewhere."""
    if not _loaded:
        spec = importlib.util.find_spec("tvm_ffi")
        for folder in (spec and spec.submodule_search_locations) or ():
            path = os.path.join(folder, "lib", "libtvm_ffi.so")
            if os.path.isfile(path):
                # Like the package does, so that a later import gets the same library.
                return ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
    return _tvm_ffi().LIB


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    if address is None:
        raise ImportError("tvm_ffi lacks a function of its own interface")
    return address


def tensor_from_capsule(capsule: object) -> object:
    """Turn a DLPack capsule, which is consumed, into a tensor for a native function."""
    return _tvm_ffi().from_dlpack(capsule)


def is_tensor(value: object) -> bool:
    """Tell whether this is a tensor of tvm-ffi."""
    return bool(_loaded) and isinstance(value, _loaded[0].Tensor)


@functools.cache
def direct_classes() -> frozenset[type]:
    """Return the classes whose objects may be passed to a native function directly.

    NumPy's arrays are among them only if tvm-ffi refuses read-only ones, which native code could
    not distinguish. This is tested here, only once, since the exception that NumPy raises leaks
    some bytes.
    """
    module = _tvm_ffi()
    classes: set[type] = {int, float, bool, module.Tensor}
    probe = np.zeros(1)
    probe.flags.writeable = False
    try:
        module.from_dlpack(probe)
    except BufferError:
        classes.add(np.ndarray)
    return frozenset(classes)
