"""``loomir-lsp``: start the language server, or say what it needs."""

from __future__ import annotations

import importlib
import sys

__all__ = ["main"]


def main() -> None:
    """Serve an editor over standard input and output."""
    try:
        server = importlib.import_module("loomir.lsp.server")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        sys.stderr.write(f"loomir-lsp needs {error.name}: pip install 'loomir[lsp]'\n")
        sys.exit(2)
    server.serve()
