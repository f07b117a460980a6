"""The examples in docstrings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import loomir


def test_examples_in_docstrings_are_true():
    names = ["loomir"]
    names += [m.name for m in pkgutil.walk_packages(loomir.__path__, "loomir.")]
    failed = {}
    for name in names:
        if name.endswith("__main__"):
            continue
        result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
        if result.failed:
            failed[name] = result
    assert failed == {}
