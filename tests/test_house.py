"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "loomir"
SOURCES = sorted(PACKAGE.rglob("*.py"))
FOLDERS = sorted({f.parent for f in SOURCES if f.parent != PACKAGE})
LONGEST = 600
# Files about one thing that is longer. This list may only shrink, and so may its numbers.
LONGER = {
    "arith/simplify/canonical.py": 630,
    "ir/visit.py": 710,
    "schedule/schedule.py": 760,
    "tir/expr.py": 900,
}
MODULES = 20
"""How many modules a folder may have: more is where one gets lost."""
SIBLINGS = 3
"""How many modules of a folder may share the beginning of their names: more are a folder."""
# A pass has the name under which users ask for it.
NAMED_BY_USERS = "transform/"
# Names that say nothing about what is in the file.
EMPTY_NAMES = {"utils", "util", "misc", "helpers", "helper", "common", "base"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
# Words that once had a meaning of their own here: the glossary has the terms of the field.
PRIVATE_WORDS = re.compile(
    r"(?<![a-z])(turned|held|apart|alone|joined|stretch(es|ed)?|spread(s|ing)?)(?![a-z])", re.I
)
# Phrases that once opened docstrings here and made readers guess: say what the function does.
RIDDLES = re.compile(
    r'"""(Give|Hold|Say of) |'
    r"\b(in the making|as (it|they) stands?|those of which|what waits for|is told|what is none)\b"
)
READ_BY_PEOPLE = ("src/", "tests/", "fuzz/", "benchmarks/", "tools/", "examples/", "docs/")
QUOTED = ("tests/golden/", "docs/reference/clauses-", "tests/test_house.py")
# Each is one class: what it means must not depend on where one reads.
ONE_MEANING = ("Access", "Form", "Frame", "Kernel", "Place", "RefusalError")
# Names of functions: verbs for what they do, ``is_`` and ``has_`` where they tell whether.
PARTICIPLE = re.compile(r"[a-z]{2,}(ed|ing)")
IRREGULAR = re.compile(
    r"begun|bound|broken|brought|built|caught|chosen|done|drawn|fallen|felt|found|frozen|"
    r"given|gone|grown|hidden|kept|known|laid|left|lent|lost|made|meant|met|paid|ran|said|"
    r"seen|sent|shown|shrunk|slid|sold|spent|struck|stuck|sunk|swept|taken|taught|thought|"
    r"thrown|told|torn|understood|won|worn|wound|written"
)
NO_PARTICIPLES = re.compile(
    r"bring|embed|exceed|feed|need|nothing|ping|proceed|ring|seed|speed|spring|string|thing"
)
ADJECTIVES = re.compile(
    r"adjacent|all|any|below|certain|each|either|equal|in|injective|inside|nonnegative|never|"
    r"once|only|open|opaque|plain|same|separate|single|small|within"
)
"""What begins no name of a predicate: ``is_equal``, not ``equal``."""
MISTAKES = re.compile(r"\b(\w*Error|Diagnostic|Fault|CannotImport|BaseException)\b")
"""What functions return that are named for what went wrong."""
NAMED_ELSEWHERE = ("frontend/onnx/converters/", "frontend/torch/converters/")
"""Where functions have the names of operators of others."""
# Names that users write, and one of the field's. This list may only shrink.
PARTICIPLES = {
    ("codegen/llvm/tir/arithmetic.py", "fused_multiply_add"),
    ("frontend/onnx/registry.py", "known_operators"),
    ("frontend/torch/__init__.py", "supported"),
    ("frontend/torch/registry.py", "known_operators"),
    ("ir/module.py", "called_as"),
    ("ir/passes.py", "verifying"),
    ("schedule/trace.py", "simplified"),
    ("script/builder/tir/loops.py", "vectorized"),
    ("support/uncompiled_call.py", "called_as"),
    ("te/topi/manipulate.py", "strided_slice"),
    ("te/topi/search.py", "searchsorted"),
    ("tir/analysis/written_buffers.py", "written_buffers"),
}
# Words that say where or which, and not what a function does: ``pack_element``, not ``one``.
LEADING = re.compile(
    r"after|again|ahead|along|also|among|around|as|at|away|back|before|behind|below|beside|"
    r"between|beyond|both|but|by|each|either|else|ever|every|first|for|from|half|how|if|in|"
    r"instead|into|just|last|least|less|many|more|most|much|next|no|none|not|of|off|on|once|one|"
    r"only|onto|other|others|out|over|own|past|per|same|so|some|such|than|that|then|there|through|"
    r"to|together|too|towards|under|until|up|upon|what|when|where|which|while|who|whole|whose|why|"
    r"with|within|without|yet"
)
# Converters, constructors, copies with a change and handlers have names of this form everywhere.
# Others are named after the statement or the operator that they handle.
CONVENTIONS = re.compile(
    r"(as|from|on|to|with)_[a-z]\w*|(then|else)_case|"
    r"if|for|not|while|while_loop|where|if_then_else|next_after|not_equal|one_hot\w*"
)
# Names that users write, constructors of the class, and some of LLVM. This list may only shrink.
LED = {
    ("arith/bounds/expression_bounds.py", "of"),
    ("arith/bounds/expression_bounds.py", "of_loop"),
    ("arith/bounds/expression_bounds.py", "of_range"),
    ("autoschedule/rewrite/monomial.py", "of"),
    ("codegen/llvm/jit/engine.py", "of"),
    ("codegen/llvm/math/floats.py", "half_to_float"),
    ("frontend/onnx/node.py", "one"),
    ("ir/equality.py", "first_difference"),
    ("ir/visit.py", "by_class"),
    ("ir/visit.py", "of_classes"),
    ("lsp/places.py", "of_node"),
    ("lsp/places.py", "of_offsets"),
    ("script/builder/relax/frames.py", "of"),
    ("tir/buffer.py", "whole"),
}
# Classes and modules are things, so their names end in nouns: ``PlacedBox``, not ``Placed``.
BARE_ADJECTIVES = re.compile(
    r"absent|deep|different|empty|foreign|fresh|inexact|lazy|long|missing|nameless|native|open|"
    r"ordinary|partial|pending|plain|rare|short|single|small|smaller|special|unfit|unread"
)
BARE_VERBS = re.compile(r"accepts|asks|does|gives|holds|keeps|needs|reads|says|sees|takes")
# Names of activities and of Python, TVM or LLVM. These lists may only shrink.
CLASSES = {
    *("Binding", "Finding", "Packing", "Timing", "_Binding", "_Lowering", "_Padding", "_Tuning"),
    *("ConstIntBound", "For", "If", "Not", "Starred", "While", "With", "located"),
}
MODULES_NAMED_OTHERWISE = {"well_formed"}
MACHINE_PATHS = re.compile(r"(?<![\w.])/(work|root|home)/")


@pytest.mark.parametrize("file", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_file_is_small_named_and_finished(file: Path):
    text = file.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGER.get(file.relative_to(PACKAGE).as_posix(), LONGEST)
    assert file.stem not in EMPTY_NAMES
    assert not file.stem.startswith("new_")
    assert not re.search(r"_v\d+$", file.stem)
    assert UNFINISHED.findall(text) == []


@pytest.mark.parametrize("name", sorted(LONGER))
def test_exceptions_are_needed(name: str):
    lines = len((PACKAGE / name).read_text(encoding="utf-8").splitlines())
    assert LONGEST < lines <= LONGER[name] < lines + 20, "shorten the list, or the number"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_folder_shows_what_it_is(folder: Path):
    assert '"""' in (folder / "__init__.py").read_text(encoding="utf-8")
    modules = [f.stem for f in folder.glob("*.py") if f.stem != "__init__"]
    assert len(modules) <= MODULES
    if not folder.relative_to(PACKAGE).as_posix().startswith(NAMED_BY_USERS):
        begins = Counter(m.split("_")[0] for m in modules if "_" in m)
        assert {b: n for b, n in begins.items() if n > SIBLINGS} == {}


def tracked() -> list[Path]:
    """Return the text files that the repository holds, or that an unpacked archive has."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        return [p for d in ("src", "tests", "docs", "examples") for p in (ROOT / d).rglob("*.*")]
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def test_no_file_names_a_place_on_somebody_s_machine():
    found = []
    for file in tracked():
        if file == Path(__file__) or not file.is_file() or file.suffix in {".png", ".pyc", ".npz"}:
            continue
        if MACHINE_PATHS.search(file.read_text(encoding="utf-8")):
            found.append(str(file.relative_to(ROOT)))
    assert found == []


def test_packages_carry_types():
    assert (PACKAGE / "py.typed").exists()


def test_names_and_texts_use_the_words_of_the_field():
    found: list[str] = []
    for file in tracked():
        name = file.relative_to(ROOT).as_posix()
        is_text = file.suffix in {".py", ".pyi", ".md"} and file.is_file()
        if not is_text or name.startswith(QUOTED):
            continue
        if "/" in name and not name.startswith(READ_BY_PEOPLE):
            continue
        text = file.read_text(encoding="utf-8")
        for match in PRIVATE_WORDS.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{name}:{line}: {match[0]}")
        if file.suffix == ".py" and ('"""Give ' in text or '"""Hold' in text):
            found.append(f'{name}: a docstring begins with "Give" or "Hold": say what it does')
        if name.startswith("src/"):
            found += [f"{name}: say plainly what {m[0]!r} means" for m in RIDDLES.finditer(text)]
    assert found == []


@pytest.mark.parametrize("name", ONE_MEANING)
def test_a_class_name_has_one_meaning(name: str):
    pattern = re.compile(rf"^class {name}\b", re.MULTILINE)
    homes = [f for f in SOURCES if pattern.search(f.read_text(encoding="utf-8"))]
    assert len(homes) <= 1, "name the others by what they are"


def functions_of(file: Path) -> Iterator[tuple[str, str]]:
    """List names and results of the functions that are called: no property, no method of Python's."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("__"):
            marks = " ".join(ast.unparse(mark) for mark in node.decorator_list)
            if not re.search(r"property|setter|overload", marks):
                yield node.name, ast.unparse(node.returns) if node.returns else ""


def is_participle(word: str) -> bool:
    found = PARTICIPLE.fullmatch(word) is not None and not NO_PARTICIPLES.fullmatch(word)
    return found or IRREGULAR.fullmatch(word) is not None


def test_functions_are_named_by_verbs():
    participles: set[tuple[str, str]] = set()
    for file in SOURCES:
        name = file.relative_to(PACKAGE).as_posix()
        for function, result in functions_of(file):
            word = function.strip("_").split("_")[0]
            if is_participle(word) and not MISTAKES.search(result):
                participles.add((name, function))
            tells = result in {"bool", "Step[bool]"}
            assert not (tells and ADJECTIVES.fullmatch(word)), (name, function)
    found = {p for p in participles if not p[0].startswith(NAMED_ELSEWHERE)}
    assert found - PARTICIPLES == set(), "say what the function does: move, not moved"
    assert PARTICIPLES - found == set(), "shorten the list"


def is_no_noun(words: list[str], *, activity: bool) -> bool:
    """Tell whether a name says no thing: it ends in a participle, or is no noun by itself."""
    last = words[-1].lower()
    if is_participle(last) and not (activity and last.endswith("ing")):
        return True
    bare = (LEADING, BARE_ADJECTIVES, BARE_VERBS)
    return len(words) == 1 and any(kind.fullmatch(last) for kind in bare)


def test_classes_are_named_by_nouns():
    found: set[str] = set()
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", node.name)
                if is_no_noun(words, activity=len(words) > 1):
                    found.add(node.name)
    assert found - CLASSES == set(), "say what it is: PlacedBox, not Placed"
    assert CLASSES - found == set(), "shorten the list"


def test_modules_are_named_by_nouns():
    names = {file.stem for file in SOURCES if not file.stem.startswith("__")}
    found = {name for name in names if is_no_noun(name.split("_"), activity=True)}
    assert found - MODULES_NAMED_OTHERWISE == set(), "say what it is about: saved_executables"
    assert MODULES_NAMED_OTHERWISE - found == set(), "shorten the list"


def test_functions_say_what_they_do():
    found: set[tuple[str, str]] = set()
    for file in SOURCES:
        name = file.relative_to(PACKAGE).as_posix()
        for function, result in functions_of(file):
            bare = function.strip("_")
            leads = LEADING.fullmatch(bare.split("_")[0]) and not CONVENTIONS.fullmatch(bare)
            if leads and not MISTAKES.search(result):
                found.add((name, function))
    assert found - LED == set(), "begin with a verb: pack_element, not one"
    assert LED - found == set(), "shorten the list"


@pytest.mark.parametrize(
    ("word", "expected"),
    [("moved", True), ("coming", True), ("kept", True), ("need", False), ("string", False)],
)
def test_participles_are_known(word: str, expected: bool):
    assert is_participle(word) is expected
