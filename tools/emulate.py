"""Run Python, tests or campaigns on an emulated CPU, of AArch64 or an x86-64 of any age.

    python -m tools.emulate set-up FOLDER aarch64
    python -m tools.emulate run FOLDER --cpu neoverse-n1 -- -m pytest -q tests/test_examples.py
    python -m tools.emulate run FOLDER -- -m fuzz.schedules --family idioms --native --count 100

    python -m tools.emulate set-up FOLDER x86_64
    python -m tools.emulate run FOLDER --cpu Nehalem -- -m loomir doctor

``set-up`` needs a Debian or Ubuntu system with ``apt-get`` and ``dpkg-deb``, but no rights of an
administrator: it unpacks QEMU's user-mode emulator into the folder, and for AArch64 also Debian's
Python for ``arm64`` and the wheels that Loomir and its tests need. ``run`` runs Python there, with
this checkout. Processes that it starts with ``sys.executable`` are emulated too. For AArch64 there
are also ``cc`` and ``nm``, which compile for it; the programs that ``cc`` links start the emulator.

Emulated code takes ten to thirty times as long. QEMU runs threads on the host's memory model, which
is stronger than that of AArch64: what only a weakly ordered machine does wrong is not seen here.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from importlib.metadata import requires
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
ARCHITECTURES: Final = ("aarch64", "x86_64")
_DEBIAN: Final = {"aarch64": "arm64", "x86_64": "amd64"}
_PYTHON: Final = "3.11"
"""The Python of Debian 12."""
_SOURCES: Final = (
    "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
    "http://deb.debian.org/debian bookworm main\n"
)
FOR_TESTS: Final = ("expecttest", "hypothesis", "mpmath", "pytest", "pytest-xdist")
"""What the tests need of the extra ``dev``; tests of other packages are skipped without them."""
_ONNX: Final = re.compile(r"""extra == ['"]onnx['"]""")
_CROSS: Final = ("gcc-12-aarch64-linux-gnu", "libc6-dev-arm64-cross")
_PLATFORMS: Final = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_26", "manylinux_2_17")


class EmulationError(Exception):
    """Something that the emulator needs is missing."""


class _Apt:
    """Debian's packages for an architecture, in a folder of their own."""

    def __init__(self, folder: Path, architecture: str) -> None:
        for program in ("apt-get", "dpkg-deb"):
            if shutil.which(program) is None:
                raise EmulationError(f"{program} is missing: it unpacks Debian's packages")
        state = folder / "apt" / architecture
        for name in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "var/lib/dpkg"):
            (state / name).mkdir(parents=True, exist_ok=True)
        for name in ("var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
            (state / name).mkdir(parents=True, exist_ok=True)
        (state / "var/lib/dpkg/status").touch()
        (state / "etc/apt/sources.list").write_text(_SOURCES)
        self._archives = state / "var/cache/apt/archives"
        settings = {
            "Dir": state,
            "Dir::State::status": state / "var/lib/dpkg/status",
            "APT::Architecture": architecture,
            "APT::Architectures::": architecture,
            "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
            "Debug::NoLocking": "1",
        }
        self._command = ["apt-get", "-q", "-y"]
        for name, value in settings.items():
            self._command += ["-o", f"{name}={value}"]
        _call([*self._command, "update"])

    def unpack(self, to: Path, *packages: str) -> None:
        """Fetch packages and all that they depend on, and unpack them into a folder."""
        options = ["--download-only", "--no-install-recommends"]
        _call([*self._command, "install", *options, *packages])
        to.mkdir(parents=True, exist_ok=True)
        for archive in sorted(self._archives.glob("*.deb")):
            _call(["dpkg-deb", "-x", str(archive), str(to)])


def _call(command: Sequence[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        said = (result.stderr or result.stdout).strip()
        raise EmulationError(f"`{shlex.join(command)}` failed:\n{said}")


def set_up(folder: Path, architecture: str) -> None:
    """Fetch the emulator, and Python with its packages where the host's do not serve."""
    folder.mkdir(parents=True, exist_ok=True)
    _Apt(folder, "amd64").unpack(
        folder / "host", "qemu-user-static", *(_CROSS if architecture == "aarch64" else ())
    )
    if architecture == "aarch64":
        _write_compiler(folder)
        _Apt(folder, _DEBIAN[architecture]).unpack(
            folder / "root", f"python{_PYTHON}", "libstdc++6", "libgcc-s1"
        )
        _install(folder / "site", architecture)


_CC: Final = """\
#!/bin/sh
LD_LIBRARY_PATH={libraries} {prefix}gcc-12 --sysroot={host} "$@" || exit
made=a.out
while [ $# -gt 0 ]; do
  case "$1" in
    -o) made=$2; shift;;
    -c|-shared|-r|-S|-E) exit 0;;
  esac
  shift
done
mv "$made" "$made.elf"
printf '#!/bin/sh\\nexec {emulator} -L {root} "$0.elf" "$@"\\n' > "$made"
chmod +x "$made"
"""
_NM: Final = """\
#!/bin/sh
LD_LIBRARY_PATH={libraries} exec {prefix}nm "$@"
"""


def _write_compiler(folder: Path) -> None:
    """Write ``cc`` and ``nm`` for AArch64. What ``cc`` links becomes a script that emulates it."""
    host = folder / "host"
    names = {
        "host": host,
        "libraries": host / "usr" / "lib" / "x86_64-linux-gnu",
        "prefix": host / "usr" / "bin" / "aarch64-linux-gnu-",
        "emulator": host / "usr" / "bin" / "qemu-aarch64-static",
        "root": folder / "root",
    }
    quoted = {name: shlex.quote(str(path)) for name, path in names.items()}
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    for name, text in (("cc", _CC), ("nm", _NM)):
        (tools / name).write_text(text.format(**quoted))
        (tools / name).chmod(0o755)


def _install(site: Path, architecture: str) -> None:
    needed = [row.partition(";") for row in requires("loomir") or ()]
    core = [name.strip() for name, _, where in needed if not where or _ONNX.search(where)]
    platforms = [f"--platform={name}_{architecture}" for name in _PLATFORMS]
    where = [f"--target={site}", f"--python-version={_PYTHON}", "--only-binary=:all:", "--upgrade"]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--implementation=cp"]
    _call([*pip, *where, *platforms, *core, *FOR_TESTS])


_BLAS: Final[Mapping[str, tuple[str, ...]]] = {
    "aarch64": (),
    # The environment may name a newer CPU for NumPy's BLAS.
    "x86_64": ("export OPENBLAS_CORETYPE=Prescott",),
}


def write_wrapper(folder: Path, cpu: str | None) -> Path:
    """Write the program that runs Python on the emulated CPU; return its path.

    Errors: EmulationError for a folder that was not set up.
    """
    architecture = "aarch64" if (folder / "root").exists() else "x86_64"
    emulator = folder / "host" / "usr" / "bin" / f"qemu-{architecture}-static"
    if not emulator.exists():
        raise EmulationError(f"{folder} is not set up: `python -m tools.emulate set-up {folder} …`")
    wrapper = folder / f"python-{cpu or architecture}"
    if architecture == "aarch64":
        root = folder / "root"
        python, paths = root / "usr" / "bin" / f"python{_PYTHON}", [folder / "site"]
        options = ["-L", str(root)]
    else:
        # By the wrapper's name, Python does not find the environment that it belongs to.
        python, paths, options = Path(sys.executable), [Path(sysconfig.get_path("purelib"))], []
    path = os.pathsep.join(map(str, [ROOT / "src", ROOT, *paths]))
    options += ["-cpu", cpu] if cpu else []
    # `-0` makes `sys.executable` the wrapper: what Python starts is then emulated as well.
    command = [str(emulator), "-0", str(wrapper), *options, str(python)]
    cache = folder / f"cache-{cpu or architecture}"
    lines = [
        "#!/bin/sh",
        f"export PYTHONPATH={shlex.quote(path)}",
        f'export PATH={shlex.quote(str(folder / "tools"))}:"$PATH"',
        f'[ -n "${{LOOMIR_CACHE_DIR+set}}" ] || LOOMIR_CACHE_DIR={shlex.quote(str(cache))}',
        "export LOOMIR_CACHE_DIR",
        *_BLAS[architecture],
        f'exec {shlex.join(command)} "$@"',
    ]
    wrapper.write_text("\n".join(lines) + "\n")
    wrapper.chmod(0o755)
    return wrapper


def main(arguments: Sequence[str] | None = None) -> int:
    """Set up or run, from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("set-up", help="fetch the emulator and Python into a folder")
    first.add_argument("folder", type=Path)
    first.add_argument("architecture", choices=ARCHITECTURES)
    second = commands.add_parser("run", help="run Python on the emulated CPU")
    second.add_argument("folder", type=Path)
    second.add_argument("--cpu", help="QEMU's name of a CPU, such as neoverse-n1 or Haswell")
    second.epilog = "Arguments of Python come after `--`."
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if "--" in given else len(given)
    options = parser.parse_args(given[:end])
    folder = options.folder.resolve()
    try:
        if options.command == "set-up":
            set_up(folder, options.architecture)
            return 0
        wrapper = write_wrapper(folder, options.cpu)
    except EmulationError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return subprocess.run([str(wrapper), *given[end + 1 :]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
