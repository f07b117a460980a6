"""The server: receive documents, send diagnostics and answers, by pygls.

A change is analysed once no other has come for a moment, in a thread of its own, so that answers do
not wait for it. An exception in a request is logged, and the server continues.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

import loomir
from loomir.lsp import answers
from loomir.lsp.analysis import Analysis, Analyzer, Finding, Symbol
from loomir.lsp.edits import Edit, edits_of
from loomir.lsp.places import Place, from_units, lines_of, to_units
from loomir.support.diagnostics import CompileError

__all__ = ["Server", "make_server", "serve"]

_PAUSE: Final = 0.15
"""Seconds without a change after which a document is analysed."""
_PAGES: Final = Path(__file__).parents[3] / "docs" / "errors"
"""The pages of errors, if Loomir runs from its sources."""
_SEVERITIES: Final = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "hint": lsp.DiagnosticSeverity.Information,
}
_LOG: Final = logging.getLogger("loomir.lsp")
_F = TypeVar("_F", bound=Callable[..., Any])


class Server(LanguageServer):
    """A language server with the analyses of its documents."""

    def __init__(self) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - takes anything else
            "loomir-lsp", loomir.__version__
        )
        self.analyzer = Analyzer()
        self.known: dict[str, Analysis] = {}
        self.pending: dict[str, asyncio.Task[None]] = {}
        self.versions: dict[str, int] = {}
        self.pages = ""
        """The address of error pages, with ``{code}`` in it, from the editor's options."""
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="loomir-lsp")

    # -- analysing documents ---------------------------------------------------------------------
    def plan(self, uri: str, version: int, pause: float = _PAUSE) -> None:
        """Analyse a version of a document after a pause, unless a newer one replaces it."""
        before = self.pending.pop(uri, None)
        if before is not None:
            before.cancel()
        self.versions[uri] = version
        self.pending[uri] = asyncio.get_running_loop().create_task(self._look(uri, version, pause))

    async def _look(self, uri: str, version: int, pause: float) -> None:
        try:
            await asyncio.sleep(pause)
            document = self.workspace.get_text_document(uri)
            text, path = document.source, document.path

            def look() -> Analysis | None:
                return self.analyzer.analyze(text, path, lambda: self.is_latest(uri, version))

            made = await asyncio.get_running_loop().run_in_executor(self.pool, look)
            if made is None or not self.is_latest(uri, version):
                return
            # A text that cannot be parsed keeps the names of the last one that could.
            if made.symbols or made.bindings or uri not in self.known:
                self.known[uri] = made
            self.publish(uri, version, made)
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - the server goes on
            _LOG.exception("looking at %s failed", uri)

    def is_latest(self, uri: str, version: int) -> bool:
        """Tell whether no newer version of a document is known."""
        return self.versions.get(uri) == version

    def publish(self, uri: str, version: int, analysis: Analysis) -> None:
        """Send the findings in a document."""
        lines = lines_of(analysis.text)
        found = [
            _diagnostic(finding, uri, lines, self.page_of(finding.code))
            for finding in analysis.findings
        ]
        self.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri=uri, diagnostics=found, version=version)
        )

    def page_of(self, code: str) -> str:
        """Return the address of the page of an error; empty if none is known."""
        if not code:
            return ""
        if self.pages:
            return self.pages.replace("{code}", code)
        file = _PAGES / f"{code}.md"
        return file.as_uri() if file.exists() else ""

    def forget(self, uri: str) -> None:
        """Forget a closed document, and clear its findings."""
        task = self.pending.pop(uri, None)
        if task is not None:
            task.cancel()
        self.versions.pop(uri, None)
        self.known.pop(uri, None)
        self.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri=uri, diagnostics=[])
        )

    # -- answering -------------------------------------------------------------------------------
    def place(self, params: Any) -> tuple[str, str, int, int]:
        """Return the document of a request, its text, line and column."""
        uri: str = params.text_document.uri
        text = self.workspace.get_text_document(uri).source
        lines = lines_of(text)
        line: int = params.position.line
        row = lines[line] if line < len(lines) else ""
        return uri, text, line + 1, from_units(row, params.position.character)

    def analysis(self, uri: str, text: str) -> Analysis:
        """Return the analysis of a document, which is made now if there is none yet."""
        found = self.known.get(uri)
        if found is None:
            path = self.workspace.get_text_document(uri).path
            found = self.analyzer.analyze(text, path)
            assert found is not None
        return found


# -- the protocol's types --------------------------------------------------------------------------
def _range(place: Place, lines: list[str]) -> lsp.Range:
    return lsp.Range(
        _position(place.line, place.column, lines),
        _position(place.end_line, place.end_column, lines),
    )


def _position(line: int, column: int, lines: list[str]) -> lsp.Position:
    if line > len(lines):
        return lsp.Position(max(0, len(lines) - 1), to_units(lines[-1], len(lines[-1]) + 1))
    return lsp.Position(line - 1, to_units(lines[line - 1], column))


def _diagnostic(finding: Finding, uri: str, lines: list[str], page: str) -> lsp.Diagnostic:
    related = [
        lsp.DiagnosticRelatedInformation(lsp.Location(uri, _range(place, lines)), text)
        for place, text in finding.related
    ]
    return lsp.Diagnostic(
        range=_range(finding.place, lines),
        message=finding.message,
        severity=_SEVERITIES.get(finding.severity, lsp.DiagnosticSeverity.Error),
        code=finding.code or None,
        code_description=lsp.CodeDescription(page) if page else None,
        source="loomir",
        related_information=related or None,
    )


def _symbol(symbol: Symbol, lines: list[str]) -> lsp.DocumentSymbol:
    is_module = symbol.kind == "module"
    return lsp.DocumentSymbol(
        name=symbol.name,
        kind=lsp.SymbolKind.Module if is_module else lsp.SymbolKind.Function,
        range=_range(symbol.place, lines),
        selection_range=_range(symbol.name_place, lines),
        children=[_symbol(part, lines) for part in symbol.parts],
    )


def _text_edit(edit: Edit) -> lsp.TextEdit:
    span = lsp.Range(lsp.Position(edit.start, 0), lsp.Position(edit.end, 0))
    return lsp.TextEdit(span, edit.text)


# -- requests --------------------------------------------------------------------------------------
def _guard(function: _F) -> _F:
    """Log exceptions of a request, and answer with nothing."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        try:
            return function(*args)
        except Exception:  # noqa: BLE001 - the server goes on
            _LOG.exception("%s failed", function.__name__)
            return None

    return call  # type: ignore[return-value]


@_guard
def initialize(server: Server, params: lsp.InitializeParams) -> None:
    """Read the options of the editor."""
    options: object = params.initialization_options
    given = cast("dict[str, object]", options) if isinstance(options, dict) else {}
    server.pages = str(given.get("errorPages", ""))


@_guard
def did_open(server: Server, params: lsp.DidOpenTextDocumentParams) -> None:
    """Analyse a document at once."""
    server.plan(params.text_document.uri, params.text_document.version, 0.0)


@_guard
def did_change(server: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    """Analyse a document after a pause."""
    server.plan(params.text_document.uri, params.text_document.version)


@_guard
def did_close(server: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    """Forget a document."""
    server.forget(params.text_document.uri)


@_guard
def hover(server: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    """Describe a name."""
    uri, text, line, column = server.place(params)
    found = answers.hover(server.analysis(uri, text), text, line, column)
    if found is None:
        return None
    content = lsp.MarkupContent(lsp.MarkupKind.Markdown, found[0])
    return lsp.Hover(content, _range(found[1], lines_of(text)))


@_guard
def definition(server: Server, params: lsp.DefinitionParams) -> lsp.Location | None:
    """Find where a name is defined."""
    uri, text, line, column = server.place(params)
    found = answers.definition(server.analysis(uri, text), text, line, column)
    return None if found is None else lsp.Location(uri, _range(found, lines_of(text)))


@_guard
def completion(server: Server, params: lsp.CompletionParams) -> lsp.CompletionList:
    """List the names of a dialect."""
    _, text, line, column = server.place(params)
    items = [
        lsp.CompletionItem(
            label=name.name,
            kind=lsp.CompletionItemKind.Function
            if name.is_function
            else lsp.CompletionItemKind.Value,
            detail=name.signature,
            documentation=lsp.MarkupContent(lsp.MarkupKind.Markdown, name.text),
        )
        for name in answers.complete(text, line, column)
    ]
    return lsp.CompletionList(is_incomplete=False, items=items)


@_guard
def document_symbol(
    server: Server, params: lsp.DocumentSymbolParams
) -> list[lsp.DocumentSymbol] | None:
    """List the functions and modules of a document."""
    uri = params.text_document.uri
    text = server.workspace.get_text_document(uri).source
    lines = lines_of(text)
    return [_symbol(symbol, lines) for symbol in server.analysis(uri, text).symbols]


@_guard
def format_document(
    server: Server, params: lsp.DocumentFormattingParams
) -> list[lsp.TextEdit] | None:
    """Format a document."""
    return _edits(server, params.text_document.uri)


@_guard
def format_range(
    server: Server, params: lsp.DocumentRangeFormattingParams
) -> list[lsp.TextEdit] | None:
    """Format the lines of a range."""
    return _edits(server, params.text_document.uri, params.range.start.line, params.range.end.line)


def _edits(
    server: Server, uri: str, first: int = 0, last: int | None = None
) -> list[lsp.TextEdit] | None:
    document = server.workspace.get_text_document(uri)
    try:
        return [_text_edit(e) for e in edits_of(document.source, document.path, first, last)]
    except CompileError:  # the mistakes are shown already
        return None


def make_server() -> Server:
    """Make a server with all its features."""
    server = Server()
    completing = lsp.CompletionOptions(trigger_characters=["."])
    server.feature(lsp.INITIALIZE)(initialize)
    server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)(did_open)
    server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)(did_change)
    server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)(did_close)
    server.feature(lsp.TEXT_DOCUMENT_HOVER)(hover)
    server.feature(lsp.TEXT_DOCUMENT_DEFINITION)(definition)
    server.feature(lsp.TEXT_DOCUMENT_COMPLETION, completing)(completion)
    server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)(document_symbol)
    server.feature(lsp.TEXT_DOCUMENT_FORMATTING)(format_document)
    server.feature(lsp.TEXT_DOCUMENT_RANGE_FORMATTING)(format_range)
    return server


def serve() -> None:
    """Serve an editor over standard input and output; the log goes to standard error."""
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    make_server().start_io()
