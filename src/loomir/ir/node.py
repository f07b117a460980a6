"""Declarations of IR nodes.

Each field has a role, from which everything else is derived:

- *child* (no role given): owned; visited and rewritten.
- ``attr``: plain data; compared.
- ``binds``: a definition (a variable, a buffer); equality is up to renaming of it.
- ``uses``: a reference to a definition elsewhere; not visited as a child.
- ``meta``: spans and name hints; never compared.

Nodes have slots, compare by identity, and are read-only: type checkers refuse assignments, and
``freeze_nodes`` makes them raise, which the tests switch on.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import operator
import textwrap
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from types import CodeType, FunctionType
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, TypeVar, cast

from typing_extensions import dataclass_transform

from loomir.support.argument_errors import BY_MISFITS, explain_node, refuse_endless
from loomir.support.diagnostics import InternalError, LoomirError
from loomir.support.printing import to_text

__all__ = [
    "DECLARED",
    "NODE_CLASSES",
    "Field",
    "Node",
    "Role",
    "attr",
    "binds",
    "child",
    "freeze_nodes",
    "meta",
    "node",
    "replace_lists",
    "reset",
    "uses",
]


class Role(Enum):
    """The role of a field's value for its node."""

    CHILD = "child"
    ATTR = "attr"
    BINDS = "binds"
    USES = "uses"
    META = "meta"


class Field(NamedTuple):
    """A field of a node class."""

    name: str
    role: Role


NODE_CLASSES: dict[str, type[Node]] = {}
"""Every node class by its qualified name, such as ``tir.Add``."""
DECLARED: list[type[Node]] = []
"""Every node class, in the order of declaration."""


class Node:
    """The base class of all IR nodes."""

    __slots__ = ()

    node_fields: ClassVar[tuple[Field, ...]] = ()
    """All fields, in the order of the specification's grammar."""
    scan: ClassVar[tuple[Field, ...]] = ()
    """The fields that can have nodes, definitions first: the order in which names are defined."""
    scan_first: ClassVar[tuple[str, ...]] = ()
    """Fields that must come first in ``scan``."""
    child_names: ClassVar[tuple[str, ...]] = ()
    is_definition: ClassVar[bool] = False
    """Whether other nodes refer to this one by identity (variables, buffers)."""
    defines_in: ClassVar[tuple[str, ...]] = ()
    """Owned parts in which new names are defined (a pattern)."""
    lends_scope: ClassVar[bool] = False
    """Whether bindings of this node are in scope in its owner (an iterator of a block)."""
    outside_of: ClassVar[type[Node] | None] = None
    """A class whose nodes never contain such nodes: no expression contains a statement."""
    lowered_by: ClassVar[str] = ""
    """For nodes that programs must not contain, what to use instead; else empty."""
    node_kind: ClassVar[str] = "Node"
    """The qualified name, such as ``tir.Add``."""

    in_words: ClassVar[str] = ""
    """The description of such nodes in errors, such as ``an expression``; not inherited."""
    refuse_others: ClassVar[Callable[..., NoReturn] | None]
    """What a constructor calls that is given more than the fields, with all it is given."""
    written_as: ClassVar[tuple[type, ...]] = ()
    """The plain values that constructors convert to such nodes."""

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        return to_text(self)


def _role(role: Role, default: Any, default_factory: Any, kw_only: bool) -> Any:
    options: dict[str, Any] = {"metadata": {"role": role}, "kw_only": kw_only}
    if default is not dataclasses.MISSING:
        options["default"] = default
    if default_factory is not dataclasses.MISSING:
        options["default_factory"] = default_factory
    return dataclasses.field(**options)


def child(
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
    kw_only: bool = False,
    converter: Callable[..., Any] | None = None,
) -> Any:
    """Declare an owned part; needed only to give it a default or a converter.

    ``converter`` tells type checkers what else constructors accept; ``__post_init__`` converts.
    """
    return _role(Role.CHILD, default, default_factory, kw_only)


def attr(
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
    kw_only: bool = False,
    converter: Callable[..., Any] | None = None,
) -> Any:
    """Declare plain data that equality compares; ``converter`` as for ``child``."""
    return _role(Role.ATTR, default, default_factory, kw_only)


def binds(
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
    kw_only: bool = False,
) -> Any:
    """Declare a definition made by this node."""
    return _role(Role.BINDS, default, default_factory, kw_only)


def uses(
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
    kw_only: bool = False,
) -> Any:
    """Declare a reference to a definition made elsewhere."""
    return _role(Role.USES, default, default_factory, kw_only)


def meta(
    *,
    default: Any = dataclasses.MISSING,
    default_factory: Any = dataclasses.MISSING,
    kw_only: bool = False,
) -> Any:
    """Declare data that equality ignores."""
    return _role(Role.META, default, default_factory, kw_only)


_N = TypeVar("_N", bound=Node)


@dataclass_transform(frozen_default=True, field_specifiers=(child, attr, binds, uses, meta))
def node(cls: type[_N]) -> type[_N]:
    """Turn a class with annotated fields into a slotted node class, and register it."""
    made = dataclasses.dataclass(slots=True, eq=False, repr=False, init=False)(cls)
    setattr(made, "__init__", _constructor(made, guarded=True))  # noqa: B010 - no type allows it
    fields = tuple(
        Field(f.name, f.metadata.get("role", Role.CHILD))
        for f in dataclasses.fields(made)  # type: ignore[arg-type]
    )
    made.node_fields = fields
    order = (Role.BINDS, Role.USES, Role.CHILD)
    first = made.scan_first
    made.scan = tuple(
        sorted(
            (
                Field(f.name, Role.BINDS) if f.name in made.defines_in else f
                for f in fields
                if f.role in order
            ),
            key=lambda f: first.index(f.name) if f.name in first else 9 + order.index(f.role),
        )
    )
    made.child_names = tuple(f.name for f in fields if f.role is Role.CHILD)
    package = made.__module__.split(".")[1]
    made.node_kind = f"{package}.{made.__name__}"
    NODE_CLASSES[made.node_kind] = made
    DECLARED.append(made)
    return made


def reset(target: Node, name: str, value: object) -> None:
    """Set a field while a node is being constructed (a promoted literal, a default)."""
    object.__setattr__(target, name, value)


def replace_lists(target: Node, name: str) -> None:
    """Replace lists in a field's plain data by tuples, while a node is being constructed.

    Errors: TIR0006 for data that contains itself, or is nested too deeply.
    """
    given: object = getattr(target, name)
    try:
        made = _to_tuple(given)
    except RecursionError:
        refuse_endless(target, name)
    if made is not given:
        reset(target, name, made)


def _to_tuple(value: object) -> object:
    if isinstance(value, (list, tuple)):
        given = cast("Sequence[object]", value)
        items = tuple([_to_tuple(item) for item in given])
        same = isinstance(value, tuple) and all(map(operator.is_, items, given))
        return given if same else items
    if isinstance(value, Mapping):
        table = cast("Mapping[object, object]", value)
        made = {key: _to_tuple(item) for key, item in table.items()}
        return table if all(map(operator.is_, made.values(), table.values())) else made
    return value


def freeze_nodes() -> None:
    """Make writes to finished nodes raise; for tests, since the check costs time."""
    for cls in DECLARED:
        setattr(cls, "__init__", _constructor(cls, guarded=False))  # noqa: B010 - no type allows it
    for base in dict.fromkeys(base for cls in DECLARED for base in cls.__mro__):
        if "__post_init__" in vars(base):
            setattr(base, "__post_init__", _write_past_guard(vars(base)["__post_init__"]))  # noqa: B010
    write = object.__setattr__

    def guard(self: Node, name: str, value: object) -> None:
        if hasattr(self, name):
            raise InternalError(f"field {name!r} of a finished {type(self).__name__} was written")
        write(self, name, value)

    setter: Callable[[Node, str, object], None] = guard
    Node.__setattr__ = setter


def _is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id == "self"


class _GuardBypass(ast.NodeTransformer):
    """Replaces ``self.x = value``, which asks the guard, by what ``reset`` does."""

    def visit_Assign(self, node: ast.Assign) -> Any:
        fields = [t for t in node.targets if isinstance(t, ast.Attribute) and _is_self(t.value)]
        others = [t for t in node.targets if t not in fields]
        if not fields:
            return node
        kept = ast.Name("value_", ast.Store())
        made: list[ast.stmt] = [ast.Assign([kept, *others], node.value)]
        for field in fields:
            arguments = [field.value, ast.Constant(field.attr), ast.Name("value_", ast.Load())]
            made.append(ast.Expr(ast.Call(ast.Name("write_", ast.Load()), arguments, [])))
        return [ast.copy_location(ast.fix_missing_locations(m), node) for m in made]


def _write_past_guard(function: Any) -> Any:
    """Write a ``__post_init__`` anew, so that it fills fields of its new node without the guard.

    Otherwise the guard, which has nothing to check there, takes longer than to make the node.
    """
    code = function.__code__
    if code.co_freevars:
        return function
    tree = _GuardBypass().visit(ast.parse(textwrap.dedent(inspect.getsource(function))))
    (made,) = tree.body
    made.args.kwonlyargs, made.args.kw_defaults = [ast.arg("write_")], [None]
    made.returns = None  # from Python 3.14 on, annotations are a function of their own
    ast.increment_lineno(ast.fix_missing_locations(tree), code.co_firstlineno - 1)
    module = compile(tree, code.co_filename, "exec", dont_inherit=True)
    (inner,) = (c for c in module.co_consts if isinstance(c, CodeType))
    copy = FunctionType(inner, function.__globals__, function.__name__)
    copy.__kwdefaults__ = {"write_": object.__setattr__}
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


def _constructor(cls: type[Node], *, guarded: bool) -> Callable[..., None]:
    """Make the constructor of a class.

    It explains wrong arguments. Without the guard of ``freeze_nodes``, it writes directly to the
    slots of the new node.
    """
    given: list[str] = []
    named: list[str] = []
    known: dict[str, Any] = {
        "__name__": cls.__module__,
        "LoomirError": LoomirError,
        "absent": _ABSENT,
        "explain_node": explain_node,
        "by_misfits": BY_MISFITS,
    }
    lines: list[str] = []
    fields = dataclasses.fields(cast("Any", cls))
    for field in fields:
        name, value, default = field.name, field.name, ""
        if field.default_factory is not dataclasses.MISSING:
            known[f"make_{name}"] = field.default_factory
            value = f"make_{name}() if {name} is absent else {name}"
            default = "=absent"
        elif field.default is not dataclasses.MISSING:
            known[f"default_{name}"] = field.default
            default = f"=default_{name}"
        (named if field.kw_only else given).append(name + default)
        known[f"set_{name}"] = getattr(cls, name).__set__
        lines.append(f" self.{name} = {value}" if guarded else f" set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        lines += [" try:", "  self.__post_init__()", " except LoomirError:", "  raise"]
        lines += [" except by_misfits:", "  explain_node(self)", "  raise"]
    head = ", ".join(["self", *given, *(["*", *named] if named else [])])
    if hasattr(cls, "refuse_others"):
        head = ", ".join(["self", *given, "*others", *named, "**unknown"])
        values = ", ".join([field.name for field in fields if not field.kw_only])
        lines.insert(0, f" if others or unknown: self.refuse_others({values}, *others, **unknown)")
    body = "\n".join(lines or [" pass"])
    exec(f"def __init__({head}):\n{body}", known)  # noqa: S102 - names of fields
    made: Any = known["__init__"]
    made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    if hasattr(cls, "refuse_others"):  # what is refused is nothing to be given
        shown = inspect.signature(made)
        kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        kept = [p for p in shown.parameters.values() if p.kind not in kinds]
        made.__signature__ = shown.replace(parameters=kept)
    made.__annotations__ = {field.name: field.type for field in fields} | {"return": "None"}
    return made


_ABSENT: Final = object()
"""The mark of an omitted field, whose default is created for each node."""
