"""Modules: functions of any IR by their global names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from loomir.ir.node import Node, attr, child, meta, node, replace_lists, reset
from loomir.support.argument_errors import explain_arguments
from loomir.support.diagnostics import CompileError, Diagnostic, nearest
from loomir.support.displaying import HtmlDisplay
from loomir.support.highlight import show_text
from loomir.support.printing import to_text
from loomir.support.span import Span
from loomir.support.uncompiled_call import UncompiledProgram

__all__ = ["BaseFunc", "GlobalVar", "IRModule", "Origin", "VDevice"]


@node
class GlobalVar(Node):
    """The name of a function in a module; equal names denote the same function."""

    name_hint: str = attr()
    span: Span | None = meta(default=None, kw_only=True)


@node
class VDevice(Node):
    """A device that tensors can be on: its target, its number there, and a kind of memory.

    ``target`` is empty, a tag such as ``"llvm"``, or a table of options.
    """

    target: str | Mapping[str, Any] = attr(default="")
    dev_id: int = attr(default=0)
    mem_scope: str = attr(default="global")


class BaseFunc(UncompiledProgram, HtmlDisplay, Node):
    """The base class of functions of all IRs."""

    __slots__ = ()

    attrs: Mapping[str, Any]
    params: Any

    def script(self) -> str:
        """Write the function as TVMScript, which parses back to an equal function."""
        return to_text(self)

    def called_as(self) -> tuple[str, str]:
        """Return its name, and an empty text: the executable of a function calls that function."""
        return str(self.attrs.get("global_symbol", "main")), ""

    def show(self, style: str | None = None) -> None:
        """Display the function as TVMScript, in colour on a terminal and in a notebook.

        ``style`` is ``"light"``, ``"dark"``, ``"ansi"`` or the name of a Pygments style.

        Errors: SCR0005 for a style that is none.
        """
        show_text(to_text(self, constants="stored"), style)


class Origin(ABC):
    """The origin of a module, by which cached results for it are found.

    ``key`` identifies everything that the module depends on.
    """

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        self.key = key

    @abstractmethod
    def make(self) -> IRModule:
        """Make the module."""

    @abstractmethod
    def is_current(self) -> bool:
        """Tell whether ``make`` would still make the same module."""


class _DeferredNode(Node):
    """A node whose fields are created on first access."""

    __slots__ = ("_origin",)

    _origin: Origin

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            try:
                origin = object.__getattribute__(self, "_origin")
            except AttributeError:
                origin = None
            fields = [field.name for field in self.node_fields]
            if origin is None or name not in fields:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            made = origin.make()
            for field in fields:
                reset(self, field, getattr(made, field))
            return getattr(made, name)


@node
class IRModule(UncompiledProgram, HtmlDisplay, _DeferredNode):
    """A collection of functions; a program.

    ``mod["name"]`` returns a function; ``mod.functions`` maps each ``GlobalVar`` to its function,
    in order. ``global_info`` has data that all functions share: virtual devices, as in
    ``{"vdevice": (VDevice("llvm"),)}``.
    """

    functions: Mapping[GlobalVar, BaseFunc] = child()
    attrs: Mapping[str, Any] = attr(default_factory=dict)
    global_info: Mapping[str, tuple[VDevice, ...]] = attr(default_factory=dict)
    span: Span | None = meta(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.attrs:
            replace_lists(self, "attrs")
        if self.global_info:
            given: Mapping[str, Any] = self.global_info
            made = {k: (v,) if isinstance(v, VDevice) else tuple(v) for k, v in given.items()}
            reset(self, "global_info", made)

    @staticmethod
    def defer(origin: Origin) -> IRModule:
        """Return the module of an origin, which is created on first use."""
        made = IRModule.__new__(IRModule)
        reset(made, "_origin", origin)
        return made

    def from_origin(self, origin: Origin) -> IRModule:
        """Return the module, which an origin created, with that origin."""
        made = self.with_functions(self.functions)
        reset(made, "_origin", origin)
        return made

    @property
    def origin(self) -> Origin | None:
        """The origin of the module, if it is unchanged; None if it is unknown."""
        try:
            return self._origin
        except AttributeError:
            return None

    def called_as(self) -> tuple[str, str]:
        """Return its name in messages, and the item to call if none is ``main``."""
        public = [v.name_hint for v, f in self.functions.items() if "global_symbol" in f.attrs]
        is_clear = len(public) < 2 or "main" in public
        return "module", "" if is_clear else f"[{public[0]!r}]"

    @explain_arguments
    def __getitem__(self, name: str | GlobalVar) -> BaseFunc:
        wanted = name if isinstance(name, str) else name.name_hint
        for var, func in self.functions.items():
            if var.name_hint == wanted:
                return func
        names = [var.name_hint for var in self.functions]
        guess = nearest(wanted, names)
        raise CompileError(
            Diagnostic(
                "TIR0004",
                f"the module has no function named {wanted!r}",
                notes=(f"it has {', '.join(names) or 'none'}",),
                help=f"did you mean {guess!r}?" if guess else "use one of its names",
            )
        )

    def __contains__(self, name: str) -> bool:
        return any(var.name_hint == name for var in self.functions)

    def __iter__(self) -> Iterator[str]:
        return (var.name_hint for var in self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    @explain_arguments
    def get_global_var(self, name: str) -> GlobalVar:
        """Find the ``GlobalVar`` of a function by its name."""
        self[name]
        return next(var for var in self.functions if var.name_hint == name)

    @explain_arguments
    def with_function(self, name: str, func: BaseFunc) -> IRModule:
        """Return a module in which ``name`` is ``func``, replaced or added at the end."""
        functions = dict(self.functions)
        var = next((v for v in functions if v.name_hint == name), None) or GlobalVar(name)
        functions[var] = func
        return self.with_functions(functions)

    def with_functions(self, functions: Mapping[GlobalVar, BaseFunc]) -> IRModule:
        """Return a module with these functions, and otherwise unchanged."""
        return IRModule(functions, self.attrs, self.global_info, span=self.span)

    def script(self, *, constants: str = "stored") -> str:
        """Write the module as TVMScript, which parses back to an equal module.

        Large constants are ``"stored"`` in files of the cache that the text names by their digest,
        or written out ``"inline"``, for text that goes to another machine.

        Errors: SCR0005 for another choice.
        """
        return to_text(self, constants=constants)

    def show(self, style: str | None = None) -> None:
        """Display the module as TVMScript, in colour on a terminal and in a notebook.

        ``style`` is ``"light"``, ``"dark"``, ``"ansi"`` or the name of a Pygments style.

        Errors: SCR0005 for a style that is none.
        """
        show_text(to_text(self, constants="stored"), style)
