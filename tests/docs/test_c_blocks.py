"""The programs in C of the page about libraries compile, and print what the page shows."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from tests.docs.markdown import ROOT, blocks
from tests.docs.running import Reader
from tests.runtime.test_export_library import CC, needs_cc

PAGE = ROOT / "docs" / "deploy.md"


@needs_cc
def test_programs_in_c_print_what_the_page_shows(tmp_path: Path):
    reader = Reader(tmp_path)
    shown = 0
    for block in blocks(PAGE):
        reader.follow(block)
        if block.text.startswith("#include"):
            (tmp_path / "main.c").write_text(block.text)
        elif command := re.match(r"\$ cc (.*) && \./main\n", block.text):
            subprocess.run([str(CC), *shlex.split(command[1])], cwd=tmp_path, check=True)
            done = subprocess.run(
                [tmp_path / "main"], capture_output=True, text=True, check=True, cwd=tmp_path
            )
            assert done.stdout == block.text[command.end() :]
            shown += 1
    assert shown == 2
