"""What every test gets: read-only nodes, checked facts, golden files, and the report on clauses."""

from __future__ import annotations

import difflib
import gc
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bytecode import import_in_turns, share_bytecode, share_with_children

share_bytecode()  # before the package is imported

import hypothesis  # noqa: E402

from loomir.ir.node import freeze_nodes  # noqa: E402
from loomir.ir.passes import verifying  # noqa: E402
from loomir.support.config import SETTINGS  # noqa: E402
from tests.clause import coverage, uncovered  # noqa: E402

# The machines that run this are shared and slow at times: no deadline. The same examples in every
# run, so that a failure is the change's; `--hypothesis-profile=search` looks for new ones.
hypothesis.settings.register_profile("same", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("search", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("same")

freeze_nodes()

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("loomir")
    group.addoption("--update-golden", action="store_true", help="write the golden files anew")
    group.addoption(
        "--uncovered", action="store_true", help="list the clauses that no passing test cites"
    )


# -- processes ----------------------------------------------------------------------------------
def pytest_configure(config: pytest.Config) -> None:
    share_with_children(config)


# -- facts --------------------------------------------------------------------------------------
@pytest.fixture(scope="session", autouse=True)
def _keep_no_programs() -> Iterator[None]:
    """Let no test find whole programs that another one compiled, nor processes that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SETTINGS, "program_bytes", 0)
        patch.setenv("LOOMIR_CACHE_SIZE", "0")
        yield


@pytest.fixture(scope="session", autouse=True)
def _verify_facts() -> Iterator[None]:
    """Check facts after every pass and steps of scheduling, in processes that tests start too."""
    with pytest.MonkeyPatch.context() as patch, verifying():
        patch.setenv("LOOMIR_VERIFY", "1")
        yield


# -- memory -------------------------------------------------------------------------------------
@pytest.hookimpl(hookwrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Keep the half million objects of twenty thousand tests out of every search for cycles."""
    gc.disable()
    import_in_turns(session.config)
    yield
    gc.collect()
    gc.freeze()
    gc.enable()


# -- order --------------------------------------------------------------------------------------
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tools that read all sources: the type checker takes longer than any test."""
    items.sort(key=lambda item: item.get_closest_marker("static") is None)


# -- golden files -------------------------------------------------------------------------------
def golden_path(test: pytest.Item) -> Path:
    """Return the file of a test: golden/<path of the test file>/<name of the test>.txt."""
    where = test.path.relative_to(Path(__file__).parent).with_suffix("")
    name = re.sub(r"[^\w.=-]+", "_", test.name).strip("_")
    return GOLDEN / where / f"{name}.txt"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Iterator[Callable[[str], None]]:
    """Compare texts with the test's golden file; several calls append to one file.

    ``pytest --update-golden`` writes the file; look at the difference before you commit it.
    """
    path = golden_path(request.node)
    shown: list[str] = []

    def show(text: str) -> None:
        shown.append(text if text.endswith("\n") else text + "\n")

    yield show
    if not shown:
        pytest.fail("the test asked for `golden` and showed it nothing")
    actual = "".join(shown)
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(actual, encoding="utf-8")
        return
    if not path.exists():
        pytest.fail(f"no {path.relative_to(GOLDEN.parent)}: run pytest --update-golden")
    expected = path.read_text(encoding="utf-8")
    if actual != expected:
        rows = difflib.unified_diff(
            expected.splitlines(), actual.splitlines(), "golden", "now", lineterm=""
        )
        pytest.fail("\n".join(rows), pytrace=False)


# -- clauses ------------------------------------------------------------------------------------
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    # User properties travel with the report from xdist's workers to the process that counts.
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if report.when == "call" and report.passed:
        cited = {clause for mark in item.iter_markers("clauses") for clause in mark.args}
        report.user_properties.append(("clauses", sorted(cited)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    passed: list[pytest.TestReport] = terminalreporter.getreports("passed")
    cited: set[str] = set()
    for report in passed:
        for key, value in report.user_properties:
            if key == "clauses":
                cited.update(value)
    terminalreporter.section("clauses of the specifications")
    for line in coverage(cited):
        terminalreporter.line(line)
    if terminalreporter.config.getoption("--uncovered"):
        terminalreporter.line(" ".join(uncovered(cited)))
