"""``loomir.onnx.load``: import a model, lazily if the cache already has it compiled."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from loomir.frontend.onnx import registry
from loomir.ir.garbage import collect_seldom
from loomir.ir.module import IRModule, Origin
from loomir.runtime.storage.digests import (
    file_digest,
    file_state,
    key_of,
    package_stamp,
    source_stamp,
)
from loomir.runtime.storage.object_cache import ObjectCache
from loomir.support.config import SETTINGS
from loomir.support.fork_safe import import_module

__all__ = ["load"]

Model: TypeAlias = "str | os.PathLike[str] | bytes | Any"


def load(
    model: Model,
    *,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    constants: Mapping[str, Any] | None = None,
    name: str = "main",
) -> IRModule:
    """Import an ONNX model: a path, the bytes of a file, or a ``ModelProto``.

    The module has one function, whose parameters are the model's inputs in order; weights are
    constants in it. It returns the output, or a tuple of several. Named extents of the model stay
    symbolic.

    ``dims`` has numbers for such names, ``shapes`` whole shapes of inputs. ``constants`` binds
    inputs: if shapes or axes in a model depend on an input, it must be bound. An input that is a
    sequence is bound to a list, which determines the length, and the tensors that are arrays.

    Errors: ONX0001 to ONX0005 for an invalid model; ONX0010 to ONX0013 for everything that cannot
    be imported, in one error. A ``CompileWarning`` tells of outputs whose shapes differ from the
    declared ones.
    """
    given = _ModelSource(model, dims, shapes, name)
    if constants is not None or not given.is_kept():
        return _import(model, dims=dims, shapes=shapes, constants=constants, name=name)
    try:
        origin = given.find()
    except OSError:  # the importer will say why it cannot be read
        return _import(model, dims=dims, shapes=shapes, name=name)
    if origin is not None:
        return IRModule.defer(origin)
    external: Any = import_module("loomir.frontend.onnx.external_data")
    with external.note_files() as files:
        made = _import(model, dims=dims, shapes=shapes, name=name)
    origin = given.remember(files)
    return made if origin is None else made.from_origin(origin)


def _import(model: Model, **options: Any) -> IRModule:
    # Imported on demand, since it imports the operators and the package onnx.
    importer: Any = import_module("loomir.frontend.onnx.importer")
    with collect_seldom():
        return importer.load_anew(model, **options)


class _ModelSource:
    """A model file in its present state, and the arguments of the import."""

    def __init__(
        self,
        model: Model,
        dims: Mapping[str, int] | None,
        shapes: Mapping[str, Sequence[int]] | None,
        name: str,
    ) -> None:
        self.model = model
        self.options: Final = {"dims": dims, "shapes": shapes, "name": name}
        self.states: dict[str, tuple[int, ...]] = {}
        self.key = ""

    def is_kept(self) -> bool:
        """Whether the cache may be used: users' converters may change at any time."""
        is_file = isinstance(self.model, (str, os.PathLike))
        return (
            is_file
            and SETTINGS.keeps_programs
            and source_stamp() is not None
            and registry.is_as_shipped()
        )

    @property
    def path(self) -> Path:
        """The absolute path of the file."""
        return Path(cast("str", self.model)).absolute()

    def find(self) -> _ModelOrigin | None:
        """Return the origin of a model that was imported before. Errors: OSError."""
        self.states = {str(self.path): file_state(self.path)}
        dims, shapes = self.options["dims"], self.options["shapes"]
        self.key = key_of(
            "onnx",
            source_stamp() or "",
            package_stamp("onnx"),
            file_digest(self.path),
            repr(sorted(dict(cast("Any", dims) or {}).items(), key=repr)),
            repr(sorted(dict(cast("Any", shapes) or {}).items(), key=repr)),
            repr(self.options["name"]),
        )
        found = ObjectCache().get(self.key)
        if found is None:
            return None
        # The digests of other files with tensors of the model.
        digests: dict[str, str] = json.loads(found)
        folder = self.path.parent.resolve()
        for name, digest in digests.items():
            path = folder / name
            self.states[str(path)] = file_state(path)
            if file_digest(path) != digest:
                return None
        return self._origin(digests)

    def remember(self, files: Mapping[Path, tuple[int, ...]]) -> _ModelOrigin | None:
        """Record that the model was imported, with the states of other files that were read.

        Return None if files have changed meanwhile.
        """
        folder = self.path.parent.resolve()
        try:
            digests = {str(path.relative_to(folder)): file_digest(path) for path in sorted(files)}
        except (OSError, ValueError):
            return None
        self.states = {
            str(self.path): self.states[str(self.path)],
            **{str(path): state for path, state in files.items()},
        }
        origin = self._origin(digests)
        if not origin.is_current():
            return None
        ObjectCache().put(self.key, json.dumps(digests).encode())
        return origin

    def _origin(self, digests: Mapping[str, str]) -> _ModelOrigin:
        key = key_of(self.key, *[part for pair in sorted(digests.items()) for part in pair])
        return _ModelOrigin(key, self.path, self.options, self.states)


class _ModelOrigin(Origin):
    """The files of a model."""

    __slots__ = ("model", "options", "states")

    def __init__(
        self,
        key: str,
        model: Model,
        options: Mapping[str, Any],
        states: Mapping[str, tuple[int, ...]],
    ) -> None:
        super().__init__(key)
        self.model = model
        self.options = options
        self.states = states

    def make(self) -> IRModule:
        """Import the model. Errors: ONX0003 if a file has changed."""
        made = _import(self.model, **self.options)
        if not self.is_current():
            mistakes: Any = import_module("loomir.frontend.onnx.mistakes")
            raise mistakes.refuse_model(
                "ONX0003",
                f"{self.model} was changed since it was loaded",
                help="load the model again, and leave the file as it is until it is compiled",
            )
        return made

    def is_current(self) -> bool:
        """Tell whether all files are unchanged since their digests were taken."""
        try:
            return all(file_state(path) == state for path, state in self.states.items())
        except OSError:
            return False
