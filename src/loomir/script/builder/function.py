"""Frames of functions and modules."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from loomir.ir.module import BaseFunc, GlobalVar, IRModule, VDevice
from loomir.script.builder.arguments import as_annotations, as_int, as_items, as_text, describe
from loomir.script.builder.buffer_spec import BufferSpec
from loomir.script.builder.dtypes import DTypeFunction
from loomir.script.builder.frame import Frame, IRBuilder, StmtFrame
from loomir.script.builder.mistakes import mistake, wrong_argument
from loomir.support.dtype import HANDLE
from loomir.support.span import Span
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import TRUE, Block, BlockRealize, Stmt
from loomir.tir.types import VOID_TYPE, PrimType, Type

__all__ = [
    "IRModuleFrame",
    "ParameterLike",
    "PrimFuncFrame",
    "arg",
    "func_attr",
    "func_name",
    "func_ret",
    "module_attrs",
    "module_global_infos",
    "vdevice",
]

ParameterLike: TypeAlias = DTypeFunction | BufferSpec | Var | Buffer


class IRModuleFrame(Frame[None]):
    """A module: the functions made in it, by name, in order."""

    what = "`with I.ir_module():`"

    def __init__(self) -> None:
        self.functions: dict[GlobalVar, BaseFunc] = {}
        self.attrs: dict[str, Any] = {}
        self.names: dict[str, GlobalVar] = {}
        self.global_info: dict[str, tuple[VDevice, ...]] = {}
        self.signatures: object = None
        """What functions of Relax know of the functions of the module."""

    def enter(self) -> None:
        """Bind nothing."""

    def declare(self, name: str) -> GlobalVar:
        """Return the variable of a function's name."""
        return self.names.setdefault(name, GlobalVar(name))

    def finish(self, builder: IRBuilder) -> None:
        """Make the ``IRModule``; functions stand in the order of their declaration."""
        made = {var: self.functions[var] for var in self.names.values() if var in self.functions}
        builder.result = IRModule(made, self.attrs, self.global_info, span=self.span)

    def add(self, name: str, func: BaseFunc, span: Span | None) -> None:
        """Take a finished function.

        Errors: SCR0026 for a name that another function has.
        """
        var = self.declare(name)
        if var in self.functions:
            raise mistake(
                "SCR0026",
                f"the module has two functions named {name!r}",
                help="give each function a name of its own",
                span=span,
            )
        self.functions[var] = func


class PrimFuncFrame(StmtFrame[None]):
    """A function: parameters, buffers, attributes, and its body."""

    what = "a function"

    def __init__(
        self, private: bool = False, name: str | None = None, root_block: bool = True
    ) -> None:
        super().__init__()
        self.name = "" if name is None else name
        self.private, self.root_block = private, root_block
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.attrs: dict[str, Any] = {}
        self.ret_type: Type | None = None
        self.alloc_buffers: list[Buffer] = []
        self.has_blocks = False
        self.shape_names: dict[str, Var] = {}
        self.pointers: dict[int, Buffer] = {}
        self.may_return = False
        self.threads: dict[int, Any] = {}
        """The threads that ``T.env_thread`` names, by the ``id`` of the variable of a launch."""

    def enter(self) -> None:
        """Bind nothing."""

    def finish(self, builder: IRBuilder) -> None:
        """Make the ``PrimFunc``, with a root block where it has blocks or allocates."""
        attrs: dict[str, Any] = {}
        if not self.private and self.name:
            attrs["global_symbol"] = self.name
        attrs.update(self.attrs)
        if self.ret_type is None and not self.may_return:
            self.ret_type = VOID_TYPE
        func = PrimFunc(
            tuple(self.params),
            self._add_root(self.body()),
            self.ret_type,  # type: ignore[arg-type]  # None is inferred
            self.buffer_map,
            attrs,
            span=self.span,
        )
        module = builder.find(IRModuleFrame)
        if module is None:
            builder.result = func
            return
        module.add(self.name or func.name, func, self.span)

    def _add_root(self, body: Stmt) -> Stmt:
        wanted = self.has_blocks and self.root_block and not is_root(body)
        if not (wanted or self.alloc_buffers):
            return body
        root = Block((), (), (), "root", body, alloc_buffers=tuple(self.alloc_buffers))
        return BlockRealize((), TRUE, root)

    def know(self, buffer: Buffer) -> Buffer:
        """Remember whose memory a pointer is, for calls that are given the pointer."""
        self.pointers.setdefault(id(buffer.data), buffer)
        return buffer


def is_root(body: Stmt) -> bool:
    """Whether a function's body is a root block already."""
    return (
        isinstance(body, BlockRealize)
        and not body.values
        and body.block.name_hint == "root"
        and body.predicate is TRUE
    )


def _function(what: str) -> PrimFuncFrame:
    return IRBuilder.current().need(PrimFuncFrame, what, "write it in `with T.prim_func():`")


def func_name(name: str) -> None:
    """Name the function."""
    _function("T.func_name").name = as_text(name, "the name of the function")


def _type_of_python(annotation: object) -> str:
    """Name an annotation; a type of Python's, or another library's, by its name."""
    cls = getattr(annotation, "value", annotation)  # what the parser holds of Python's
    if isinstance(cls, type):
        home = "" if cls.__module__ == "builtins" else f"{cls.__module__}."
        return f"{home}{cls.__qualname__}, a type of Python's"
    name = getattr(annotation, "name", None)
    if name in _OF_PYTHON:
        return f"{name}, a type of Python's"
    return describe(annotation)


def _annotation_for(name: str, annotation: object) -> str:
    """Say how to annotate a parameter."""
    wanted = _OF_PYTHON.get(getattr(annotation, "name", ""))
    if wanted is not None:
        return f"write {name}: {wanted}"
    if isinstance(getattr(annotation, "value", None), type):
        return f'write {name}: T.Buffer((8,), "float32"), with the shape and dtype of the array'
    return 'annotate with T.Buffer((8,), "float32"), T.handle, or a dtype such as T.int32'


_OF_PYTHON: Final = {
    "float": "T.float32",
    "int": "T.int32",
    "bool": "T.bool",
    "list": 'T.Buffer((8,), "float32")',
}


def arg(name: str, annotation: ParameterLike, span: Span | None = None) -> Any:
    """Add a parameter; gives its buffer, or its variable where it has none."""
    func = _function("T.arg")
    if isinstance(annotation, (BufferSpec, Buffer)):
        is_spec = isinstance(annotation, BufferSpec)
        buffer = annotation.make(name, func.shape_names, span) if is_spec else annotation
        handle = Var(f"{name}_handle", HANDLE, span=span)
        func.params.append(handle)
        func.buffer_map[handle] = func.know(buffer)
        return buffer
    if isinstance(annotation, DTypeFunction):
        var = Var(name, annotation.dtype, span=span)
    elif isinstance(annotation, Var):  # pyright: ignore[reportUnnecessaryIsInstance]
        var = Var(name, type_annotation=annotation.type_annotation, span=span)
    else:
        raise wrong_argument(
            annotation,
            f"parameter {name!r} is annotated with {_type_of_python(annotation)}",
            code="SCR0015",
            help=_annotation_for(name, annotation),
        )
    if var.dtype.is_void:
        raise mistake(
            "SCR0015",
            f"parameter {name!r} has no value",
            help="annotate it with a dtype such as T.int32",
            span=span,
        )
    func.params.append(var)
    return var


def func_ret(annotation: ParameterLike | None) -> None:
    """Declare what the function returns."""
    func = _function("T.func_ret")
    if annotation is None:
        func.ret_type = VOID_TYPE
    elif isinstance(annotation, DTypeFunction):
        func.ret_type = VOID_TYPE if annotation.dtype.is_void else PrimType(annotation.dtype)
    elif isinstance(annotation, Var):
        func.ret_type = annotation.type_annotation
    else:
        raise wrong_argument(
            annotation,
            f"a function cannot return {describe(annotation)}",
            code="SCR0015",
            help="return a scalar, as in `-> T.int32`; write arrays in place",
        )


def func_attr(attrs: Mapping[str, Any]) -> None:
    """Attach attributes to the function."""
    func = _function("T.func_attr")
    func.attrs.update(as_annotations(attrs, "T.func_attr"))


def _runs_in_class() -> bool:
    """Whether Python runs the body of a class, whose text is read when the class is decorated."""
    names = sys._getframe(2).f_locals  # pyright: ignore[reportPrivateUsage]
    return "__module__" in names and "__qualname__" in names and IRBuilder.active() is None


def module_attrs(attrs: Mapping[str, Any]) -> None:
    """Attach attributes to the module."""
    if _runs_in_class():
        return
    module = IRBuilder.current().need(
        IRModuleFrame, "I.module_attrs", "write it in the body of a class under @I.ir_module"
    )
    module.attrs.update(as_annotations(attrs, "I.module_attrs"))


def module_global_infos(infos: Mapping[str, Sequence[VDevice]]) -> None:
    """List what all functions of the module share: ``{"vdevice": [I.vdevice("llvm")]}``."""
    if _runs_in_class():
        return
    module = IRBuilder.current().need(
        IRModuleFrame, "I.module_global_infos", "write it in a class under @I.ir_module"
    )
    given = cast("object", infos)
    if not isinstance(given, dict):
        raise wrong_argument(
            infos, f"a dict is wanted, not {describe(infos)}", help='write {"vdevice": […]}'
        )
    for name, items in cast("dict[object, object]", given).items():
        found = as_items(items, "the list")
        if name != "vdevice" or not all(isinstance(item, VDevice) for item in found):
            raise wrong_argument(
                items,
                "a module lists devices, under the name 'vdevice'",
                help='write {"vdevice": [I.vdevice("llvm", 0, "global")]}',
            )
        module.global_info["vdevice"] = tuple(cast("Sequence[VDevice]", found))


def vdevice(
    target: str | Mapping[str, Any] = "", dev_id: int = 0, mem_scope: str = "global"
) -> VDevice:
    """Name a device that tensors can be on: target, number, kind of memory."""
    made = target if isinstance(target, Mapping) else as_text(target, "the target")
    return VDevice(made, as_int(dev_id, "dev_id"), as_text(mem_scope, "mem_scope"))
