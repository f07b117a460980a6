# ruff: noqa: N805, N806  (programs of TVMScript, whose names are its own)
"""Executables in files: what is saved is loaded, and nothing else is run."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loomir
from loomir.deploy import compatibility
from loomir.runtime.errors import CacheWarning
from loomir.runtime.storage import container
from loomir.script import ir as I
from loomir.script import relax as R
from loomir.script import tir as T
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import RunError
from loomir.target.triples import family

WEIGHTS = np.linspace(-1, 1, 200 * 100, dtype="float32").reshape(200, 100)


@I.ir_module
class Model:
    @T.prim_func
    def halve(x: T.handle, y: T.handle) -> T.int32:
        n = T.int64()
        A = T.match_buffer(x, (n,), "float32")
        B = T.match_buffer(y, (n,), "float32")
        for i in T.parallel(n):
            B[i] = A[i] / T.float32(2)
        return T.Cast("int32", n)

    @T.prim_func
    def divide(a: T.int32, b: T.int32) -> T.int32:
        return T.truncdiv(a, b)

    @R.function
    def main(x: R.Tensor(("n", 200), "float32"), k: R.Prim("int64")):
        y = R.nn.relu(R.matmul(x, R.const(WEIGHTS)))
        return (y, R.shape_of(x), k)

    @R.function
    def apply(
        f: R.Callable((R.Tensor((4,), "float32"),), R.Tensor((4,), "float32")),
        x: R.Tensor((4,), "float32"),
    ):
        return f(x)

    @R.function
    def twice(x: R.Tensor((4,), "float32")):
        return R.add(x, x)

    @R.function
    def wide(x: R.Tensor((5,), "float32")):
        return R.add(x, x)


@T.prim_func
def asks(x: T.Buffer((4,), "int32")):
    for i in range(4):
        x[i] = T.call_packed("test_save.answer", i, dtype="int32")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a directory for a key and one for files."""
    monkeypatch.setattr(SETTINGS, "cache_dir", tmp_path / "cache")
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


@pytest.fixture
def saved(own: Any):
    exe = loomir.compile(Model)
    exe.save(own / "model.loom")
    return exe, own / "model.loom"


def error_of(call: Any, *args: Any):
    with pytest.raises(RunError) as caught:
        call(*args)
    return type(caught.value), str(caught.value)


def test_a_loaded_executable_is_the_one_that_was_saved(saved: Any):
    exe, path = saved
    loaded = loomir.load(path)
    assert list(loaded.functions) == list(exe.functions)
    assert [repr(f) for f in loaded.functions.values()] == [repr(f) for f in exe.functions.values()]
    x = np.random.default_rng(1).random((3, 200), "float32") - 0.5
    for got, expected in zip(loaded["main"](x, 7), exe["main"](x, 7), strict=True):
        assert np.array_equal(got, expected)
        assert type(got) is type(expected)
    a, b = np.arange(5, dtype="float32"), np.zeros(5, "float32")
    assert loaded["halve"](a, b) == 5
    assert np.array_equal(b, a / 2)
    assert loaded.llvm_ir() == exe.llvm_ir()
    assert loaded.assembly() == exe.assembly()
    x = np.ones(4, "float32")
    assert np.array_equal(loaded["apply"](loaded["twice"], x), x + x)


def test_the_text_of_the_program_is_kept(saved: Any):
    exe, path = saved
    again = loomir.script.from_source(loomir.load(path).script())
    assert str(again) == exe.script()


def call(exe: Any, name: Any, args: Any):
    return exe[name](*args)


def test_a_loaded_executable_refuses_with_the_same_words(saved: Any):
    exe, path = saved
    loaded = loomir.load(path)
    a, b = np.zeros(5, "float32"), np.zeros(4, "float32")
    wrong = [
        ("halve", (a, b)),
        ("halve", (a,)),
        ("halve", (a, a)),
        ("halve", (a, "b")),
        ("halve", (a.astype("int32"), b)),
        ("divide", (1, 0)),
        ("divide", (2**40, 1)),
        ("main", (a, 1)),
        ("main", (np.zeros((2, 200), "float32"), "one")),
        ("nain", ()),
    ]
    for name, args in wrong:
        assert error_of(call, loaded, name, args) == error_of(call, exe, name, args), name
    given = error_of(loaded["apply"], loaded["wide"], b)
    assert given == error_of(exe["apply"], exe["wide"], b)
    assert "RUN0407" in given[1]
    # The place is shown with its line, which is in the file.
    assert 'B = T.match_buffer(y, (n,), "float32")' in error_of(loaded["halve"], a, b)[1]


def test_another_process_loads_it(saved: Any):
    _, path = saved
    code = (
        "import sys, numpy as np, loomir\n"
        "exe = loomir.load(sys.argv[1])\n"
        "y, shape, k = exe['main'](np.ones((2, 200), 'float32'), 3)\n"
        "print(y.shape, tuple(shape), k, y.sum())\n"
        "try: exe['divide'](1, 0)\n"
        "except ZeroDivisionError as error: print(error.diagnostic.code)\n"
    )
    env = {**os.environ, "LOOMIR_CACHE_DIR": str(SETTINGS.cache_dir)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, env=env, check=True
    )
    total = np.maximum(np.ones((2, 200), "float32") @ WEIGHTS, 0).sum()
    first, second = done.stdout.splitlines()
    *said, last = first.split(" ")
    assert " ".join(said) == "(2, 100) (2, 200) 3"
    assert float(last) == pytest.approx(total, rel=1e-5)
    assert second == "RUN0201"


def test_functions_of_python_are_those_of_the_process_that_loads(own: Any):
    loomir.register_func("test_save.answer", lambda i: i + 1, override=True)
    loomir.compile(asks).save(own / "asks.loom")
    loomir.register_func("test_save.answer", lambda i: 10 * i, override=True)
    x = np.zeros(4, "int32")
    loomir.load(own / "asks.loom")(x)
    assert x.tolist() == [0, 10, 20, 30]


def test_a_loaded_executable_is_saved_again(saved: Any, own: Any):
    _, path = saved
    loomir.load(path).save(own / "again.loom")
    assert (own / "again.loom").read_bytes() == path.read_bytes()


def test_equal_executables_give_equal_files(own: Any):
    for name in ("a", "b"):
        loomir.compile(Model).save(own / name)
    assert (own / "a").read_bytes() == (own / "b").read_bytes()


# -- files that are not what was written -------------------------------------------------------
CODES = {"RUN0461", "RUN0462", "RUN0463", "RUN0466"}


def outcome(data: bytes, path: Path, *, trusted: bool = False) -> str:
    path.write_bytes(data)
    try:
        loomir.load(path, trusted=trusted)
    except RunError as error:
        assert error.diagnostic.help
        return error.diagnostic.code
    return "loaded"


def test_a_file_that_is_cut_off_is_refused_wherever_it_is_cut(saved: Any, own: Any):
    _, path = saved
    data = path.read_bytes()
    points = {
        *range(120),
        *range(0, len(data), len(data) // 300),
        *range(len(data) - 80, len(data)),
    }
    for size in sorted(points):
        assert outcome(data[:size], own / "cut") in CODES, size
    assert outcome(data, own / "cut") == "loaded"
    assert outcome(data + b"\0", own / "cut") == "RUN0462"


def test_no_changed_file_is_loaded(saved: Any, own: Any):
    _, path = saved
    data = path.read_bytes()
    rng = random.Random(5)
    seen: dict[str, int] = {}
    for _ in range(2000):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 8))):
            # As often near the start, where the structure is, as anywhere.
            at = rng.randrange(rng.choice((52, 400, len(changed))))
            kind = rng.randrange(3)
            if kind == 0:
                changed[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                changed[at] = rng.choice((0, 255, 127, 128))
            else:
                changed[at : at + rng.randrange(9)] = rng.randbytes(rng.randrange(9))
        code = outcome(bytes(changed), own / "changed")
        assert code in CODES or bytes(changed) == data, code
        seen[code] = seen.get(code, 0) + 1
    assert {"RUN0461", "RUN0462"} <= set(seen)


@T.prim_func
def small(x: T.Buffer((4,), "float32")):
    for i in range(4):
        x[i] = x[i] + T.float32(1)


def unpacking(data: bytes) -> str:
    try:
        container.unpack(data, "it")
    except RunError as error:
        return error.diagnostic.code
    return "loaded"


def test_no_byte_can_change(own: Any):
    """Neither of a file of this user's, nor of one that is trusted, which no seal guards."""
    loomir.compile(small).save(own / "small.loom")
    data = (own / "small.loom").read_bytes()
    damaged = CODES - {"RUN0466"}
    changed = bytearray(data)
    for at in range(len(data)):
        for new in (data[at] ^ 1 << at % 8, data[at] ^ 0xFF):
            changed[at] = new
            assert unpacking(bytes(changed)) in damaged, at
            if at % 80 == 0 or at > len(data) - 66:
                code = outcome(bytes(changed), own / "changed", trusted=at % 2 == 0)
                assert code in damaged, (at, code)
        changed[at] = data[at]
    for trusted in (False, True):
        assert outcome(data, own / "same", trusted=trusted) == "loaded"
        for more in (b"\0", b"\xff", data[-32:], data[-64:], data):
            assert outcome(data + more, own / "long", trusted=trusted) == "RUN0462"
        for at in (8, 20, 52, len(data) // 2, len(data) - 64, len(data) - 32):
            for moved in (data[:at] + b"\0" + data[at:], data[:at] + data[at + 1 :]):
                assert outcome(moved, own / "moved", trusted=trusted) in damaged, at
    for size in range(len(data)):
        assert unpacking(data[:size]) in damaged, size


def rewritten(data: bytes, change: Any) -> bytes:
    """Change the header and hash it again, as somebody with intent would; the seal stays."""
    opened = container.unpack(data, "it")
    header = json.loads(json.dumps(dict(opened.header)))
    header.pop("parts")
    parts = dict(opened.parts)
    change(header, parts)
    return container.append_seal(*container.pack(header, parts), opened.seal)


def test_hashes_that_fit_do_not_make_a_file_the_users(saved: Any, own: Any):
    _, path = saved

    def other_code(header: Any, parts: Any):
        parts["object"] = parts["object"] + b"\0"

    assert outcome(rewritten(path.read_bytes(), other_code), own / "x") == "RUN0466"
    opened = container.unpack(path.read_bytes(), "it")
    unsealed = container.append_seal(opened.unsealed, opened.digest, bytes(32))
    assert outcome(unsealed, own / "x") == "RUN0466"
    assert loomir.load(own / "x", trusted=True)["divide"](7, 2) == 3


def test_another_users_file_needs_trust(
    saved: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    _, path = saved
    monkeypatch.setattr(SETTINGS, "cache_dir", tmp_path / "other")
    with pytest.raises(RunError) as caught:
        loomir.load(path)
    assert caught.value.diagnostic.code == "RUN0466"
    monkeypatch.setattr(SETTINGS, "cache_dir", None)
    with pytest.raises(RunError) as caught:
        loomir.load(path)
    assert caught.value.diagnostic.code == "RUN0466"
    assert loomir.load(path, trusted=True)["divide"](7, 2) == 3


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_a_key_that_others_can_write_is_no_key(saved: Any):
    _, path = saved
    (SETTINGS.cache_dir / "key").chmod(0o666)
    with pytest.raises(RunError) as caught:
        loomir.load(path)
    assert caught.value.diagnostic.code == "RUN0466"


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("triple", "aarch64-unknown-linux-gnu", "RUN0464"),
        ("features", "+a-feature-to-come", "RUN0464"),
        ("cpu", "z999", "RUN0464"),
    ],
)
def test_code_for_another_machine_is_refused(
    saved: Any, own: Any, field: str, value: str, code: str
):
    _, path = saved

    def change(header: Any, parts: Any):
        header["target"][field] = value
        if field == "triple" and family(value) == family(compatibility.TargetMachine.host().triple):
            header["target"][field] = "x86_64-unknown-linux-gnu"
        if field == "cpu":
            header["target"]["features"] = ""

    (own / "x").write_bytes(rewritten(path.read_bytes(), change))
    with pytest.raises(RunError) as caught:
        loomir.load(own / "x", trusted=True)
    assert caught.value.diagnostic.code == code


def test_code_for_this_cpu_is_refused_where_a_process_may_not_run_it(
    saved: Any, own: Any, monkeypatch: pytest.MonkeyPatch
):
    def change(header: Any, parts: Any):
        header["target"].update(cpu="sapphirerapids", features="")

    _, path = saved
    (own / "x").write_bytes(rewritten(path.read_bytes(), change))
    host = compatibility.TargetMachine.host()
    without = "+avx512vnni,+avx512bf16,+avxvnni,-amx-bf16,-amx-int8"
    there = compatibility.TargetMachine.of("sapphirerapids", without, host.triple)
    monkeypatch.setattr(compatibility.TargetMachine, "host", lambda: there)
    with pytest.raises(RunError) as caught:
        loomir.load(own / "x", trusted=True)
    assert "amx-bf16, amx-int8" in caught.value.diagnostic.message


def test_code_for_a_lesser_machine_is_loaded(saved: Any, own: Any):
    _, path = saved

    def change(header: Any, parts: Any):
        header["target"]["cpu"] = "generic"
        header["target"]["features"] = ""

    (own / "x").write_bytes(rewritten(path.read_bytes(), change))
    assert loomir.load(own / "x", trusted=True)["divide"](7, 2) == 3


def test_other_conventions_are_refused(saved: Any, own: Any):
    _, path = saved

    def change(header: Any, parts: Any):
        header["abi"] = "0" * 16
        header["loomir"] = "99.0"

    (own / "x").write_bytes(rewritten(path.read_bytes(), change))
    _, text = error_of(loomir.load, own / "x")
    assert "RUN0465" in text
    assert "Loomir 99.0" in text


def test_a_newer_form_is_refused(saved: Any, own: Any):
    _, path = saved
    data = bytearray(path.read_bytes())
    data[8:12] = struct.pack("<I", container.FORMAT + 1)
    assert outcome(bytes(data), own / "x") == "RUN0463"
    (size,) = struct.unpack_from("<Q", data, 12)
    data[20:52] = hashlib.sha256(data[:20] + data[52 : 52 + size]).digest()
    assert outcome(bytes(data), own / "x") == "RUN0463"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda tables: tables.pop("graph"),
        lambda tables: tables["nodes"].reverse(),
        lambda tables: tables.update(roots=[10**9]),
        lambda tables: tables.update(kernels={"halve": 3}),
        lambda tables: tables["faults"][0].__setitem__(0, "NO_SUCH_KIND"),
    ],
)
def test_trusted_nonsense_is_refused_too(saved: Any, own: Any, spoil: Any):
    _, path = saved

    def change(header: Any, parts: Any):
        tables = json.loads(parts["tables"])
        spoil(tables)
        parts["tables"] = json.dumps(tables).encode()

    (own / "x").write_bytes(rewritten(path.read_bytes(), change))
    with pytest.raises(RunError) as caught:
        loomir.load(own / "x", trusted=True)
    assert caught.value.diagnostic.code == "RUN0462"


# -- files that cannot be read or written ------------------------------------------------------
def test_what_is_no_file_is_refused(own: Any):
    for path in (own / "absent", own):
        with pytest.raises(RunError) as caught:
            loomir.load(path)
        assert caught.value.diagnostic.code == "RUN0460"
    (own / "empty").write_bytes(b"")
    assert outcome(b"", own / "empty") == "RUN0461"
    assert outcome(b"\x7fELF", own / "elf") == "RUN0461"
    if hasattr(os, "mkfifo"):
        os.mkfifo(own / "pipe")
        with pytest.raises(RunError) as caught:
            loomir.load(own / "pipe")
        assert caught.value.diagnostic.code == "RUN0460"


def test_a_place_that_cannot_be_written_is_named(saved: Any, own: Any):
    exe, _ = saved
    for path in (own / "no" / "such" / "directory", own, own / ("x" * 300)):
        with pytest.raises(RunError) as caught:
            exe.save(path)
        assert caught.value.diagnostic.code == "RUN0467"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(saved: Any, monkeypatch: pytest.MonkeyPatch, step: str):
    exe, path = saved
    before = path.read_bytes()

    def full(*args: Any):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), full)
    with pytest.raises(RunError) as caught:
        exe.save(path)
    monkeypatch.undo()
    assert caught.value.diagnostic.code == "RUN0467"
    assert "No space left" in caught.value.diagnostic.message
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no such device")
def test_a_device_is_written_and_stays(saved: Any):
    exe, _ = saved
    with pytest.raises(RunError, match=r"RUN0467.*'/dev/full' cannot be written: No space left"):
        exe.save("/dev/full")
    exe.save("/dev/null")
    assert Path("/dev/full").is_char_device()
    assert Path("/dev/null").is_char_device()


@pytest.mark.skipif(os.name == "nt", reason="links are those of POSIX")
def test_what_a_link_leads_to_is_written(saved: Any, own: Any):
    exe, path = saved
    (own / "link").symlink_to(own / "target")
    for _ in range(2):
        exe.save(own / "link")
        assert (own / "link").is_symlink()
        assert (own / "target").read_bytes() == path.read_bytes()


def test_a_file_without_a_seal_is_told_of(saved: Any, own: Any, monkeypatch: pytest.MonkeyPatch):
    exe, _ = saved
    (own / "file").write_text("")
    monkeypatch.setattr(SETTINGS, "cache_dir", own / "file")
    with pytest.warns(CacheWarning, match="loading it needs trusted=True") as told:
        exe.save(own / "unsealed.loom")
    assert told[0].filename == __file__
    with pytest.raises(RunError, match="RUN0466"):
        loomir.load(own / "unsealed.loom")
    assert loomir.load(own / "unsealed.loom", trusted=True)["divide"](7, 2) == 3


def test_a_path_with_a_zero_byte_is_refused(saved: Any):
    exe, _ = saved
    for call in (exe.save, loomir.load):
        with pytest.raises(RunError) as caught:
            call("a\0b")
        assert caught.value.diagnostic.code in ("RUN0460", "RUN0467")
