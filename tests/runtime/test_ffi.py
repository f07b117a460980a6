"""When tvm-ffi is imported, and what it brings along; each case in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loomir.runtime import ffi
from tests.runtime.native import NOTHING, compile_ir


def run(code: str, *paths: Path) -> str:
    """Run Python in a new process, with ``paths`` searched first; return what it prints."""
    preamble = "".join(f"import sys; sys.path.insert(0, {str(path)!r})\n" for path in paths)
    done = subprocess.run(
        [sys.executable, "-c", preamble + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def fake_torch(tmp_path: Path) -> Path:
    """A folder with a package ``torch`` that tells when it is imported."""
    package = tmp_path / "torch"
    package.mkdir()
    (package / "__init__.py").write_text(
        "print('torch was imported')\n"
        "class Tensor: pass\n"
        "class dtype: pass\n"
        "__version__ = '2.6.0'\n"
        "def __getattr__(name):\n"
        "    if name.startswith('__'): raise AttributeError(name)\n"
        "    return dtype()  # torch.int8 and the like, which tvm-ffi looks up\n"
    )
    (package / "version.py").write_text("")
    return tmp_path


def test_importing_the_runtime_opens_nothing():
    code = """
    import sys
    import loomir.runtime, loomir.runtime.ffi
    print("tvm_ffi" in sys.modules, loomir.runtime.ffi.is_loaded())
    """
    assert run(code) == "False False"


def test_torch_is_not_imported_along(fake_torch: Path):
    code = """
    import sys
    from loomir.runtime import ffi
    ffi.global_function("none")
    print("tvm_ffi" in sys.modules, "torch" in sys.modules, ffi.is_loaded())
    import torch
    print(sys.modules["torch"] is torch, len([f for f in sys.meta_path if "Hide" in repr(f)]))
    """
    assert run(code, fake_torch).splitlines() == [
        "True False True",
        "torch was imported",
        "True 0",
    ]


def test_another_thread_may_import_torch_meanwhile(fake_torch: Path):
    code = """
    import threading
    from loomir.runtime import ffi
    with ffi._hide_torch():
        seen = []
        def other():
            import torch
            seen.append(torch.__version__)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        print(seen)
    """
    assert run(code, fake_torch).splitlines() == ["torch was imported", "['2.6.0']"]


def test_no_addon_is_compiled_where_torch_is_there(fake_torch: Path):
    """tvm-ffi would start a C++ compiler for this old torch, and say so when that failed."""
    code = """
    import os, warnings
    warnings.simplefilter("error")
    import torch
    from loomir.runtime import ffi
    ffi.native_symbols()
    print(os.environ.get("TVM_FFI_DISABLE_TORCH_C_DLPACK"))
    """
    assert run(code, fake_torch).splitlines() == ["torch was imported", "None"]


def test_settings_of_the_environment_are_not_changed(fake_torch: Path):
    code = """
    import os
    os.environ["TVM_FFI_DISABLE_TORCH_C_DLPACK"] = "1"
    from loomir.runtime import ffi
    ffi.native_symbols()
    print(os.environ["TVM_FFI_DISABLE_TORCH_C_DLPACK"])
    """
    assert run(code, fake_torch) == "1"


def test_symbols_are_addresses():
    symbols = ffi.native_symbols()
    assert "TVMFFIErrorSetRaisedFromCStr" in symbols
    assert len(set(symbols.values())) == len(symbols)
    assert all(address > 4096 for address in symbols.values())


def test_a_function_keeps_its_code():
    code = compile_ir(NOTHING)
    function = ffi.function_from_address(code.address, code.engine)
    del code
    assert function() is None


def test_numpy_arrays_go_directly_while_read_only_ones_are_refused(monkeypatch: pytest.MonkeyPatch):
    assert {np.ndarray, int, float, bool} <= ffi.direct_classes()
    module = ffi._tvm_ffi()
    monkeypatch.setattr(module, "from_dlpack", lambda array: array)
    assert np.ndarray not in ffi.direct_classes.__wrapped__()


@pytest.mark.parametrize(
    ("text", "parts"),
    [("-1;0;0;0;5", (-1, (0, 0, 0))), ("7;-9223372036854775808;2;3;5", (7, (-(2**63), 2, 3)))],
)
def test_reading_a_fault(text: str, parts: Any):
    assert ffi.NativeFault(text).split() == parts
    assert ffi.NativeFault(text).root == 5


def test_classes_are_found_once():
    assert ffi.direct_classes() is ffi.direct_classes()
    assert np.ndarray in ffi.direct_classes()
