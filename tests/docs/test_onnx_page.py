"""The page of ONNX's operators is a copy of the table of converters."""

from __future__ import annotations

from tools.onnx_page import PAGE, page


def test_page_is_what_the_converters_say():
    """``python -m tools.onnx_page`` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == page()
