"""A client of the language server: JSON-RPC over the pipes of a process."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import IO, Any, cast

__all__ = ["Client"]


class Client:
    """Speaks to a server of its own; ``with`` ends it."""

    def __init__(self, **options: object) -> None:
        start = "from loomir.lsp.start import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", start],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.count = 0
        self.versions: dict[str, int] = {}
        self.published: list[dict[str, Any]] = []
        given = {"processId": None, "rootUri": None, "capabilities": {}}
        self.features = self.ask("initialize", {**given, "initializationOptions": options})
        self.tell("initialized", {})

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def _send(self, message: dict[str, object]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        pipe = cast("IO[bytes]", self.process.stdin)
        pipe.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        pipe.flush()

    def _read(self) -> dict[str, Any]:
        pipe = cast("IO[bytes]", self.process.stdout)
        length = 0
        while line := pipe.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        assert length, "the server has ended"
        message: dict[str, Any] = json.loads(pipe.read(length))
        if message.get("method") == "textDocument/publishDiagnostics":
            self.published.append(message["params"])
        return message

    def ask(self, method: str, params: object) -> Any:
        """Send a request, and return its answer."""
        self.count += 1
        self._send({"id": self.count, "method": method, "params": params})
        while True:
            message = self._read()
            if message.get("id") == self.count and "method" not in message:
                assert "error" not in message, message
                return message.get("result")

    def tell(self, method: str, params: object) -> None:
        """Send a notification."""
        self._send({"method": method, "params": params})

    def open(self, uri: str, text: str) -> list[dict[str, Any]]:
        """Open a document, and return what the server finds in it."""
        self.versions[uri] = 1
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})
        return self.found(uri)

    def change(self, uri: str, *changes: dict[str, Any]) -> None:
        """Change a document."""
        self.versions[uri] += 1
        document = {"uri": uri, "version": self.versions[uri]}
        params = {"textDocument": document, "contentChanges": list(changes)}
        self.tell("textDocument/didChange", params)

    def found(self, uri: str) -> list[dict[str, Any]]:
        """Wait for what the server finds in the latest version of a document."""
        while True:
            for one in self.published:
                if one["uri"] == uri and one.get("version") == self.versions[uri]:
                    return one["diagnostics"]
            self._read()

    def at(self, uri: str, method: str, line: int, character: int) -> Any:
        """Ask about a position, counted from 0 in UTF-16 units."""
        where = {"line": line, "character": character}
        return self.ask(f"textDocument/{method}", {"textDocument": {"uri": uri}, "position": where})
