"""Records of tuning in a file of SQLite: many processes may write, and a kill loses no trial."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

from typing_extensions import Self

from loomir.support.argument_errors import explain_methods
from loomir.support.diagnostics import CompileError, Diagnostic
from loomir.tuning.record import Record, record_from_plain

__all__ = ["Database"]

_APPLICATION: Final = 0x4C6F6F6D
"""The SQLite application id of tuning databases."""
_SCHEMA: Final = 1
_PATIENCE: Final = 30.0
"""Seconds to wait for another process that is writing."""
_FORMAT: Final = 1
_COLUMNS: Final = ", ".join(Record._fields)
_CREATE: Final = (
    """
    CREATE TABLE IF NOT EXISTS trials (
        id INTEGER PRIMARY KEY,
        program TEXT NOT NULL,
        target TEXT NOT NULL,
        name TEXT NOT NULL,
        version TEXT NOT NULL,
        choices TEXT NOT NULL,
        status TEXT NOT NULL,
        seconds REAL,
        default_seconds REAL,
        created REAL NOT NULL
    )
    """,
    "CREATE INDEX IF NOT EXISTS trials_of_program ON trials (program, target)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_SCHEMA}",
)
_inherited: Final[list[sqlite3.Connection]] = []


@explain_methods
class Database:
    """Records of tuning: ``Database("tuning.db")`` is a file, ``Database()`` is in memory.

    The file is created if it does not exist, unless ``must_exist``. Several processes and threads
    may use it at a time. Each trial is on disk before the next one begins.

    Errors: TUN0001 for a file that is no such database, or is damaged; TUN0002 for one that a newer
    Loomir wrote; TUN0004 if it cannot be read or written.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, must_exist: bool = False
    ) -> None:
        self.path: Path | None = None if path is None else Path(path)
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._owner = 0
        if must_exist and self.path is not None and not self.path.is_file():
            raise self._refuse("TUN0004", "there is no such file", "run loomir.tune with it first")
        with self._lend_connection():
            pass

    def __repr__(self) -> str:
        return f"Database({'' if self.path is None else repr(str(self.path))})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_connection"):
            self.close()

    def close(self) -> None:
        """Close the file; a database in memory is lost."""
        with self._lock:
            if self._connection is not None and self._owner == os.getpid():
                self._connection.close()
            self._leave()

    def _leave(self) -> None:
        """Close the connection, unless a parent process opened it."""
        if self._connection is not None and self._owner != os.getpid():
            _inherited.append(self._connection)
        self._connection = None

    # -- records ---------------------------------------------------------------------------------
    def add(self, record: Record) -> None:
        """Write a record. Errors: TUN0001, TUN0004."""
        self.extend([record])

    def extend(self, records: Iterable[Record]) -> None:
        """Write all records, or none on failure. Errors: TUN0001, TUN0004."""
        rows: list[tuple[Any, ...]] = []
        for record in records:
            plain = record.to_plain()
            plain["choices"] = json.dumps(plain["choices"], sort_keys=True)
            rows.append((*plain.values(), time.time()))
        with self._lend_connection() as connection, connection:
            marks = ", ".join("?" for _ in range(len(Record._fields) + 1))
            connection.executemany(
                f"INSERT INTO trials ({_COLUMNS}, created) VALUES ({marks})", rows
            )

    def best(self, program: str, target: str) -> Record | None:
        """Return the fastest confirmed record of a program, or None."""
        query = (
            f"SELECT {_COLUMNS} FROM trials WHERE program = ? AND target = ? AND status = 'best' "
            "ORDER BY seconds / default_seconds, id LIMIT 1"
        )
        found = self._read(query, (program, target))
        return found[0] if found else None

    def trials(self, program: str | None = None, target: str | None = None) -> list[Record]:
        """List the records, maybe only those of a program and a target, the oldest first."""
        query = (
            f"SELECT {_COLUMNS} FROM trials WHERE (?1 IS NULL OR program = ?1) "
            "AND (?2 IS NULL OR target = ?2) ORDER BY id"
        )
        return self._read(query, (program, target))

    def __len__(self) -> int:
        with self._lend_connection() as connection:
            return int(connection.execute("SELECT COUNT(*) FROM trials").fetchone()[0])

    # -- JSON ------------------------------------------------------------------------------------
    def export_json(self, path: str | os.PathLike[str], *, best_only: bool = False) -> int:
        """Write the records to a file as JSON, and return their number. Errors: TUN0004."""
        records = [r for r in self.trials() if r.status == "best" or not best_only]
        lines = ",\n  ".join(json.dumps(record.to_plain(), sort_keys=True) for record in records)
        text = f'{{"loomir_tuning": {_FORMAT}, "records": [\n  {lines}\n]}}\n'
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise self._refuse("TUN0004", str(error), "export to another path") from None
        return len(records)

    def import_json(self, path: str | os.PathLike[str]) -> int:
        """Add the records of a JSON file, all or none, and return their number.

        Errors: TUN0003 for a text that is not what ``export_json`` writes, TUN0004.
        """
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise self._refuse("TUN0004", str(error), "import another file") from None
        try:
            plain: Any = json.loads(data)
        except (ValueError, RecursionError):
            plain = None
        table = cast("dict[str, Any]", plain) if isinstance(plain, dict) else {}
        listed = table.get("records")
        if table.get("loomir_tuning") != _FORMAT or not isinstance(listed, list):
            raise CompileError(
                Diagnostic(
                    "TUN0003",
                    f"{path} contains no tuning records",
                    help="import a file that Database.export_json wrote",
                )
            )
        records = [record_from_plain(each) for each in cast("list[Any]", listed)]
        self.extend(records)
        return len(records)

    # -- SQLite ----------------------------------------------------------------------------------
    def _read(self, query: str, values: tuple[Any, ...]) -> list[Record]:
        with self._lend_connection() as connection:
            rows = connection.execute(query, values).fetchall()
        made: list[Record] = []
        for row in rows:
            fields = dict(zip(Record._fields, row, strict=True))
            try:
                fields["choices"] = json.loads(fields["choices"])
                made.append(record_from_plain(fields))
            except (CompileError, TypeError, ValueError, RecursionError):
                raise self._refuse(
                    "TUN0001", "one of its records cannot be read", "tune with a new file"
                ) from None
        return made

    @contextmanager
    def _lend_connection(self) -> Generator[sqlite3.Connection]:
        """Lend the connection to one thread at a time; a forked child opens its own."""
        with self._lock:
            try:
                if self._connection is None or self._owner != os.getpid():
                    self._leave()
                    self._connection, self._owner = self._open(), os.getpid()
                yield self._connection
            except sqlite3.OperationalError as error:
                raise self._refuse("TUN0004", str(error), _advice(str(error))) from None
            except sqlite3.DatabaseError as error:
                raise self._refuse("TUN0001", str(error), "tune with a new file") from None

    def _open(self) -> sqlite3.Connection:
        name = ":memory:" if self.path is None else str(self.path)
        connection = sqlite3.connect(name, timeout=_PATIENCE, check_same_thread=False)
        try:
            with _as_one(connection, "BEGIN"):  # another process may be making the file
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                (application,) = connection.execute("PRAGMA application_id").fetchone()
                (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
            if application != _APPLICATION and (application or version or tables):
                raise self._refuse(
                    "TUN0001", "it is the database of another program", "name another file"
                )
            if version > _SCHEMA:
                raise self._refuse(
                    "TUN0002",
                    f"a newer Loomir wrote it (schema {version}, and this one knows {_SCHEMA})",
                    "update Loomir, or tune with a new file",
                )
            if version < _SCHEMA or not tables:
                _write_ahead(connection)
                with _as_one(connection, "BEGIN IMMEDIATE"):  # a kill leaves all of it or nothing
                    for statement in _CREATE:
                        connection.execute(statement)
            connection.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _refuse(self, code: str, why: str, help: str) -> CompileError:
        where = "the tuning database" if self.path is None else f"the tuning database {self.path}"
        return CompileError(Diagnostic(code, f"{where} cannot be used: {why}", help=help))


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Log writes ahead: readers and the writer do not block each other then.

    SQLite doesn't wait for other connections here, where two that change the mode could wait for
    each other.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


@contextmanager
def _as_one(connection: sqlite3.Connection, begin: str) -> Generator[None]:
    """Read or write in one transaction."""
    connection.execute(begin)
    with connection:
        yield


def _advice(why: str) -> str:
    if "locked" in why or "busy" in why:
        return "wait until the other process has written, or end it"
    if "full" in why:
        return "free space on the disk; what was written before is still there"
    return "name a file that you can read and write"
