"""Links lead somewhere, and every page can be reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, anchor, headings, links, name_of, pages

OUTSIDE = ("https://", "http://", "mailto:")


def faults(page: Path) -> list[str]:
    """List the relative links of a page that lead nowhere."""
    found: list[str] = []
    for number, target in links(page):
        if target.startswith(OUTSIDE):
            continue
        path, _, fragment = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists():
            found.append(f"{page.name}:{number}: no file {target}")
        elif fragment and fragment not in map(anchor, headings(there)):
            found.append(f"{page.name}:{number}: no heading {target}")
    return found


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_relative_links_lead_somewhere(page: Path):
    assert not faults(page)


def test_every_page_is_reached_from_the_readme():
    seen = {ROOT / "README.md"}
    todo = list(seen)
    while todo:
        page = todo.pop()
        for _, target in links(page):
            there = (page.parent / target.partition("#")[0]).resolve()
            if there.suffix == ".md" and there.exists() and there not in seen:
                seen.add(there)
                todo.append(there)
    assert set(pages()) - seen == set()


def test_broken_links_are_found(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(
        "# The one `heading`, here\n[a](page.md#the-one-heading-here) [b](#no) [c](no.md)\n"
        "`[d](code.md)` [e](https://example.com)\n```text\n[f](block.md)\n```\n"
    )
    assert faults(page) == ["page.md:2: no heading #no", "page.md:2: no file no.md"]
