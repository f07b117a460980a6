"""Records survive processes, kills and damage, and hostile files are refused."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loomir.support.diagnostics import CompileError
from loomir.tuning.database import Database
from loomir.tuning.record import Record, record_from_plain


def record(**changes: Any) -> Record:
    """Make a record."""
    made = Record(
        "p", "t", "matmul", "0.1.0", {"0/tile": (8, 3), "0/rule": "rows"}, "ok", 1e-3, 2e-3
    )
    return made._replace(**changes)


def refusal(path: Path, code: str) -> str:
    """Return why a file is refused, with this code."""
    with pytest.raises(CompileError) as raised:
        Database(path).trials()
    assert raised.value.diagnostics[0].code == code
    return str(raised.value)


def test_records_are_read_as_they_were_written(tmp_path: Path):
    records = [record(), record(status="failed", seconds=None, default_seconds=None, choices={})]
    with Database(tmp_path / "a.db") as database:
        database.extend(records)
    again = Database(tmp_path / "a.db")
    assert again.trials() == records
    assert len(again) == 2


def test_only_confirmed_records_are_best_and_the_fastest_counts():
    database = Database()
    database.add(record(seconds=1e-4))
    assert database.best("p", "t") is None
    database.add(record(status="best", seconds=1e-3))
    database.add(record(status="best", seconds=5e-4, choices={"loops": "as written"}))
    database.add(record(status="best", program="other", seconds=1e-6))
    database.add(record(status="best", target="other", seconds=1e-6))
    best = database.best("p", "t")
    assert best is not None
    assert best.speedup == 4.0


def test_json_goes_round(tmp_path: Path):
    database = Database()
    database.extend([record(), record(status="best")])
    assert database.export_json(tmp_path / "all.json") == 2
    assert database.export_json(tmp_path / "best.json", best_only=True) == 1
    other = Database()
    assert other.import_json(tmp_path / "all.json") == 2
    assert other.trials() == database.trials()


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": "fast"},
        {"seconds": -1.0},
        {"seconds": float("inf")},
        {"seconds": True},
        {"program": 3},
        {"program": "x" * 10_000},
        {"status": "good"},
        {"choices": [1]},
        {"choices": {"0/tile": {"a": 1}}},
        {"choices": {"0/tile": [1, "2"]}},
        {"choices": {"0/tile": 1.5}},
        {"choices": {"x" * 1000: 1}},
    ],
)
def test_records_of_another_form_are_refused(change: dict[str, Any]):
    with pytest.raises(CompileError, match="TUN0003"):
        record_from_plain({**record().to_plain(), **change})


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(Record._fields), _JSON) | _JSON)
def test_no_json_is_more_than_refused(plain: Any):
    try:
        assert isinstance(record_from_plain(plain), Record)
    except CompileError as error:
        assert error.diagnostics[0].code == "TUN0003"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"records": []}', "[" * 100_000, "\ud800"])
def test_an_import_takes_all_or_nothing(text: str, tmp_path: Path):
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    database = Database()
    with pytest.raises(CompileError, match="TUN0003"):
        database.import_json(path)
    good, bad = record().to_plain(), {**record().to_plain(), "seconds": 0}
    path.write_text(json.dumps({"loomir_tuning": 1, "records": [good, bad]}))
    with pytest.raises(CompileError, match="TUN0003"):
        database.import_json(path)
    assert len(database) == 0


def test_damaged_newer_and_foreign_files_are_refused_and_stay_as_they_are(tmp_path: Path):
    path = tmp_path / "a.db"
    path.write_bytes(b"no database at all, " * 100)
    assert "file is not a database" in refusal(path, "TUN0001")
    assert path.read_bytes().startswith(b"no database")
    path.unlink()
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    assert "another program" in refusal(path, "TUN0001")
    path.unlink()
    Database(path).close()
    with sqlite3.connect(path) as newer:
        newer.execute("PRAGMA user_version = 99")
    newer.close()
    assert "newer Loomir" in refusal(path, "TUN0002")


def test_a_damaged_record_is_told(tmp_path: Path):
    path = tmp_path / "a.db"
    with Database(path) as database:
        database.add(record())
    with sqlite3.connect(path) as other:
        other.execute("UPDATE trials SET choices = '[1'")
    other.close()
    assert "one of its records" in refusal(path, "TUN0001")


@pytest.mark.parametrize("size", [100, 3000, 5000])
def test_truncated_files_end_in_an_error_or_are_whole(size: int, tmp_path: Path):
    path = tmp_path / "a.db"
    with Database(path) as database:
        database.extend(record(name=f"k{n}") for n in range(200))
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CompileError, match="TUN000"):
        Database(path).trials()


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path):
    with pytest.raises(CompileError, match="TUN0004"):
        Database(tmp_path / "missing" / "a.db")
    with pytest.raises(CompileError, match="TUN0004"):
        Database(tmp_path / "a.db", must_exist=True)
    with pytest.raises(CompileError, match="TUN0004"):
        Database(tmp_path)  # a folder


def test_a_full_disk_loses_nothing_that_was_written(tmp_path: Path):
    database = Database(tmp_path / "a.db")
    database.add(record())
    with database._lend_connection() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(CompileError, match=r"TUN0004.*full"):
        database.extend(record(name="x" * 500) for _ in range(1000))
    assert database.trials() == [record()]


def test_a_locked_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("loomir.tuning.database._PATIENCE", 0.05)
    path = tmp_path / "a.db"
    database = Database(path)
    other = sqlite3.connect(path)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(CompileError, match=r"TUN0004.*locked"):
        database.add(record())
    other.rollback()
    other.close()
    database.add(record())
    assert len(database) == 1


def test_a_new_file_that_another_connection_writes_is_waited_for(tmp_path: Path):
    path = tmp_path / "a.db"
    other = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writer = threading.Timer(0.3, other.close)
    writer.start()
    with Database(path) as database:  # SQLite changes a file's mode at once or not at all
        database.add(record())
        assert len(database) == 1
    writer.join()


def test_threads_and_processes_write_at_a_time(tmp_path: Path):
    path = tmp_path / "a.db"
    program = (
        "import sys; from tests.tuning.test_database import record; "
        "from loomir.tuning.database import Database; d = Database(sys.argv[1]); "
        "[d.add(record()) for _ in range(20)]"
    )
    children = [subprocess.Popen([sys.executable, "-c", program, str(path)]) for _ in range(3)]
    database = Database(path)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(database.add, [record()] * 20))
    assert [child.wait() for child in children] == [0, 0, 0]
    assert len(database) == 80


def test_a_kill_loses_no_record_that_was_written(tmp_path: Path):
    path = tmp_path / "a.db"
    program = (
        "import sys; from tests.tuning.test_database import record; "
        "from loomir.tuning.database import Database; d = Database(sys.argv[1])\n"
        "for n in range(10**9): d.add(record(name=f'k{n}')); print(n, flush=True)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    last = ""
    with child.stdout:
        for _ in range(30):
            last = child.stdout.readline()
        child.kill()
        rest = child.stdout.read().split()
    child.wait()
    told = int(rest[-1]) if rest else int(last)
    names = [trial.name for trial in Database(path).trials()]
    assert names[: told + 1] == [f"k{n}" for n in range(told + 1)]


def test_a_forked_child_opens_the_file_anew(tmp_path: Path):
    database = Database(tmp_path / "a.db")
    database.add(record())
    child = os.fork()
    if child == 0:
        database.add(record())
        os._exit(0 if len(database) == 2 else 1)
    deadline = time.monotonic() + 30
    while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert done == (child, 0)
    assert len(database) == 2
