"""Programs driven by bytes, for coverage-guided fuzzers.

    python -m fuzz.tir.guided FILE...

With atheris: ``atheris.Setup(sys.argv, one_input); atheris.Fuzz()``.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

from fuzz.choices import ByteChoices
from fuzz.tir.generate import generate
from fuzz.tir.worker import check

__all__ = ["one_input"]


def one_input(data: bytes) -> None:
    """Check the program that bytes stand for; raises where an engine is wrong."""
    program = generate(ByteChoices(data))
    engines = ["quick", "lowered", "ill-typed"]
    found = check(program, program.module, zlib.crc32(data), engines)
    if found:
        raise AssertionError(f"{found}\n{program.module.script()}")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        one_input(Path(name).read_bytes())
