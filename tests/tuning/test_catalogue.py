"""The catalogue of bad input, its rows on tuning; see ``tests/test_catalogue.py``."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import loomir
from fuzz.stress.tuning import processes_of
from loomir import te
from loomir.support.diagnostics import CompileError
from loomir.target import Target
from loomir.tir.function import PrimFunc
from loomir.tuning import Database, list_choices
from loomir.tuning.measure import measure
from loomir.tuning.record import Record, key_of_program, key_of_target

ROOT = Path(__file__).parents[2]


def record(**changes: Any) -> Record:
    made = Record("p", "t", "matmul", "0.1.0", {"0/tile": (8, 3)}, "ok", 1e-3, 2e-3)
    return made._replace(**changes)


def names(path: Path) -> list[str]:
    with Database(path) as database:
        return [trial.name for trial in database.trials()]


# -- the last record is cut ----------------------------------------------------------------------------
def test_31_a_file_that_is_cut_anywhere_has_every_record_before(tmp_path: Path):
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    log = Path(f"{path}-wal")
    database = Database(path)
    ends: list[int] = []
    for n in range(8):
        database.add(record(name=f"k{n}"))
        ends.append(log.stat().st_size)
    whole = log.read_bytes()
    cuts = {end + more for end in ends for more in (-1, 0, 1, 24, 40)} | set(
        range(0, ends[-1], 997)
    )
    for cut in sorted(cuts):
        shutil.copy(path, copy)  # what a process leaves that was killed
        Path(f"{copy}-wal").write_bytes(whole[:cut])
        written = [f"k{n}" for n, end in enumerate(ends) if end <= cut]
        assert names(copy) == written, cut
        with Database(copy) as other:
            other.add(record(name="next"))
        assert names(copy) == [*written, "next"], cut
    database.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_31_no_kill_loses_a_record_that_was_acknowledged(tmp_path: Path):
    path = tmp_path / "a.db"
    Database(path).close()
    acknowledged: list[str] = []
    for turn in range(12):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            database = Database(path)
            for n in range(10**9):
                database.add(record(name=f"{turn} {n}"))
                os.write(writer, b".")
        os.close(writer)
        with open(reader, "rb", buffering=0) as pipe:
            assert pipe.read(1) == b"."
            time.sleep(0.003 * turn)
            os.kill(child, signal.SIGKILL)
            count = 1 + len(pipe.read())
        os.waitpid(child, 0)
        acknowledged += [f"{turn} {n}" for n in range(count)]
        found = names(path)
        assert set(acknowledged) <= set(found)
        assert len(found) <= len(acknowledged) + turn + 1  # the one that was being written


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_31_an_export_that_is_cut_is_refused_whole(tmp_path: Path, share: float):
    path = tmp_path / "x.json"
    with Database() as database:
        database.extend(record(name=f"k{n}") for n in range(20))
        database.export_json(path)
    text = path.read_bytes()
    path.write_bytes(text[: int(len(text) * share)])
    with Database() as other:
        with pytest.raises(CompileError, match="TUN0003"):
            other.import_json(path)
        assert len(other) == 0


# -- blank and null --------------------------------------------------------------------------------------
NOTHING = ("", "\n", "null", "\n\nnull\n\n", "\0")


def test_32_blank_files_and_null(tmp_path: Path):
    for number, text in enumerate(NOTHING):
        path = tmp_path / f"{number}.db"
        path.write_text(text, encoding="utf-8")
        if len(text) < 2:  # to SQLite, a file of at most a byte is an empty database
            assert names(path) == []
            continue
        with pytest.raises(CompileError, match="TUN0001"):
            names(path)
        assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    "records", ["null", "[null]", "[{}]", "[\n\n]", "[[]]", '[""]', "GOOD, null"]
)
def test_32_blank_and_null_among_imported_records(tmp_path: Path, records: str):
    path, good = tmp_path / "x.json", json.dumps(record().to_plain())
    for text in (*NOTHING, f'{{"loomir_tuning": 1, "records": {records.replace("GOOD", good)}}}'):
        path.write_text(text, encoding="utf-8")
        with Database() as database:
            if records == "[\n\n]" and "records" in text:
                assert database.import_json(path) == 0
                continue
            with pytest.raises(CompileError, match="TUN0003"):
                database.import_json(path)
            assert len(database) == 0


def test_32_blank_lines_between_records_are_no_records(tmp_path: Path):
    path, good = tmp_path / "x.json", json.dumps(record().to_plain())
    path.write_text(f'\n\n{{"loomir_tuning": 1,\n\n"records": [\n\n{good},\n\n\n{good}\n\n]}}\n\n')
    with Database() as database:
        assert database.import_json(path) == 2
        assert database.trials() == [record()] * 2


def doubling(count: int) -> PrimFunc:
    x = te.placeholder((count,), name="x")
    return te.create_prim_func([x, te.compute((count,), lambda i: x[i] * 2.0)], name="doubling")


def test_32_blank_and_null_in_columns_of_a_record(tmp_path: Path):
    func, machine = doubling(64), key_of_target(Target("native"))
    good = record(program=key_of_program(func), target=machine, status="best", choices={})
    for column in Record._fields:
        for value in (None, "", "null", "\0", b"", "[null]"):
            path = tmp_path / "a.db"
            path.unlink(missing_ok=True)
            plain = {**good.to_plain(), "choices": "{}", column: value}
            with sqlite3.connect(path) as loose:  # a table that takes everything
                columns = ", ".join(Record._fields)
                loose.execute(f"CREATE TABLE trials (id INTEGER PRIMARY KEY, {columns}, created)")
                marks = ", ".join("?" * len(Record._fields))
                loose.execute(f"INSERT INTO trials ({columns}) VALUES ({marks})", [*plain.values()])
                loose.execute("PRAGMA application_id = 0x4C6F6F6D")
                loose.execute("PRAGMA user_version = 1")
            loose.close()
            ends = list[str]()
            with Database(path) as database:
                for read in (database.trials, lambda: loomir.compile(func, database=database)):
                    try:
                        read()
                        ends.append("read")
                    except CompileError as error:
                        ends.append(error.diagnostics[0].code)
            may_be_blank = column in ("program", "target", "name", "version")
            is_text = isinstance(value, str) and may_be_blank
            no_time = column in ("seconds", "default_seconds") and value is None
            wanted = "read" if is_text or no_time else "TUN0001"
            assert ends[0] == wanted, (column, value)
            assert ends[1] in ("read", "TUN0001"), (column, value)


# -- two writers -----------------------------------------------------------------------------------------
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_33_writers_at_a_time_file_each_record_under_its_own_program(tmp_path: Path):
    path, count = tmp_path / "a.db", 150

    def made(writer: int, n: int) -> Record:
        choices = {"0/tile": (writer, n), "0/rule": f"r{writer}"}
        times = {"seconds": 1e-3 * (n + 1), "default_seconds": 2e-3 * (writer + 1)}
        return record(program=f"p{writer}", name=f"k{writer}", choices=choices, **times)

    children: list[int] = []
    for writer in range(4):
        child = os.fork()
        if child == 0:
            try:
                with Database(path) as own:  # all of them make the file
                    for n in range(count):
                        own.add(made(writer, n))
            except BaseException:  # noqa: BLE001 - told by the status
                os._exit(1)
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    with Database(path) as database:
        for writer in range(4):
            assert database.trials(f"p{writer}") == [made(writer, n) for n in range(count)]
        assert len(database) == 4 * count


class _Here(Executor):
    """Measures in the thread that asks."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(measure(*args))
        return done


def test_33_two_searches_in_one_file_mix_no_programs(tmp_path: Path):
    path, machine = tmp_path / "a.db", key_of_target(Target("native"))
    programs = {16: doubling(16), 64: doubling(64)}
    keys = {count: key_of_program(func) for count, func in programs.items()}
    spaces = {keys[n]: list_choices(func)["doubling"] for n, func in programs.items()}
    wide = 32
    assert [wide in space["0/vector"].candidates for space in spaces.values()] == [False, True]

    def search(count: int) -> None:
        loomir.tune(programs[count], trials=3, timeout=300, database=path, executor=_Here())

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(search, programs))
    with Database(path) as database:
        assert {trial.program for trial in database.trials()} == set(spaces)
        for trial in database.trials():
            if "0/rule" not in trial.choices:  # which decides what else there is
                space = spaces[trial.program]
                assert all(v in space[key].candidates for key, v in trial.choices.items())
        best = record(program=keys[64], target=machine, status="best", seconds=1e-12)
        database.add(best._replace(choices={"0/vector": wide}))
        for count, func in programs.items():
            exe = loomir.compile(func, database=database)  # a record that does not fit would warn
            assert (f"0/vector = {wide}" in exe.schedules["doubling"]) == (count == 64)
            x = np.arange(count, dtype="float32")
            np.testing.assert_array_equal(exe(x), 2 * x)


# -- processes that stay ---------------------------------------------------------------------------------
TUNING = """
import os, sys, loomir
from loomir import te
from fuzz.stress.tuning import processes_of
from tests.tuning.test_catalogue import doubling

seen = set()

def look(trial):
    seen.update(processes_of(os.environ["LOOMIR_TEST_MARK"]))
    if sys.argv[1] == "interrupted":
        raise KeyboardInterrupt

try:
    loomir.tune(doubling(64), trials=2, timeout=300, workers=2, on_trial=look)
finally:
    print(len(seen), flush=True)
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
@pytest.mark.parametrize("end", ["normal", "interrupted"])
def test_34_no_process_stays_after_a_search(end: str):
    mark = f"search-{uuid.uuid4()}"
    done = subprocess.run(
        [sys.executable, "-c", TUNING, end],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=ROOT,
        env={**os.environ, "LOOMIR_TEST_MARK": mark},
    )
    assert int(done.stdout) >= 2, done.stderr  # itself, and what measures
    assert (done.returncode == 0) == (end == "normal"), done.stderr
    deadline = time.monotonic() + 20
    while processes_of(mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert processes_of(mark) == []
