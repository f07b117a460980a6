"""The page of public names lists what users import, and nothing that cannot be imported."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import loomir
from tests.docs import public_names_page
from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "reference" / "public-names.md"
INTERNAL = {"loomir.build", "loomir.cli", "loomir.display", "loomir.driver", "loomir.specialize"}
"""Packages with ``__all__`` from which users import nothing: ``loomir`` has what they need."""


def listed() -> dict[str, list[str]]:
    """Read the names on the page, by package."""
    found: dict[str, list[str]] = {}
    for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        package, _, rest = part.partition("\n")
        in_tables = re.findall(r"^\| `(\w+)` \|", rest, re.MULTILINE)
        found[package] = in_tables or re.findall(r"`(\w+)`", rest.rstrip().rpartition("\n")[2])
    return found


def test_the_page_lists_every_public_name(request: pytest.FixtureRequest):
    if request.config.getoption("--update-golden"):
        PAGE.write_text(public_names_page.page(), encoding="utf-8")
    packages = [*public_names_page.PACKAGES, *public_names_page.LISTED]
    assert list(listed()) == packages
    for package, names in listed().items():
        public = importlib.import_module(package).__all__
        assert sorted(names) == sorted(public), "pytest --update-golden writes the page anew"


def test_every_listed_name_can_be_imported():
    missing = [
        f"{package}.{name}"
        for package, names in listed().items()
        for name in names
        if not hasattr(importlib.import_module(package), name)
    ]
    assert missing == []


def test_every_listed_name_is_explained():
    rows = re.findall(r"^\| `\w+` \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == sum(len(listed()[package]) for package in public_names_page.PACKAGES)
    assert [row for row in rows if len(row) < 5] == []
    # A constant is an instance of a class of Python, whose docstring says nothing of it.
    assert [row for row in rows if row.startswith(("str(", "int(", "dict(", "tuple("))] == []


def test_every_package_with_public_names_is_on_the_page():
    found = {
        f"loomir.{module.name}"
        for module in pkgutil.iter_modules(loomir.__path__)
        if module.name != "__main__"
    }
    # The importers are also under shorter names; the page has them under their own.
    packages = {
        name
        for name in found
        if (module := importlib.import_module(name)).__name__ == name and hasattr(module, "__all__")
    }
    assert {"loomir.tir", "loomir.relax"} <= packages
    assert packages - INTERNAL - set(listed()) == set()
