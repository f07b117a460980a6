"""Count the type errors of every file, and compare them with the list of remaining ones.

    python -m tools.type_errors            # rewrite the list with lower numbers
    python -m tools.type_errors FILE ...   # show the errors in files

One run of pyright reads the whole tree by pyproject.toml. ``tests/type_errors.txt`` lists how many
errors each file may still have; unlisted files must have none, and numbers only go down.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
LIST: Final = ROOT / "tests" / "type_errors.txt"


def main() -> int:
    """Lower the numbers of the list, or show errors."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", help="show the errors in these")
    options = parser.parse_args()
    found = find_errors(options.files)
    if options.files:
        print("\n".join(line for lines in found.values() for line in lines))
        return 1 if found else 0
    allowed = read_list()
    rows = {path: min(len(found.get(path, ())), count) for path, count in allowed.items()}
    LIST.write_text("".join(f"{n} {p}\n" for p, n in sorted(rows.items()) if n), encoding="utf-8")
    faults = compare(found, read_list())
    print(
        "\n".join(faults)
        or f"{sum(rows.values())} errors left in {sum(map(bool, rows.values()))} files"
    )
    return 1 if faults else 0


def find_errors(files: Sequence[str] = ()) -> dict[str, list[str]]:
    """Return the errors of each file that has any, as lines for people."""
    # Collecting garbage often is a fifth of the work of the type checker, which runs in Node.
    env = {**os.environ, "NODE_OPTIONS": "--max-semi-space-size=128"}
    # Without --pythonpath it would look into the machine's Python and miss what is installed here.
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(
        [*command, *files], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    try:
        told: Any = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"pyright failed:\n{done.stdout}\n{done.stderr}") from None
    found: dict[str, list[str]] = {}
    for each in told["generalDiagnostics"]:
        path = Path(each["file"]).relative_to(ROOT).as_posix()
        start = each["range"]["start"]
        rule = f" ({each['rule']})" if "rule" in each else ""
        line = f"{path}:{start['line'] + 1}:{start['character'] + 1}: {each['message']}{rule}"
        found.setdefault(path, []).append(line)
    return found


def read_list() -> dict[str, int]:
    """Return the number of errors that each file may have; others none."""
    rows = [line.split(" ", 1) for line in LIST.read_text(encoding="utf-8").splitlines()]
    return {path: int(count) for count, path in rows}


def compare(found: Mapping[str, Sequence[str]], allowed: Mapping[str, int]) -> list[str]:
    """Return what is wrong: errors that are not allowed, and numbers that are too high."""
    wrong: list[str] = []
    for path in sorted({*found, *allowed}):
        lines, limit = found.get(path, ()), allowed.get(path, 0)
        if len(lines) > limit:
            wrong += [f"{path}: {len(lines)} type errors, where {limit} are allowed", *lines]
        elif len(lines) < limit:
            wrong.append(
                f"{path}: {len(lines)} type errors are left, and the list still allows {limit}: "
                "run `python -m tools.type_errors`"
            )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
