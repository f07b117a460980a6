"""Let the processes of one run share what any of them compiled of the sources.

Each process needs a thousand modules of the package and six hundred files of tests, and to compile
them takes twenty seconds. Nothing is kept from one run for the next.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.python import importtestmodule

__all__ = ["import_in_turns", "share_bytecode", "share_with_children"]

_ROOT: Final = f"{Path(__file__).parents[1]}{os.sep}"
_VARIABLE: Final = "TESTS_BYTECODE"
"""Names the folder for the workers."""


def share_bytecode() -> None:
    """Keep bytecode in a folder of this run, if the environment asks for none beside the sources.

    Installed packages have bytecode of their own, and go on using that.
    """
    folder = os.environ.get(_VARIABLE)
    if folder is None:
        if not sys.dont_write_bytecode or sys.pycache_prefix is not None:
            return
        folder = os.environ[_VARIABLE] = tempfile.mkdtemp(prefix="loomir-bytecode-")
    sys.pycache_prefix, sys.dont_write_bytecode = folder, False
    read = SourceFileLoader.get_code

    def get_code(loader: Any, name: str) -> Any:
        if loader.path.startswith(_ROOT) and "site-packages" not in loader.path:
            return read(loader, name)
        sys.pycache_prefix, sys.dont_write_bytecode = None, True
        try:
            return read(loader, name)
        finally:
            sys.pycache_prefix, sys.dont_write_bytecode = folder, False

    setattr(SourceFileLoader, "get_code", get_code)  # noqa: B010 - no type allows it


def share_with_children(config: pytest.Config) -> None:
    """Let the processes that tests start use the same folder, and delete it in the end."""
    folder = os.environ.get(_VARIABLE)
    if folder is None:
        return
    in_worker = "PYTEST_XDIST_WORKER" in os.environ
    if not in_worker:
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    # Workers would compile installed packages anew, if they were started with this.
    if in_worker or config.getoption("dist", "no") == "no":
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = folder


def import_in_turns(config: pytest.Config) -> None:
    """Import the files of tests, each worker beginning with a part of its own.

    All workers collect all tests, in the same order. If one is ahead in each part, the others find
    what it compiled, rather than all of them compiling each file at the same time.
    """
    name, count = (os.environ.get(f"PYTEST_XDIST_WORKER{end}", "") for end in ("", "_COUNT"))
    number = name.removeprefix("gw")
    folders = [Path(arg) for arg in config.args]
    if not number.isdigit() or not all(map(Path.is_dir, folders)):
        return
    files = sorted(f for folder in folders for f in folder.rglob("test_*.py"))
    first = len(files) * int(number) // int(count)
    for file in files[first:] + files[:first]:
        try:
            importtestmodule(file, config)
        except (Exception, pytest.skip.Exception, pytest.Collector.CollectError):  # noqa: BLE001
            continue  # it is collected below, and fails there
