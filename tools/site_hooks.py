"""MkDocs hooks: adapt pages that are also written for GitHub and for tests.

- ``CONTRIBUTING.md`` and ``CHANGELOG.md``, at the root of the repository, become pages of the site.
- The options of code fences, which only tests read, are removed.
- Links to files outside of ``docs/`` become plain text.
"""

from __future__ import annotations

import importlib
import posixpath
import re
from pathlib import Path
from typing import Any, Final

__all__ = ["on_files", "on_page_markdown"]

_ROOT: Final = Path(__file__).parents[1]
_PAGES: Final = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_FENCE: Final = re.compile(r"^```(\w*)[^\n`]*$", re.MULTILINE)
_BLOCK: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_LANGUAGES: Final = {"output": "text", "asm": "gas"}


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages that stand at the root."""
    file: Any = importlib.import_module("mkdocs.structure.files").File
    for name, page in _PAGES.items():
        text = (_ROOT / name).read_text(encoding="utf-8")
        files.append(file.generated(config, page, content=_with_links(text, "", "")))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return a page as the site has it."""
    folder = posixpath.dirname(page.file.src_uri)
    if page.file.src_uri in _PAGES.values():
        return markdown  # done above
    parts: list[str] = []
    end = 0
    for block in _BLOCK.finditer(markdown):
        parts.append(_with_links(markdown[end : block.start()], f"docs/{folder}", folder))
        parts.append(_FENCE.sub(_plain_fence, block[0], count=1))
        end = block.end()
    parts.append(_with_links(markdown[end:], f"docs/{folder}", folder))
    return "".join(parts)


def _plain_fence(fence: re.Match[str]) -> str:
    return f"```{_LANGUAGES.get(fence[1], fence[1])}"


def _with_links(text: str, folder: str, page_folder: str) -> str:
    """Return a text with its links as the site has them; ``folder`` is where it stands."""

    def replace(link: re.Match[str]) -> str:
        target, hash_sign, anchor = link[2].partition("#")
        if "://" in target or not target:
            return link[0]
        place = posixpath.normpath(posixpath.join(folder, target))
        inside = _PAGES.get(place) or (place[5:] if place.startswith("docs/") else "")
        if not inside:
            return f"`{link[1].strip('`')}`"
        there = posixpath.relpath(inside, page_folder or ".")
        return f"[{link[1]}]({there}{hash_sign}{anchor})"

    return _LINK.sub(replace, text)
