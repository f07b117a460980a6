"""The page of PyTorch's operators has a row for each converter."""

from __future__ import annotations

from tools.opinfo_table import PAGE, counts_of_page, page


def test_page_has_the_rows_of_the_converters():
    """``python -m tools.opinfo_table --write`` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == page(counts_of_page())
