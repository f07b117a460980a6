"""The site has every page: what MkDocs itself would say, for those who do not have it."""

from __future__ import annotations

import re

from tests.docs.markdown import ROOT, pages, prose

SETTINGS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_navigation_has_every_page_once():
    nav = re.findall(r"([\w/-]+\.md)$", SETTINGS.partition("\nnav:")[2], re.MULTILINE)
    docs = {p.relative_to(ROOT / "docs").as_posix() for p in pages() if ROOT / "docs" in p.parents}
    wanted = {p for p in docs if not re.fullmatch(r"errors/[A-Z]{2,3}\d{4}\.md", p)}
    assert len(nav) == len(set(nav))
    assert set(nav) == wanted | {"contributing.md", "changelog.md"}


def test_tables_are_whole():
    """A table has a head, a line below it, and rows of as many cells, wherever it is rendered."""
    odd: list[str] = []
    for page in pages():
        before, cells = "", 0
        for number, line in prose(page):
            if not line.startswith("|"):
                before = line
                continue
            found = len(re.split(r"(?<!\\)\|", line))
            if not before.startswith("|"):
                cells = found
                if before.strip():
                    odd.append(f"{page.name}:{number}: no empty line before the table")
                here = page.read_text(encoding="utf-8").splitlines()
                if not re.fullmatch(r"[|\s:-]+", here[number]):
                    odd.append(f"{page.name}:{number}: a row without a head")
            elif found != cells:
                odd.append(f"{page.name}:{number}: {found - 2} cells, and the head has {cells - 2}")
            before = line
    assert odd == []
