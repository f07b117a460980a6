from __future__ import annotations

import errno
import hashlib
import os
import stat
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from loomir.runtime import CacheSize, CacheWarning, ObjectCache
from loomir.runtime.storage import object_cache
from loomir.support.config import SETTINGS
from loomir.support.diagnostics import InternalError

KEY = hashlib.sha256(b"a program").hexdigest()
OTHER = hashlib.sha256(b"another program").hexdigest()
only_posix = pytest.mark.skipif(os.name == "nt", reason="modes and owners are those of POSIX")


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "cache")


def file_of(cache: ObjectCache, key: str = KEY) -> Path:
    assert cache.directory is not None
    return cache.directory / "objects" / f"{key}.obj"


@pytest.mark.parametrize("data", [b"", b"machine code", bytes(range(256)) * 4096])
def test_what_is_put_is_got(cache: ObjectCache, data: Any):
    assert cache.get(KEY) is None
    assert cache.put(KEY, data)
    assert cache.get(KEY) == data
    assert ObjectCache(cache.directory).get(KEY) == data
    assert cache.get(OTHER) is None


def test_a_later_object_replaces_the_first(cache: ObjectCache):
    cache.put(KEY, b"one")
    cache.put(KEY, b"two")
    assert cache.get(KEY) == b"two"
    assert cache.size().entries == 1


def test_size_and_clear(cache: ObjectCache):
    assert cache.size() == CacheSize(0, 0)
    assert cache.clear() == 0
    cache.put(KEY, b"x" * 1000)
    cache.put(OTHER, b"y" * 2000)
    size = cache.size()
    assert size.entries == 2
    assert 3000 < size.bytes < 3200
    (file_of(cache).parent / f"{KEY}.0123.tmp").write_bytes(b"left by a crash")
    (file_of(cache).parent / "notes.txt").write_bytes(b"not ours")
    assert cache.clear() == 3
    assert cache.size() == CacheSize(0, 0)
    assert cache.get(KEY) is None
    assert [p.name for p in file_of(cache).parent.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("key", ["", "abc", KEY.upper(), KEY + "0", f"../{KEY[3:]}", KEY + "\n"])
def test_a_key_is_a_sha_256(cache: ObjectCache, key: Any):
    with pytest.raises(InternalError):
        cache.get(key)
    with pytest.raises(InternalError):
        cache.put(key, b"")


def test_every_broken_byte_is_noticed(cache: ObjectCache):
    cache.put(KEY, b"machine code")
    file = file_of(cache)
    good = file.read_bytes()
    for at in range(len(good)):
        file.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :])
        assert cache.get(KEY) is None, at
        file.write_bytes(good[:at])
        assert cache.get(KEY) is None, at
    file.write_bytes(good + b"\0")
    assert cache.get(KEY) is None
    assert cache.put(KEY, b"machine code")
    assert cache.get(KEY) == b"machine code"


def test_an_object_under_another_s_name_is_noticed(cache: ObjectCache):
    cache.put(KEY, b"machine code")
    file_of(cache).rename(file_of(cache, OTHER))
    assert cache.get(OTHER) is None


@only_posix
def test_modes_are_for_the_user_only(cache: ObjectCache):
    before = os.umask(0)
    try:
        cache.put(KEY, b"code")
    finally:
        os.umask(before)
    file = file_of(cache)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.parent.parent.stat().st_mode) == 0o700


@only_posix
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
@pytest.mark.parametrize("level", [0, 1])
def test_directories_that_others_can_write_are_not_used(cache: ObjectCache, mode: int, level: int):
    cache.put(KEY, b"code")
    place = file_of(cache).parents[level]
    place.chmod(mode)
    with pytest.warns(CacheWarning, match="can be written by others.*set LOOMIR_CACHE_DIR") as told:
        assert cache.get(KEY) is None
    assert told[0].filename == __file__
    # Warnings are errors in these tests: a second one would raise.
    assert not cache.put(OTHER, b"code")
    assert not file_of(cache, OTHER).exists()


@only_posix
@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_files_that_others_can_write_are_not_used(cache: ObjectCache, mode: int):
    cache.put(KEY, b"code")
    file_of(cache).chmod(mode)
    assert cache.get(KEY) is None


@only_posix
def test_what_belongs_to_others_is_not_used(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch):
    cache.put(KEY, b"code")
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.warns(CacheWarning, match=f"belongs to user {me}, not to you"):
        assert cache.get(KEY) is None


@only_posix
def test_a_file_of_others_is_not_used(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch):
    cache.put(KEY, b"code")
    real = os.fstat

    def fstat(fd: int) -> os.stat_result:
        fields = list(real(fd))
        fields[stat.ST_UID] += 1
        return os.stat_result(fields)

    monkeypatch.setattr(os, "fstat", fstat)
    assert cache.get(KEY) is None


@only_posix
def test_links_and_devices_are_not_followed(cache: ObjectCache, tmp_path: Path):
    cache.put(KEY, b"code")
    file = file_of(cache)
    elsewhere = tmp_path / "elsewhere.obj"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert cache.get(KEY) is None
    file.unlink()
    os.mkfifo(file)
    assert cache.get(KEY) is None
    file.unlink()
    file.mkdir()
    with pytest.warns(CacheWarning):
        cache.get(KEY)


def test_a_place_that_is_no_directory(tmp_path: Path):
    (tmp_path / "file").write_text("")
    cache = ObjectCache(tmp_path / "file")
    with pytest.warns(CacheWarning):
        assert not cache.put(KEY, b"code")
    assert cache.get(KEY) is None
    assert cache.size() == CacheSize(0, 0)
    assert cache.clear() == 0


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_full_disk_costs_the_cache_not_the_program(
    cache: ObjectCache, monkeypatch: pytest.MonkeyPatch, step: str
):
    cache.put(KEY, b"old")

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if step == "write":
        monkeypatch.setattr(object_cache, "_pack", full)
    elif step == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(Path, "replace", full)
    with pytest.warns(CacheWarning, match="No space left"):
        assert not cache.put(KEY, b"new")
    assert not cache.put(OTHER, b"new")
    assert cache.get(KEY) == b"old"
    assert [p.name for p in file_of(cache).parent.iterdir()] == [f"{KEY}.obj"]


def test_an_interrupt_leaves_no_part(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch):
    def interrupt(fd: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.put(KEY, b"code")
    assert list(file_of(cache).parent.iterdir()) == []


def test_no_directory_means_no_cache(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SETTINGS, "cache_dir", None)
    cache = ObjectCache()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not cache.put(KEY, b"code")
        assert cache.get(KEY) is None
    assert cache.size() == CacheSize(0, 0)
    assert cache.clear() == 0


def test_the_directory_of_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(SETTINGS, "cache_dir", tmp_path)
    ObjectCache().put(KEY, b"code")
    assert ObjectCache(tmp_path).get(KEY) == b"code"


def test_readers_see_whole_objects_while_others_write(cache: ObjectCache):
    contents = [bytes([k]) * 50_000 for k in range(4)]
    cache.put(KEY, contents[0])
    stop = threading.Event()
    bad: list[object] = []

    def write(k: int) -> None:
        while not stop.is_set():
            if not cache.put(KEY, contents[k]):
                bad.append(k)

    writers = [threading.Thread(target=write, args=(k,)) for k in range(4)]
    for writer in writers:
        writer.start()
    for _ in range(300):
        got = cache.get(KEY)
        if got not in contents:
            bad.append(got)
    stop.set()
    for writer in writers:
        writer.join()
    assert bad == []
    assert cache.size().entries == 1


@only_posix
def test_a_writer_killed_at_any_moment_leaves_an_object_or_none(cache: ObjectCache):
    code = f"""
import itertools
from pathlib import Path
from loomir.runtime.storage.object_cache import ObjectCache
cache = ObjectCache(Path({str(cache.directory)!r}))
cache.put({KEY!r}, b"0" * 100_000)
print("ready", flush=True)
for k in itertools.count():
    cache.put({KEY!r}, str(k % 10).encode() * 100_000)
"""
    for delay in (0.001, 0.005, 0.02):
        writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.readline()
        threading.Event().wait(delay)
        writer.kill()
        writer.wait()
        writer.stdout.close()
        got = cache.get(KEY)
        assert got is not None
        assert len(got) == 100_000
        assert len(set(got)) == 1
    cache.clear()
    assert list(file_of(cache).parent.iterdir()) == []
