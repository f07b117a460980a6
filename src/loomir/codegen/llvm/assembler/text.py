"""Modules, functions and blocks of LLVM IR, written as text.

A ``Module`` collects globals, declarations, struct types and metadata. ``Module.define`` opens a
``Function``, ``Function.block`` a ``Block``, and a ``builder.Builder`` fills blocks with
instructions; ``Module.render`` writes everything. Symbols keep their exact names, quoted; names of
locals are hints.

    module = Module("m")
    f = module.define("twice", I32, [("x", I32)])
    b = Builder(f)
    b.ret(b.add(f.params[0], f.params[0]))
    module.render()
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import Final, NamedTuple

from loomir.codegen.llvm.assembler.names import escape, global_name, local_hint
from loomir.codegen.llvm.assembler.types import I8, PTR, Type, array, function, name_struct
from loomir.codegen.llvm.assembler.values import Value, bytes_of
from loomir.support.diagnostics import InternalError

__all__ = ["Block", "Callee", "Function", "Metadata", "Module", "Param", "Phi", "Variable"]

_LINKAGES: Final = frozenset(
    ["external", "internal", "private", "linkonce_odr", "weak_odr", "available_externally"]
)


_DEEPEST: Final = 32
"""How many enclosing blocks are searched for a value that is computed already."""

Param = tuple[str, Type] | tuple[str, Type, str]


class Metadata:
    """A metadata node, as an instruction refers to it: ``!7``."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


class Callee(Value):
    """A symbol that can be called; as a value it is its address."""

    __slots__ = ("name", "signature")

    def __init__(self, name: str, signature: Type) -> None:
        super().__init__(PTR, global_name(name))
        self.name = name
        self.signature = signature


class AvailableValues:
    """Instructions that dominate the current block, and their results, so that none is repeated.

    A block sees the instructions of up to ``_DEEPEST`` blocks around it: in a deep nest, searching
    further would cost more than it saves.
    """

    __slots__ = ("around", "depth", "here")

    def __init__(self, around: AvailableValues | None = None) -> None:
        self.here: dict[str, Value] = {}
        self.depth = 0 if around is None or around.depth == _DEEPEST else around.depth + 1
        self.around = around if self.depth else None

    def find(self, text: str) -> Value | None:
        """Return the result of an instruction, if it was computed already."""
        at: AvailableValues | None = self
        while at is not None:
            found = at.here.get(text)
            if found is not None:
                return found
            at = at.around
        return None


class Block:
    """A basic block. Branches name it by ``label``; only the builder writes its lines."""

    __slots__ = ("allocas", "function", "known", "label", "lines", "phis", "terminated")

    def __init__(self, function: Function, label: str) -> None:
        self.function = function
        self.label = label
        self.allocas: list[str] = []
        self.phis: list[Phi] = []
        self.lines: list[str] = []
        self.known = AvailableValues()
        self.terminated = False

    def continues(self, before: Block) -> None:
        """Note that control enters only from ``before``, and that no other block continues it."""
        self.known = before.known

    def inside(self, around: Block) -> None:
        """Note that control enters only from ``around``, from which it enters other blocks, too."""
        self.known = AvailableValues(around.known)

    def render(self, out: list[str]) -> None:
        """Append the lines of this block.

        Errors: InternalError if the block has no terminator.
        """
        if not self.terminated:
            raise InternalError(f"block %{self.label} of {self.function.text} does not end")
        out.append(f"{self.label}:")
        out.extend(phi.render() for phi in self.phis)
        out.extend(self.allocas)
        out.extend(self.lines)


class Phi(Value):
    """A value that depends on the predecessor from which its block is entered."""

    __slots__ = ("_edges",)

    def __init__(self, type: Type, text: str) -> None:
        super().__init__(type, text)
        self._edges: list[str] = []

    def add(self, value: Value, block: Block) -> None:
        """Set the value for the predecessor ``block``."""
        if value.type is not self.type:
            raise InternalError(f"phi {self.typed} does not take {value.typed}")
        self._edges.append(f"[ {value.text}, %{block.label} ]")

    def render(self) -> str:
        """Write the instruction.

        Errors: InternalError if no edge was added.
        """
        if not self._edges:
            raise InternalError(f"phi {self.text} has no incoming value")
        return f"  {self.text} = phi {self.type.text} {', '.join(self._edges)}"


class Function(Callee):
    """A function with a body; ``Module.define`` makes it.

    ``params`` are its parameters as values, ``entry`` its first block, ``serial`` numbers locals.
    ``reserved`` are the bytes that it allocates on the stack, ``refers`` the functions that it
    calls or passes on.
    """

    __slots__ = (
        "_attributes",
        "_head",
        "_tail",
        "blocks",
        "entry",
        "module",
        "params",
        "refers",
        "reserved",
        "serial",
    )

    params: tuple[Value, ...]
    serial: Callable[[], int]

    def __init__(
        self,
        module: Module,
        name: str,
        signature: Type,
        params: Sequence[Param],
        head: str,
        tail: str,
    ) -> None:
        super().__init__(name, signature)
        self.module = module
        self.serial = itertools.count().__next__
        self.params = tuple([Value(p[1], self.name_local(p[0])) for p in params])
        self.reserved = 0
        self.refers: dict[Function, None] = {}
        self.blocks: list[Block] = []
        self.entry = self.block("entry")
        self._attributes = [f" {p[2]}" if len(p) > 2 and p[2] else "" for p in params]
        self._head, self._tail = head, tail

    @property
    def is_internal(self) -> bool:
        """Whether other modules cannot see it."""
        return self._head.startswith("define internal ")

    @property
    def declaration(self) -> str:
        """The line that names it in another module."""
        listed = [f"{p.type.text}{a}" for p, a in zip(self.params, self._attributes, strict=True)]
        result = self.signature.result.text
        return f"declare {result} {self.text}({', '.join(listed)}) nounwind"

    def render_exported(self, body: str) -> str:
        """Return its rendered text with a linkage that other modules can see."""
        return body.replace("define internal ", "define ", 1) if self.is_internal else body

    def block(self, hint: str = "b") -> Block:
        """Append a block; the order of blocks is the order of these calls."""
        block = Block(self, f"{local_hint(hint)}.{self.serial()}")
        self.blocks.append(block)
        return block

    def name_local(self, hint: str) -> str:
        """Return a name that no other local of this function has."""
        return f"%{local_hint(hint)}.{self.serial()}"

    @property
    def lines(self) -> int:
        """The approximate number of its lines."""
        return sum(len(block.lines) for block in self.blocks)

    def render(self, out: list[str]) -> None:
        """Append the definition."""
        listed = [
            f"{p.type.text}{a} {p.text}" for p, a in zip(self.params, self._attributes, strict=True)
        ]
        out.append(f"{self._head} {self.text}({', '.join(listed)}){self._tail} {{")
        for block in self.blocks:
            block.render(out)
        out.append("}")


class Variable(NamedTuple):
    """A variable of a module, ``@name``: its type, what follows the linkage, and the linkage."""

    name: str
    type: Type
    kind: str
    tail: str
    linkage: str
    """The linkage as IR writes it; ``external`` for a variable of another module."""

    @property
    def is_defined(self) -> bool:
        """Whether the module defines it."""
        return not self.linkage.startswith("external")

    @property
    def is_constant(self) -> bool:
        """Whether it is constant data whose address is insignificant."""
        return self.linkage == "private unnamed_addr" and self.kind == "constant"

    @property
    def text(self) -> str:
        """The line that defines or declares it."""
        return self._line(self.linkage, self.tail)

    @property
    def exported(self) -> str:
        """The line that defines it with a linkage that other modules can see."""
        return self._line("", self.tail)

    @property
    def declaration(self) -> str:
        """The line that names it in another module."""
        return self._line("external", self.type.text)

    def _line(self, linkage: str, tail: str) -> str:
        return f"{self.name} = {linkage and linkage + ' '}{self.kind} {tail}"


class Module:
    """A module that is being built.

    Every function defined in it has the ``attributes`` (``target-cpu`` and the like); a key without
    a value is a keyword (``nounwind``). ``features`` are the CPU features that the code may use
    (``engine.TargetMachine.abilities``); with none, it runs on any CPU.
    """

    def __init__(
        self,
        name: str = "loomir",
        *,
        triple: str = "",
        data_layout: str = "",
        attributes: Mapping[str, str | None] | None = None,
        features: Collection[str] = (),
    ) -> None:
        self.name = name
        self.triple = triple
        self.data_layout = data_layout
        self.features = frozenset(features)
        self.attributes: dict[str, str | None] = dict(attributes or {})
        self._structs: dict[str, Type] = {}
        self._globals: dict[str, Variable] = {}
        self._strings: dict[bytes, Value] = {}
        self._declared: dict[str, tuple[Callee, str]] = {}
        self._defined: dict[str, Function] = {}
        self._metadata: list[str] = []
        self._metadata_ids: dict[str, Metadata] = {}
        self._named_metadata: dict[str, list[str]] = {}
        self._kept: list[str] = []
        self._promised: set[str] = set()

    # -- functions -----------------------------------------------------------------------------
    def define(
        self,
        name: str,
        result: Type,
        params: Sequence[Param],
        *,
        linkage: str = "external",
        attributes: Mapping[str, str | None] | None = None,
        metadata: Mapping[str, Metadata] | None = None,
        section: str = "",
        align: int = 0,
    ) -> Function:
        """Begin a function; each parameter is (hint, type) or (hint, type, attributes).

        ``attributes`` are added to the module's. Errors: InternalError if the name is taken, or
        declared with another type.
        """
        if linkage not in _LINKAGES:
            raise InternalError(f"unknown linkage {linkage!r}")
        signature = function(result, [p[1] for p in params])
        if name in self._defined or name in self._globals or name.startswith("llvm."):
            raise InternalError(f"the name {name!r} is taken")
        declared = self._declared.pop(name, None)
        if declared is not None and declared[0].signature is not signature:
            raise InternalError(f"{name!r} was declared as {declared[0].signature.text}")
        tail = _attributes({**self.attributes, **(attributes or {})})
        if section:
            tail += f' section "{escape(section.encode())}"'
        if align:
            tail += f" align {align}"
        for kind, node in (metadata or {}).items():
            tail += f" !{kind} {node.text}"
        word = "" if linkage == "external" else f"{linkage} "
        made = Function(self, name, signature, params, f"define {word}{result.text}", tail)
        self._defined[name] = made
        return made

    def declare(
        self,
        name: str,
        result: Type,
        params: Sequence[Type],
        *,
        varargs: bool = False,
        attributes: Mapping[str, str | None] | None = None,
        fresh: bool = False,
    ) -> Callee:
        """Return the function of that name: the one defined in this module, else a declaration.

        ``fresh``: it returns memory that nothing else points to (``noalias``).
        Errors: InternalError if it has another type.
        """
        signature = function(result, params, varargs=varargs)
        known = self._defined.get(name)
        if known is None and name in self._declared:
            known = self._declared[name][0]
        if known is not None:
            if known.signature is not signature:
                raise InternalError(f"{name!r} is {known.signature.text}, not {signature.text}")
            return known
        if name in self._globals:
            raise InternalError(f"the name {name!r} is taken")
        made = Callee(name, signature)
        listed = ", ".join([p.text for p in params] + (["..."] if varargs else []))
        kind = f"noalias {result.text}" if fresh else result.text
        text = f"declare {kind} {made.text}({listed}){_attributes(attributes or {})}"
        self._declared[name] = (made, text)
        return made

    def find(self, name: str) -> Function | None:
        """Return the function defined under that name."""
        return self._defined.get(name)

    def keep(self, function: Function) -> None:
        """Keep LLVM's passes from removing a function that nothing calls yet."""
        self._kept.append(function.text)

    # -- data ----------------------------------------------------------------------------------
    def define_global(
        self,
        name: str,
        init: Value,
        *,
        constant: bool = False,
        linkage: str = "internal",
        thread_local: bool = False,
        align: int = 0,
    ) -> Value:
        """Define a variable with the initial value ``init``, and return its address."""
        if linkage not in _LINKAGES:
            raise InternalError(f"unknown linkage {linkage!r}")
        word = {"external": "", "private": "private unnamed_addr"}.get(linkage, linkage)
        kind = "thread_local " if thread_local else ""
        kind += "constant" if constant else "global"
        tail = f", align {align}" if align else ""
        return self._add_global(name, init.type, kind, f"{init.typed}{tail}", word)

    def declare_global(self, name: str, type: Type, *, thread_local: bool = False) -> Value:
        """Declare a variable that another module defines, and return its address."""
        kind = "thread_local global" if thread_local else "global"
        made = Variable(global_name(name), type, kind, type.text, "external")
        if self._globals.get(name) == made:
            return Value(PTR, global_name(name))
        return self._add_global(name, type, kind, type.text, "external")

    def promise_global(self, name: str) -> Value:
        """Return the address of a variable that this module will define later."""
        self._promised.add(name)
        return Value(PTR, global_name(name))

    def is_promised(self, name: str) -> bool:
        """Tell whether a variable is used that is still to be defined."""
        return name in self._promised and name not in self._globals

    @property
    def functions(self) -> Collection[Function]:
        """The functions defined so far."""
        return self._defined.values()

    @property
    def variables(self) -> Collection[Variable]:
        """The variables that were defined or declared so far."""
        return self._globals.values()

    @property
    def declared(self) -> Mapping[str, str]:
        """The declarations of functions of other modules, by symbol."""
        return {callee.text: line for callee, line in self._declared.values()}

    @property
    def kept(self) -> Collection[str]:
        """The symbols of the functions that were passed to ``keep``."""
        return self._kept

    def _add_global(self, name: str, type: Type, kind: str, tail: str, linkage: str) -> Value:
        if name in self._globals or name in self._defined or name in self._declared:
            raise InternalError(f"the name {name!r} is taken")
        address = Value(PTR, global_name(name))
        self._globals[name] = Variable(address.text, type, kind, tail, linkage)
        return address

    def string(self, text: str | bytes) -> Value:
        """Return the address of a constant C string in UTF-8; equal strings are shared."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        found = self._strings.get(data)
        if found is None:
            init = bytes_of(data + b"\0", escape(data + b"\0"))
            found = self.define_global(
                f".str.{len(self._strings)}", init, constant=True, linkage="private", align=1
            )
            self._strings[data] = found
        return found

    def data(self, hint: str, content: bytes, *, align: int = 16) -> Value:
        """Return the address of constant bytes."""
        init = Value(array(I8, len(content)), f'c"{escape(content)}"')
        name = f".data.{len(self._globals)}.{hint}"
        return self.define_global(name, init, constant=True, linkage="private", align=align)

    def data_once(self, name: str, content: bytes, *, align: int = 16) -> Value:
        """Return the address of named constant bytes, which the first call defines."""
        if name in self._globals:
            return Value(PTR, global_name(name))
        init = Value(array(I8, len(content)), f'c"{escape(content)}"')
        return self.define_global(name, init, constant=True, linkage="private", align=align)

    def struct(self, name: str, fields: Sequence[Type]) -> Type:
        """Return the struct type of that name, which the first call defines.

        Errors: InternalError if it has other fields.
        """
        found = self._structs.get(name)
        if found is None:
            found = self._structs[name] = name_struct(name, fields)
        elif found.fields != tuple(fields):
            raise InternalError(f"struct {name!r} has other fields")
        return found

    # -- metadata ------------------------------------------------------------------------------
    def metadata(self, text: str, *, distinct: bool = False) -> Metadata:
        """Add a node, ``text`` without its number: ``!{i32 1}``, ``!DILocation(...)``.

        Equal nodes are shared unless distinct. ``{self}`` in a distinct node is the node itself.
        """
        if not distinct and text in self._metadata_ids:
            return self._metadata_ids[text]
        node = Metadata(f"!{len(self._metadata)}")
        if distinct:
            text = "distinct " + text.replace("{self}", node.text)
        else:
            self._metadata_ids[text] = node
        self._metadata.append(text)
        return node

    def add_named_metadata(self, name: str, node: Metadata) -> None:
        """Append a node to a list of the module such as ``llvm.module.flags``."""
        self._named_metadata.setdefault(name, []).append(node.text)

    # -- text ----------------------------------------------------------------------------------
    def render(self) -> str:
        """Write the module.

        Errors: InternalError for a block without a terminator.
        """
        out = self.render_head()
        out.extend(variable.text for variable in self._globals.values())
        out.extend(self.render_kept(self._kept))
        for defined in self._defined.values():
            defined.render(out)
        out.extend(text for _, text in self._declared.values())
        out.extend(self.render_metadata())
        out.append("")
        return "\n".join(out)

    def render_head(self) -> list[str]:
        """Return the lines before variables and functions."""
        out = [f'source_filename = "{escape(self.name.encode("utf-8", "surrogatepass"))}"']
        if self.data_layout:
            out.append(f'target datalayout = "{self.data_layout}"')
        if self.triple:
            out.append(f'target triple = "{self.triple}"')
        for made in self._structs.values():
            fields = ", ".join(f.text for f in made.fields)
            out.append(f"{made.text} = type {{ {fields} }}")
        return out

    def render_kept(self, inside: Container[str]) -> list[str]:
        """Return the line that keeps passes from removing the functions of ``keep``."""
        kept = [name for name in self._kept if name in inside]
        listed = ", ".join(f"ptr {name}" for name in kept)
        line = f"@llvm.compiler.used = appending global [{len(kept)} x ptr] [{listed}], "
        return [line + 'section "llvm.metadata"'] if kept else []

    def render_metadata(self) -> list[str]:
        """Return the lines after the functions."""
        out: list[str] = []
        for name, nodes in self._named_metadata.items():
            out.append(f"!{name} = !{{{', '.join(nodes)}}}")
        out.extend(f"!{i} = {text}" for i, text in enumerate(self._metadata))
        return out

    __str__ = render


def _attributes(attributes: Mapping[str, str | None]) -> str:
    out = ""
    for key, value in attributes.items():
        if value is None:
            out += f" {key}"
        else:
            out += f' "{escape(key.encode())}"="{escape(value.encode())}"'
    return out
