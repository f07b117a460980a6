"""``loomir.torch.load``: a file of ``torch.export.save`` becomes a module of Relax.

torch reads such files with pickle and evaluates text that is in them. Here its description of the
program is checked before torch sees it, weights are read as the bytes that they are, and what only
pickle could read is refused.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from loomir.frontend.torch.converters import load_converters
from loomir.frontend.torch.exported_program import from_exported
from loomir.frontend.torch.mistakes import refuse_program
from loomir.frontend.torch.package import torch_package
from loomir.frontend.torch.registry import known_operators
from loomir.frontend.torch.saved_text import UnsafeProgram, plain_program
from loomir.ir.module import IRModule
from loomir.support.diagnostics import LoomirError

__all__ = ["load", "read_program"]

_MOST_TEXT: Final = 1 << 29
"""The most bytes of a description that is read."""
_AT_ONCE: Final = 1 << 20


def load(path: str | os.PathLike[str], *, name: str = "main") -> IRModule:
    """Import a program from a file that ``torch.export.save`` wrote, like ``from_exported``.

    Nothing in the file is run: a file with pickled tensors or objects is refused.

    Errors: PTC0001; PTC0003 for a file that cannot be read; PTC0010 to PTC0013 for everything that
    cannot be imported, in one error.
    """
    return from_exported(read_program(path), name=name)


def read_program(path: str | os.PathLike[str]) -> Any:
    """Read a file into an ``ExportedProgram`` without its example inputs. Errors: PTC0003."""
    shown = Path(path)
    torch_package()
    load_converters()
    try:
        with zipfile.ZipFile(shown) as archive:
            return _Archive(archive).program()
    except UnsafeProgram as error:
        raise _refusal(shown, str(error)) from error
    except OSError as error:
        raise _refusal(shown, error.strerror or str(error)) from error
    except LoomirError:
        raise
    except Exception as error:  # zipfile and torch raise anything for a corrupt file
        said = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise _refusal(shown, f"it is damaged, or no such file: {said}") from error


def _refusal(path: Path, why: str) -> LoomirError:
    return refuse_program(
        "PTC0003",
        f"cannot read {path}: {why}",
        help="write it by torch.export.save; a file that you trust can be loaded in Python: "
        f"loomir.torch.from_exported(torch.export.load({str(path)!r}))",
    )


class _Archive:
    """An open file of ``torch.export.save``."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self._entries = {i.filename: i for i in archive.infolist()}
        size = os.fstat(cast("Any", archive.fp).fileno()).st_size
        stored = sum(i.file_size for i in archive.infolist())
        if stored > size or any(i.compress_type for i in archive.infolist()):
            raise UnsafeProgram("its parts are compressed, or lie over each other")
        models = [n for n in self._entries if n.count("/") == 2 and n.split("/")[1] == "models"]
        if len(models) != 1 or not models[0].endswith(".json"):
            raise UnsafeProgram(f"it holds {len(models)} programs, and one is read")
        self._root, _, file = models[0].split("/")
        self._name = file.removesuffix(".json")

    def program(self) -> Any:
        """Return the program."""
        serialize = torch_package("_export.serde.serialize")
        schema = torch_package("_export.serde.schema")
        own = {name.partition(".")[0] for name in known_operators()}
        text = plain_program(self._read(f"models/{self._name}.json"), own | {"aten", "prims"})
        found = serialize._dict_to_dataclass(schema.ExportedProgram, text)
        weights = self._tensors("weights", serialize)
        constants = self._tensors("constants", serialize)
        reader = serialize.ExportedProgramDeserializer()
        made = reader.deserialize(found, weights, constants, None)
        _check_operators(made.graph_module)
        return made

    def _read(self, name: str) -> bytes:
        entry = self._entries.get(f"{self._root}/{name}")
        if entry is None:
            raise UnsafeProgram(f"it has no {name}")
        if name.endswith(".json") and entry.file_size > _MOST_TEXT:
            raise UnsafeProgram(f"its {name} is very large")
        return self._archive.read(entry)

    def _tensors(self, what: str, serialize: Any) -> dict[str, Any]:
        """Read the tensors of a folder; shared bytes are read once."""
        config = json.loads(self._read(f"data/{what}/{self._name}_{what}_config.json"))
        made: dict[str, Any] = {}
        files: dict[str, Any] = {}
        for name, entry in config["config"].items():
            if entry["use_pickle"] or entry["tensor_meta"] is None:
                raise UnsafeProgram(f"{name!r} is pickled, and reading it may run code in the file")
            file = str(entry["path_name"])
            if file not in files:
                files[file] = self._bytes(f"data/{what}/{file}")
            made[name] = _tensor(name, files[file], entry["tensor_meta"], serialize)
            if entry["is_param"]:
                made[name] = torch_package().nn.Parameter(made[name], requires_grad=False)
        return made

    def _bytes(self, name: str) -> Any:
        """Read the bytes of a part directly into memory."""
        entry = self._entries.get(f"{self._root}/{name}")
        if entry is None:
            raise UnsafeProgram(f"it has no {name}")
        memory: Any = np.empty(entry.file_size, "uint8")
        with self._archive.open(entry) as part:
            view, done = memoryview(memory), 0
            while done < len(view):
                read = part.read(min(_AT_ONCE, len(view) - done))
                if not read:
                    raise UnsafeProgram(f"its {name} ends early")
                view[done : done + len(read)] = read
                done += len(read)
        return memory


def _check_operators(module: Any) -> None:
    """Check that nodes call operators: attributes of operators have names like overloads too."""
    ops = torch_package("_ops")
    for part in module.modules():
        for node in getattr(part, "graph", module.graph).nodes:
            known = isinstance(node.target, (ops.OpOverload, ops.HigherOrderOperator))
            of_numbers = getattr(node.target, "__module__", "") in ("_operator", "math", "torch")
            if node.op == "call_function" and not known and not of_numbers:
                raise UnsafeProgram(f"it calls {str(node.target)[:80]!r}, which is no operator")


def _tensor(name: str, data: Any, meta: Mapping[str, Any], serialize: Any) -> Any:
    """Make a tensor of bytes without a copy."""
    torch = torch_package()
    dtype = serialize._SERIALIZE_TO_TORCH_DTYPE[meta["dtype"]]
    sizes = [_number(s) for s in meta["sizes"]]
    strides = [_number(s) for s in meta["strides"]]
    offset = _number(meta["storage_offset"])
    if len(sizes) != len(strides):
        raise UnsafeProgram(f"{name!r} has {len(sizes)} extents and {len(strides)} strides")
    last = offset + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    if not prod(sizes):
        return torch.empty(sizes, dtype=dtype)
    if (last + 1) * dtype.itemsize > len(data) or len(data) % dtype.itemsize:
        raise UnsafeProgram(f"{name!r} is larger than its part of the file")
    return torch.from_numpy(data).view(dtype).as_strided(sizes, strides, offset)


def _number(size: Mapping[str, Any]) -> int:
    number = size.get("as_int")
    if type(number) is not int or number < 0 or number >= 2**48:
        raise UnsafeProgram("a weight has an extent that is no number")
    return number
