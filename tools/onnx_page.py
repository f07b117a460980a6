"""Write the table of importable ONNX operators: ``python -m tools.onnx_page``."""

from __future__ import annotations

import sys
from pathlib import Path

from loomir.frontend.onnx import known_operators
from loomir.frontend.onnx.converters import load_converters
from loomir.frontend.onnx.importer import NEWEST

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "onnx-operators.md"
HEAD = """# Operators of ONNX

`loomir.onnx.load` imports models of these operators, of all versions of the standard up to
{newest}. This page is a copy of the table of converters: `python -m tools.onnx_page` writes it.
An operator that is not here and that the standard defines by others is made of those. What a note
leaves out, and every other operator, is refused with its name and that of the node
([ONX0010](../errors/ONX0010.md), [ONX0012](../errors/ONX0012.md)), and can be taught:
`loomir.onnx.register_converter`.

`python -m tools.onnx_node_tests` compiles and runs the standard's own tests of its operators, and
says what becomes of each.
"""


def page() -> str:
    """Write the page."""
    load_converters()
    lines = [HEAD.format(newest=NEWEST)]
    domains = dict.fromkeys(domain for domain, _ in known_operators())
    for domain in domains:
        lines += [f"## {domain or 'ai.onnx'}", "", "| operator | what it does not take |"]
        lines.append("| --- | --- |")
        for (own, operator), rows in known_operators().items():
            if own == domain:
                notes = "; ".join(dict.fromkeys(r.note for r in rows if r.note))
                lines.append(f"| `{operator}` | {notes} |")
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    """Run the command."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
