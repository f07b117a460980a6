"""Sessions of an editor with the server, over its standard input and output."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.client import Client

TEXT = """from loomir.script import ir as I, relax as R, tir as TT

N = 128


@I.ir_module
class M:
    @TT.prim_func
    def scale(a: TT.Buffer((N,), "float32"), b: TT.Buffer((N,), "float32")):
        for i in range(N):
            b[i] = TT.exp(a[i])

    @R.function
    def main(x: R.Tensor((128,), "float32")):
        y = R.call_tir(M.scale, (x,), out_sinfo=R.Tensor((128,), "float32"))
        z = R.nn.relu(y)
        return z
"""
LINES = TEXT.split("\n")


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client() as made:
        yield made


@pytest.fixture
def uri(client: Client, tmp_path: Path) -> str:
    made = (tmp_path / "file.py").as_uri()
    assert client.open(made, TEXT) == []
    return made


def position(of: str, word: str) -> tuple[int, int]:
    row = next(n for n, line in enumerate(LINES) if of in line)
    return row, LINES[row].index(of) + of.index(word)


def test_the_server_says_what_it_can(client: Client):
    can = client.features["capabilities"]
    for name in ("hover", "definition", "documentSymbol", "documentFormatting"):
        assert can[f"{name}Provider"]
    assert can["documentRangeFormattingProvider"]
    assert can["completionProvider"]["triggerCharacters"] == ["."]
    assert can["positionEncoding"] == "utf-16"


def test_all_mistakes_come_at_once_with_their_pages(client: Client, tmp_path: Path):
    uri = (tmp_path / "wrong.py").as_uri()
    text = TEXT.replace("TT.exp(a[i])", "missing").replace("R.nn.relu(y)", "R.relu(y)")
    first, second = client.open(uri, text)
    assert (first["code"], first["severity"], first["source"]) == ("SCR0003", 1, "loomir")
    assert first["message"].startswith("'missing' is not defined")
    assert first["range"] == {
        "start": {"line": 10, "character": 19},
        "end": {"line": 10, "character": 26},
    }
    assert first["codeDescription"]["href"].endswith("docs/errors/SCR0003.md")
    assert "help: did you mean R.nn.relu?" in second["message"]


def test_the_editor_may_say_where_pages_are(tmp_path: Path):
    with Client(errorPages="https://example.org/{code}/") as client:
        uri = (tmp_path / "wrong.py").as_uri()
        (found,) = client.open(uri, TEXT.replace("TT.exp(a[i])", "missing"))
        assert found["codeDescription"]["href"] == "https://example.org/SCR0003/"


def test_places_count_utf_16_units(client: Client, tmp_path: Path):
    uri = (tmp_path / "units.py").as_uri()
    text = TEXT.replace("TT.exp(a[i])", "TT.exp(a[i]) + grö𝐱 + q  # 😀")
    found = client.open(uri, text.replace("b[i] =", "'😀ö'; b[i] ="))
    line = "            '😀ö'; b[i] = TT.exp(a[i]) + grö"
    start = len(line.encode("utf-16-le")) // 2 - 3
    assert found[0]["range"]["start"] == {"line": 10, "character": start}


def test_changes_are_looked_at_once_they_rest(client: Client, uri: str):
    row, column = position("TT.exp(a[i])", "TT")
    spot = {"line": row, "character": column}
    end = {"line": row, "character": column + len("TT.exp(a[i])")}
    client.change(uri, {"range": {"start": spot, "end": end}, "text": "w"})
    spot = {"line": row, "character": column + 1}
    for letter in "rong":
        client.change(uri, {"range": {"start": spot, "end": spot}, "text": letter})
        spot = {"line": row, "character": spot["character"] + 1}
    (found,) = client.found(uri)
    assert found["message"].startswith("'wrong' is not defined")
    versions = [p["version"] for p in client.published if p["uri"] == uri]
    assert versions == [1, 6]  # what was typed on the way was not worth a look
    client.change(uri, {"text": TEXT})
    assert client.found(uri) == []


def hover(client: Client, uri: str, *where: int) -> str:
    found: Any = client.at(uri, "hover", *where)
    return found["contents"]["value"]


def test_hovering_tells_what_names_mean(client: Client, uri: str):
    assert "a: T.Buffer" in hover(client, uri, *position("(a[i])", "a"))
    assert "i: T.int32  # 0 to 127, serial" in hover(client, uri, *position("(a[i])", "i"))
    assert 'R.Tensor((128,), dtype="float32")' in hover(client, uri, *position("relu(y)", "y"))
    assert "Take the greater of each element" in hover(client, uri, *position("nn.relu", "relu"))
    assert "TT.exp(x, /)" in hover(client, uri, *position("TT.exp", "exp"))
    assert client.at(uri, "hover", 2, 0) is None


def test_definitions_are_found(client: Client, uri: str):
    def start(*where: int) -> tuple[int, int]:
        found: Any = client.at(uri, "definition", *where)["range"]["start"]
        return found["line"], found["character"]

    assert start(*position("(a[i])", "a")) == position("a: TT.Buffer", "a")
    assert start(*position("(a[i])", "i")) == position("for i in", "i")
    assert start(*position("M.scale,", "scale")) == position("def scale", "scale")
    assert start(*position("relu(y)", "y")) == position("y = R.call_tir", "y")


def test_names_of_dialects_complete(client: Client, uri: str):
    found = client.at(uri, "completion", *position("TT.exp", "exp"))["items"]
    (exp,) = [item for item in found if item["label"] == "exp"]
    assert exp["detail"] == "exp(x, /)"
    assert "E to the power x." in exp["documentation"]["value"]
    row, column = position("R.nn.relu", "relu")
    labels = [i["label"] for i in client.at(uri, "completion", row, column + 2)["items"]]
    assert "conv2d" in labels
    assert "exp" not in labels


def test_symbols_are_the_programs(client: Client, uri: str):
    (module,) = client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    assert module["name"] == "M"
    assert [part["name"] for part in module["children"]] == ["scale", "main"]
    first = module["children"][0]["selectionRange"]["start"]
    assert (first["line"], first["character"]) == position("def scale", "scale")


def applied(text: str, edits: list[dict[str, Any]]) -> str:
    lines = text.split("\n")
    for edit in reversed(edits):
        start, end = edit["range"]["start"], edit["range"]["end"]
        assert start["character"] == end["character"] == 0
        lines[start["line"] : end["line"]] = edit["newText"].split("\n")[:-1]
    return "\n".join(lines)


def test_formatting_changes_only_what_was_asked(client: Client, tmp_path: Path):
    uri = (tmp_path / "ugly.py").as_uri()
    ugly = TEXT.replace("N = 128", "N=128").replace("z = R", "z=R")
    client.open(uri, ugly)
    options = {"tabSize": 4, "insertSpaces": True}
    asked = {"textDocument": {"uri": uri}, "options": options}
    assert applied(ugly, client.ask("textDocument/formatting", asked)) == TEXT
    part = {"start": {"line": 0, "character": 0}, "end": {"line": 5, "character": 0}}
    edits = client.ask("textDocument/rangeFormatting", {**asked, "range": part})
    assert applied(ugly, edits) == ugly.replace("N=128", "N = 128")
    client.change(uri, {"text": "def f(:\n"})
    assert client.ask("textDocument/formatting", asked) is None


def test_tensor_comprehensions_are_looked_at(client: Client, tmp_path: Path):
    uri = (tmp_path / "file.tc").as_uri()
    right = "def mv(float(M,K) A, float(K) x) -> (y) {\n  y(i) +=! A(i,k) * x(k)\n}\n"
    assert client.open(uri, right) == []
    client.change(uri, {"text": right.replace("x(k)", "z(k)")})
    (found,) = client.found(uri)
    assert found["code"].startswith("TC")
    assert found["range"]["start"]["line"] == 1


def test_closing_takes_everything_back(client: Client, tmp_path: Path):
    uri = (tmp_path / "closed.py").as_uri()
    assert client.open(uri, "x = (\n") != []
    client.tell("textDocument/didClose", {"textDocument": {"uri": uri}})
    client.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri}})
    assert [p["diagnostics"] for p in client.published if p["uri"] == uri][-1] == []


def test_requests_that_go_wrong_do_not_end_the_server(client: Client, uri: str):
    for line, character in ((10**6, 0), (0, 10**6), (9, 10**6)):
        assert client.at(uri, "hover", line, character) is None
        assert client.at(uri, "definition", line, character) is None
        assert client.at(uri, "completion", line, character)["items"] == []
    gone = {"textDocument": {"uri": "file:///nowhere/none.py"}}
    client.ask("textDocument/documentSymbol", gone)
    assert "exp(x, /)" in hover(client, uri, *position("TT.exp", "exp"))


def test_a_session_ends_in_order(tmp_path: Path):
    with Client() as client:
        assert client.ask("shutdown", None) is None
        client.tell("exit", None)
        assert client.process.wait(20) == 0


def test_what_is_missing_is_said_in_one_line():
    code = (
        "import sys; sys.modules['pygls'] = None\n"
        "sys.modules['lsprotocol'] = None\n"
        "from loomir.lsp.start import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "loomir-lsp needs lsprotocol: pip install 'loomir[lsp]'\n"
