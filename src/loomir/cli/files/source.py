"""Load a Python file of programs, with some of its constants replaced."""

from __future__ import annotations

import ast
import errno
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final, TypeAlias, TypeVar, cast

from loomir.cli.files.user_traceback import explain_failures
from loomir.frontend import onnx, torch
from loomir.ir.module import IRModule
from loomir.relax.expr import Function
from loomir.runtime.storage.container import MAGIC
from loomir.support.diagnostics import CompileError, Diagnostic, nearest
from loomir.tc.lower import LoweredText, lower
from loomir.tc.parse import parse
from loomir.tir.function import PrimFunc

__all__ = [
    "Program",
    "is_model",
    "is_onnx",
    "is_tc",
    "load_file",
    "load_model",
    "pick",
    "programs_of",
    "read_tc",
    "read_text",
    "split_target",
    "warnings_of",
]

Program: TypeAlias = PrimFunc | Function | IRModule
P = TypeVar("P")


def split_target(target: str) -> tuple[Path, str | None]:
    """Split ``FILE.py:NAME``; the name may be left out."""
    path, colon, name = target.rpartition(":")
    if colon and name.isidentifier() and path:
        return Path(path), name
    return Path(target), None


_OF_TORCH: Final = (".pt", ".pth")
"""Suffixes of pickled PyTorch files."""


def read_text(path: Path) -> str:
    """Read a source file. Errors: CLI0001 if it cannot be read as UTF-8 text."""
    if path.suffix in _OF_TORCH:
        raise CompileError(
            Diagnostic(
                "CLI0001",
                f"cannot read {path}: loading what PyTorch saved may run code that is in the file",
                help="export the model: torch.export.export and torch.export.save, to a file "
                "that ends in .pt2, or torch.onnx.export",
            )
        )
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise OSError(errno.EINVAL, "it is a pipe or a device, and no file")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        remedy = _remedy_for(error, path)
        if isinstance(error, UnicodeDecodeError) and path.read_bytes().startswith(MAGIC):
            reason = "it is a saved executable, and no source file"
            remedy = (
                f"give the file that it was built from, or in Python loomir.load({str(path)!r})"
            )
        raise CompileError(
            Diagnostic("CLI0001", f"cannot read {path}: {reason}", help=remedy)
        ) from error


def _remedy_for(error: OSError | UnicodeDecodeError, path: Path) -> str:
    """Say what to give in place of a file that cannot be read."""
    if isinstance(error, UnicodeDecodeError):
        is_text = b"\0" not in path.read_bytes()
        if path.suffix == ".py" and is_text:
            return "save the file as UTF-8: Loomir reads no other encoding, declared or not"
    elif error.errno == errno.ELOOP:
        return "its links lead to each other: give the path of the file itself"
    elif error.errno == errno.EISDIR:
        files = sorted(path.glob("*.py"))
        if files:
            return f"give a file in it, as in {files[0]}"
    elif error.errno == errno.EACCES:
        return f"allow yourself to read it: chmod u+r {path}"
    elif error.errno == errno.ENOENT and path.is_symlink():
        return f"it is a link to {path.readlink()}, which does not exist: mend the link"
    elif error.errno == errno.ENOENT and path.parent.is_dir():
        near = nearest(path.name, [other.name for other in path.parent.glob("*.py")])
        if near:
            return f"did you mean {path.with_name(near)}?"
    return "give the path of a Python file, as in examples/matmul.py"


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a file like Python, with top-level constants replaced, without bytecode cache."""

    def __init__(self, name: str, path: str, overrides: Mapping[str, int | float]) -> None:
        super().__init__(name, path)
        self.overrides = overrides

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:
        tree = ast.parse(data, filename=str(path))
        replaced = _Constants(self.overrides).visit(tree)
        return compile(ast.fix_missing_locations(replaced), str(path), "exec", dont_inherit=True)


class _Constants(ast.NodeTransformer):
    """Replaces ``NAME = …`` at top level by the value given for the name."""

    def __init__(self, values: Mapping[str, int | float]) -> None:
        self.values = values

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:  # names of ast's classes
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:  # names of ast's classes
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:  # names of ast's classes
        for target in node.targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            for index, name in enumerate(names):
                if isinstance(name, ast.Name) and name.id in self.values and index < len(values):
                    values[index] = ast.Constant(self.values[name.id])
            if isinstance(node.value, ast.Tuple):
                node.value.elts = values
            else:
                node.value = values[0]
        return node


def load_file(path: Path, overrides: Mapping[str, int | float] | None = None) -> ModuleType:
    """Run a Python file and return its module; ``overrides`` replace top-level constants.

    A model is imported as ``model`` of the returned module. A file in Tensor Comprehensions is
    parsed, and returned as a module of its functions, and of the definitions in the Python file
    of the same name, if there is one.

    Errors: CLI0001, CLI0011, SCR0001, and the mistakes of its programs.
    """
    if is_tc(path):
        return _load_tc(path, overrides or {})
    if is_model(path):
        module = ModuleType(f"_loomir_{path.stem}")
        vars(module)["model"] = load_model(path)
        return module
    read_text(path)
    name = f"_loomir_{path.stem}"
    loader = _Loader(name, str(path.absolute()), overrides or {})
    spec = importlib.util.spec_from_file_location(name, str(path.absolute()), loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        with explain_failures(path.absolute()):
            loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def is_model(path: Path) -> bool:
    """Tell whether a file is a model: an ONNX model, or a program that torch.export saved."""
    return path.suffix in (".onnx", ".pt2")


def is_onnx(path: Path) -> bool:
    """Tell whether a file is an ONNX model."""
    return path.suffix == ".onnx"


def load_model(path: Path, dims: Mapping[str, int] | None = None) -> IRModule:
    """Import a model; for ONNX, ``dims`` sets extents that the model leaves open.

    Errors: ONX0001 to ONX0013, PTC0001 to PTC0013.
    """
    return onnx.load(path, dims=dims) if is_onnx(path) else torch.load(path)


def is_tc(path: Path) -> bool:
    """Tell whether a file is in Tensor Comprehensions."""
    return path.suffix == ".tc"


def read_tc(path: Path) -> LoweredText:
    """Parse a file in Tensor Comprehensions. Errors: CLI0001, and every mistake in the text."""
    return lower(parse(read_text(path), str(path)))


def _load_tc(path: Path, overrides: Mapping[str, int | float]) -> ModuleType:
    lowered = read_tc(path)
    module = ModuleType(f"_loomir_{path.stem}")
    beside = path.with_suffix(".py")
    if beside.exists():
        vars(module).update(vars(load_file(beside, overrides)))
    vars(module).update({unit.name: unit.func for unit in lowered.units})
    vars(module)[_WARNINGS] = lowered.warnings
    return module


_WARNINGS: Final = "__loomir_warnings__"


def warnings_of(module: ModuleType) -> tuple[Diagnostic, ...]:
    """List the warnings about the programs of a file."""
    found: object = vars(module).get(_WARNINGS, ())
    given = cast("tuple[object, ...]", found) if isinstance(found, tuple) else ()
    return tuple(each for each in given if isinstance(each, Diagnostic))


def programs_of(module: ModuleType) -> dict[str, Program]:
    """List the programs that a file defines, in order."""
    # By type, since `__class__` of a user's object may return anything.
    kinds = (PrimFunc, Function, IRModule)
    return {k: v for k, v in vars(module).items() if issubclass(type(v), kinds)}


def pick_one(programs: Mapping[str, P], name: str | None, path: Path) -> P:
    """Return the named program, or the only one. Errors: CLI0002, CLI0010."""
    found = pick(programs, name, path)
    if len(found) > 1:
        raise CompileError(
            Diagnostic(
                "CLI0010",
                f"{path} defines {len(found)} programs",
                notes=(f"its programs: {', '.join(found)}",),
                help=f"name one: {path}:{next(iter(found))}",
            )
        )
    (program,) = found.values()
    return program


def pick(programs: Mapping[str, P], name: str | None, path: Path) -> dict[str, P]:
    """Return the named program, or all. Errors: CLI0002."""
    if name is None and programs:
        return dict(programs)
    if name is not None and name in programs:
        return {name: programs[name]}
    listing = ", ".join(programs) or "none"
    guess = nearest(name or "", programs)
    raise CompileError(
        Diagnostic(
            "CLI0002",
            f"{path} defines no program" + (f" named {name!r}" if name else ""),
            notes=(f"its programs: {listing}",),
            help=f"did you mean {guess!r}?" if guess else "decorate a function with @T.prim_func",
        )
    )
