"""Load saved executables and call them, for a process on another machine or an emulated one.

It reads lines ``FOLDER ENTRY THREADS WANTED``: the folder holds ``program.loom`` and ``arguments``,
and gets ``results``: what the entry returned (``WANTED`` is ``result``), or the arguments after the
call (``arguments``). It answers each with a
line of JSON, which says what was raised, if anything.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path

import loomir
from fuzz.cross.parcel import read_parcel, write_parcel
from fuzz.families.cases import flat_results
from fuzz.native import set_threads

__all__ = ["main"]


def _run(folder: Path, entry: str, threads: int, wanted: str) -> None:
    set_threads(threads)
    exe = loomir.load(str(folder / "program.loom"), trusted=True)
    arguments = read_parcel(folder / "arguments")
    result = exe[entry](*arguments)
    write_parcel(folder / "results", flat_results(result) if wanted == "result" else arguments)


def main() -> None:
    """Answer requests until there are no more."""
    for line in sys.stdin:
        folder, entry, threads, wanted = line.split()
        said = ""
        try:
            _run(Path(folder), entry, int(threads), wanted)
        except Exception as error:  # noqa: BLE001 - whatever it is, the campaign reports it
            said = "".join(traceback.format_exception(error))
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
