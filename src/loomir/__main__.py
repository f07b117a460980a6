"""``python -m loomir`` is the ``loomir`` command."""

from __future__ import annotations

import contextlib
import sys

import loomir

__all__ = ["main"]


def main() -> None:
    """Run the command; its version is printed without what reads other arguments."""
    if sys.argv[1:] == ["--version"]:
        with contextlib.suppress(Exception):  # the command says why nothing can be printed
            sys.stdout.write(f"loomir {loomir.__version__}\n")
            sys.stdout.flush()
            return
    from loomir.cli import app  # noqa: PLC0415 - it is slow to load

    app()


if __name__ == "__main__":
    main()
