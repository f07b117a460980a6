"""What is found in a file without running it: mistakes, unknown values, and what is remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from loomir.lsp.analysis import Analysis, Analyzer
from tests.docs.markdown import ROOT

HEAD = "from typing import TypeVar\nimport os\nfrom loomir.script import tir as T\n"
KERNEL = """
@T.prim_func
def f{k}(a: T.Buffer((16,), "float32")):
    for i in range(16):
        a[i] = a[i] + {value}
"""


def analyze(text: str, analyzer: Analyzer | None = None) -> Analysis:
    made = (analyzer or Analyzer()).analyze(text, "file.py")
    assert made is not None
    return made


def messages(text: str) -> list[tuple[str, str]]:
    return [(f.severity, f.message.partition("\n")[0]) for f in analyze(text).findings]


def test_a_value_that_only_running_the_file_gives_is_a_hint_and_no_mistake():
    text = HEAD + "Z = int(os.environ['Z'])\n" + KERNEL.format(k=0, value="Z")
    assert messages(text) == [
        ("hint", "Z is known only once the file runs: what depends on it is not checked")
    ]


def test_mistakes_beside_an_unknown_value_are_told():
    text = HEAD + "Z = int(os.environ['Z'])\n" + KERNEL.format(k=0, value="Z")
    text += "    a[0] = missing\n"
    assert [s for s, _ in messages(text)] == ["error", "hint"]


@pytest.mark.parametrize(
    "constant", ["N = 16", "N = (4 * 4)", "K = 4\nN = K * 4", "M, N = 1, 16", 'n = TypeVar("n")']
)
def test_constants_are_known_by_their_text(constant: str):
    name = "n" if "TypeVar" in constant else "N"
    text = HEAD + constant + "\n" + KERNEL.format(k=0, value="T.float32(1)")
    assert messages(text.replace("(16,)", f"({name},)")) == []


def test_nothing_of_the_file_is_run(tmp_path: Path):
    witness = tmp_path / "witness"
    text = HEAD + f"open({str(witness)!r}, 'w')\n" + KERNEL.format(k=0, value="missing")
    assert len(analyze(text).findings) == 1
    assert not witness.exists()


def test_a_mistake_in_a_macro_is_told_once():
    macro = "\n@T.macro\ndef m(x):\n    x[0] = 1.0 +\n"
    assert len(messages(HEAD + macro + KERNEL.format(k=0, value="1.0"))) == 1


def test_only_what_changed_is_read_again():
    analyzer = Analyzer()
    text = HEAD + "".join(KERNEL.format(k=k, value="T.float32(1)") for k in range(50))
    analyze(text, analyzer)
    assert analyzer.reads == 50
    moved = analyze("\n\n" + text.replace("f7(", "g7(").replace("(16,)", "(17,)", 1), analyzer)
    assert analyzer.reads == 52
    assert moved.findings == ()
    first = analyze(text, analyzer).bindings[1].place.line
    assert moved.bindings[1].place.line == first + 2
    assert analyzer.reads == 52


def test_a_constant_that_a_program_uses_is_read_anew():
    analyzer = Analyzer()
    text = HEAD + "N = 1.0\nM = 2\n" + KERNEL.format(k=0, value="T.float32(N)")
    analyze(text, analyzer)
    analyze(text.replace("M = 2", "M = 3"), analyzer)
    assert analyzer.reads == 1
    analyze(text.replace("N = 1.0", "N = 3.0"), analyzer)
    assert analyzer.reads == 2


def test_what_is_outdated_is_given_up():
    asked: list[int] = []

    def is_wanted() -> bool:
        asked.append(1)
        return len(asked) < 4

    text = HEAD + "".join(KERNEL.format(k=k, value="T.float32(1)") for k in range(50))
    analyzer = Analyzer()
    assert analyzer.analyze(text, "file.py", is_wanted) is None
    assert analyzer.reads == 3


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.py")), ids=lambda f: f.stem)
def test_examples_have_no_mistakes(file: Path):
    made = Analyzer().analyze(file.read_text(encoding="utf-8"), str(file))
    assert made is not None
    assert [f for f in made.findings if f.severity == "error"] == []
