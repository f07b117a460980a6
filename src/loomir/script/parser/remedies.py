"""Write the remedy of a mistake in the user's own text: the one line that is right there.

What refuses a part of a program knows values, not what is written around them. Here the syntax
tree is at hand, so that ``use T.max`` becomes ``write T.max(x[i], 0.0)``.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from loomir.script.parser.convert import Places
from loomir.script.parser.evaluate.namespaces import T
from loomir.script.parser.evaluate.unknown_names import operator_named
from loomir.support.diagnostics import Diagnostic, nearest
from loomir.support.span import Span

__all__ = ["write_remedies"]

_LONGEST: Final = 60
_AXES: Final = "ijklmn"
_WORDS: Final = {"dim": "axis", "dims": "axis", "keepdim": "keepdims", "other": "x2", "bias": ""}
"""What PyTorch calls options of operators."""
_ELEMENTS: Final = {
    "absolute": "abs",
    "fabs": "abs",
    "fmax": "max",
    "fmin": "min",
    "maximum": "max",
    "minimum": "min",
    "arccos": "acos",
    "arcsin": "asin",
    "arctan": "atan",
    "arctan2": "atan2",
    "power": "pow",
    "where": "if_then_else",
    "clip": "",
}
"""What NumPy and PyTorch call functions of elements."""
_PACK: Final = frozenset(("reshape", "permute_dims", "broadcast_to", "tile", "expand_dims"))
"""Operators that take a tuple where methods of arrays take several numbers."""


@dataclass(frozen=True)
class _Spot:
    """A mistake's nodes: what stands at its place, the inner first, and what is around."""

    problem: Diagnostic
    here: tuple[ast.AST, ...]
    around: tuple[ast.AST, ...]
    tree: ast.AST
    places: Places

    @property
    def node(self) -> Any:
        """The outer node of those at the place."""
        return self.here[-1]

    @property
    def parent(self) -> Any:
        """The node around."""
        return self.around[0] if self.around else None

    @property
    def function(self) -> ast.FunctionDef | None:
        """The function around."""
        return next((n for n in self.around if isinstance(n, ast.FunctionDef)), None)

    @property
    def is_graph(self) -> bool:
        """Whether that function is a graph: what is above it says so, or what it is made of."""
        function = self.function
        if function is None:
            return False
        above = self.places.lines[: function.lineno - 1]
        marks = [line.strip() for line in reversed(above)]
        marks = marks[: next((i for i, line in enumerate(marks) if line[:1] != "@"), len(marks))]
        if any(re.match(r"@\w+\.(function|prim_func)\b", mark) for mark in marks):
            return not any("prim_func" in mark for mark in marks)
        return re.search(r"\bR\.\w", ast.unparse(function)) is not None


_Rule: TypeAlias = "Callable[[_Spot], str | None]"


def write_remedies(
    problems: Iterable[Diagnostic], tree: ast.AST, places: Places
) -> list[Diagnostic]:
    """Write out the remedies of mistakes, and leave out mistakes that follow from others."""
    nodes = list(ast.walk(tree))
    parents = {id(child): node for node in nodes for child in ast.iter_child_nodes(node)}
    named = {n.target.id for n in nodes if isinstance(n, ast.NamedExpr)}
    by_line: dict[int, list[ast.AST]] = {}
    for node in nodes:
        if isinstance(node, (ast.expr, ast.stmt, ast.arg)):
            by_line.setdefault(node.lineno + places.shift, []).append(node)
    made: list[Diagnostic] = []
    for problem in problems:
        span = problem.span
        is_here = span is not None and span.source is places.source
        here = _at(span, by_line.get(span.line, []), places) if is_here and span else ()
        if not here:
            made.append(problem)
            continue
        if problem.code == "SCR0003" and isinstance(here[-1], ast.Name) and here[-1].id in named:
            continue  # an assignment expression, which was refused
        around: list[ast.AST] = []
        node = parents.get(id(here[-1]))
        while node is not None:
            around.append(node)
            node = parents.get(id(node))
        spot = _Spot(problem, here, tuple(around), tree, places)
        remedies = (rule(spot) for rule in _RULES.get(problem.code, ()))
        found = next((one for one in remedies if one), None)
        made.append(problem if found is None else replace(problem, help=found))
    return made


def _at(span: Span, nodes: Sequence[ast.AST], places: Places) -> tuple[ast.AST, ...]:
    """Return those of a line's nodes that are at a place, the inner ones first."""
    found: list[ast.AST] = []
    for node in nodes:
        at = places.span(node)
        starts = at.column
        if isinstance(node, ast.Attribute) and span.column > starts:  # marked at its name
            starts = at.end_column - len(node.attr)
        is_whole = (at.end_line, at.end_column) == (span.end_line, span.end_column)
        if starts == span.column and (is_whole or isinstance(node, ast.stmt)):
            found.insert(0, node)
    exact = [n for n in found if not isinstance(n, ast.stmt)]
    return tuple(exact or found)


def _text(node: Any) -> str:
    """Return what a node reads, or dots where that is long."""
    try:
        text = ast.unparse(node)
    except RecursionError:  # deeper than anybody reads
        return "..."
    text = text if '"' in text else text.replace("'", '"')
    return text if len(text) <= _LONGEST and "\n" not in text else "..."


def _arguments(call: ast.Call, words: dict[str, str] | None = None) -> str:
    parts = [_text(a) for a in call.args]
    for word in call.keywords:
        name = word.arg if words is None or word.arg is None else words.get(word.arg, word.arg)
        parts.append(f"{name}={_text(word.value)}" if name else f"**{_text(word.value)}")
    return ", ".join(parts)


# -- what Python has and programs lack -----------------------------------------------------------
def _replace_syntax(spot: _Spot) -> str | None:
    node = spot.here[0]
    if isinstance(node, ast.NamedExpr):
        return f"assign in a statement before: {_text(node.target)} = {_text(node.value)}"
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        loop = node.generators[0]
        if spot.is_graph:
            return f"write the elements, as in [{_text(node.elt)}]: graphs have no loops"
        statement = spot.parent
        is_named = isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
        out = _text(statement.targets[0]) if is_named else "y"
        index = _text(loop.target) if isinstance(loop.target, ast.Name) else "i"
        head = f"for {_text(loop.target)} in {_text(loop.iter)}"
        return f"write the elements, or a loop: {head}: {out}[{index}] = {_text(node.elt)}"
    if isinstance(node, ast.Lambda):
        used = f"write the expression where it is used: {_text(node.body)}"
        return f"{used}; an index map is text: 'lambda i, j: (j, i)'"
    return None


def _ternary(spot: _Spot) -> str | None:
    choice = spot.parent
    if not isinstance(choice, ast.IfExp) or choice.test is not spot.node:
        return None
    parts = ", ".join(_text(part) for part in (choice.test, choice.body, choice.orelse))
    if spot.is_graph:
        return f"write R.where({parts}), which chooses for each element"
    return f"use T.if_then_else({parts}), or T.Select(...) to evaluate both"


def _identity(spot: _Spot) -> str | None:
    node = spot.node
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    left, right = _text(node.left), node.comparators[0]
    if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        sign = "==" if isinstance(node.ops[0], ast.Is) else "!="
        return f"compare with {sign}: {left} {sign} {_text(right)}"
    if isinstance(node.ops[0], ast.In) and isinstance(right, (ast.Tuple, ast.List, ast.Set)):
        parts = [f"{left} == {_text(item)}" for item in right.elts[:4]]
        return f"compare with == and join with `or`: {' or '.join(parts)}"
    return None


def _whole_buffers(spot: _Spot) -> str | None:
    """Write the loop for ``y = x + 1.0`` of buffers."""
    statement = next((n for n in spot.around if isinstance(n, ast.stmt)), None)
    ranks = _ranks(spot.function)
    if "read an element" not in spot.problem.help or not isinstance(statement, ast.Assign):
        return None
    value = statement.value
    used = {n.id for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in ranks}
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.MatMult):
        if isinstance(value.left, ast.Name) and isinstance(value.right, ast.Name):
            out = _text(statement.targets[0])
            return (
                "multiply and add in loops: "
                f"{out.split('[')[0]}[i, j] += {value.left.id}[i, k] * {value.right.id}[k, j]"
            )
        return None
    target = statement.targets[0]
    if not used or not isinstance(target, ast.Name):
        return None
    first = next(n.id for n in ast.walk(value) if isinstance(n, ast.Name) and n.id in used)
    axes = _AXES[: ranks[first]]
    element = _text(_Indexed(ranks).visit(copy.deepcopy(value)))
    store = f"{target.id}[{', '.join(axes)}] = {element}"
    if len(axes) == 1:
        store = f"for i in range({first}.shape[0]): {store}"
    return f"{spot.problem.help}, in a loop: {store}"


def _ranks(function: ast.FunctionDef | None) -> dict[str, int]:
    """Return how many axes the buffers have whose shapes are written in a function."""
    found: dict[str, int] = {}
    if function is None:
        return found
    pairs: list[tuple[str, Any]] = [(a.arg, a.annotation) for a in function.args.args]
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            pairs.append((node.targets[0].id, node.value))
    for name, value in pairs:
        if isinstance(value, ast.Call) and re.search(r"[Bb]uffer", ast.unparse(value.func)):
            is_match = ast.unparse(value.func).endswith("match_buffer")
            shape = value.args[1 if is_match else 0 :][:1]
            found[name] = len(shape[0].elts) if shape and isinstance(shape[0], ast.Tuple) else 1
    return found


class _Indexed(ast.NodeTransformer):
    """Puts indices behind the names of buffers."""

    def __init__(self, ranks: dict[str, int]) -> None:
        self._ranks = ranks

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self._ranks:
            return node
        axes = [ast.Name(axis, ast.Load()) for axis in _AXES[: self._ranks[node.id]]]
        index = axes[0] if len(axes) == 1 else ast.Tuple([*axes], ast.Load())
        return ast.Subscript(node, index, ast.Load())

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return node


# -- calls -----------------------------------------------------------------------------------------
def _plain_function(spot: _Spot) -> str | None:
    call = next((n for n in spot.here if isinstance(n, ast.Call)), None)
    found = re.match(r"use T\.(\w+)(\(x, (\"\w+\")\))?$", spot.problem.help)
    if call is None or found is None:
        return None
    given = _arguments(call)
    if found[1] == "cast":
        return f"use T.cast({given}, {found[3]})"
    if found[1] in ("max", "min") and len(call.args) > 2:
        *inner, last = [_text(a) for a in call.args]
        for part in reversed(inner):
            last = f"T.{found[1]}({part}, {last})"
        return f"use {last}"
    return f"use T.{found[1]}({given})"


def _foreign_function(spot: _Spot) -> str | None:
    """Name what Loomir has for ``np.exp(x)``, ``math.sqrt(x)``, ``torch.relu(x)``."""
    call = spot.parent
    if not isinstance(call, ast.Call) or not isinstance(call.func, (ast.Attribute, ast.Name)):
        return None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id
    if spot.is_graph:
        known = operator_named(name)
        return None if known is None else f"write {known}({_arguments(call, _WORDS)})"
    own = _ELEMENTS.get(name, name)
    if not own or own not in T.table:
        return None
    return f"write T.{own}({_arguments(call)})"


def _method(spot: _Spot) -> str | None:
    """Write ``x.reshape(3, 2)`` as a call of the operator, with its arguments."""
    node = next((n for n in (*spot.here, *spot.around) if isinstance(n, ast.Attribute)), None)
    if node is None:
        return None
    call = next((n for n in spot.around if isinstance(n, ast.Call) and n.func is node), None)
    value = _text(node.value)
    if spot.is_graph and call is not None:
        found = re.match(r"write (R\.[\w.]+)\(", spot.problem.help)
        if found is None:
            return None
        several = len(call.args) > 1 and found[1].rpartition(".")[2] in _PACK
        given = f"({_arguments(call)})" if several else _arguments(call, _WORDS)
        return f"write {found[1]}({value}{', ' if given else ''}{given})"
    if node.attr == "item" and call is not None:
        return f"leave .item() out: {value} is a number"
    if node.attr in ("append", "extend", "insert") and call is not None and call.args:
        element = _text(call.args[-1])
        return (
            f"lists do not grow in a program: make {value} a buffer, as by "
            f'{value} = T.alloc_buffer((8,), "float32"), and write {value}[i] = {element}'
        )
    return None


def _module_function(spot: _Spot) -> str | None:
    """Name the operator for a function of tensor expressions in a graph."""
    if "loomir.te" not in spot.problem.message:
        return None
    call = next((n for n in spot.around if isinstance(n, ast.Call)), None)
    name = re.search(r"attribute '(\w+)'", spot.problem.message)
    known = None if name is None else operator_named(name[1])
    if call is None or known is None or not spot.is_graph:
        return "tensor expressions become programs outside: te.create_prim_func([...])"
    return f"write {known}({_arguments(call, _WORDS)})"


def _option(spot: _Spot) -> str | None:
    """Name the option of an operator that is meant by a name of PyTorch's, or a near one."""
    call = next((n for n in spot.here if isinstance(n, ast.Call)), None)
    found = re.search(r"has no parameter '(\w+)'", spot.problem.message)
    listed = re.search(r"call it as [\w.]+\((.*)\)$", spot.problem.help)
    if call is None or found is None or listed is None:
        return None
    known = re.findall(r"(?:^|, )\*?(\w+)(?==|,|$)", listed[1])
    meant = _WORDS.get(found[1]) or nearest(found[1], known)
    if not meant or meant not in known:
        return None
    return f"write {_text(call.func)}({_arguments(call, {found[1]: meant})})"


def _kernel_call(spot: _Spot) -> str | None:
    """Write the call of a kernel with what its last parameter says of the result."""
    call = next((n for n in spot.here if isinstance(n, ast.Call)), None)
    if call is None or not isinstance(call.func, ast.Attribute):
        return None
    name = call.func.attr
    for node in ast.walk(spot.tree):
        if isinstance(node, ast.FunctionDef) and node.name == name and node.args.args:
            last = node.args.args[-1].annotation
            if isinstance(last, ast.Call) and ast.unparse(last.func).endswith("Buffer"):
                given = _arguments(call)
                values = f"({given},)" if len(call.args) == 1 else f"({given})"
                return (
                    f"write R.call_tir({_text(call.func)}, {values}, "
                    f"out_sinfo=R.Tensor({_arguments(last)}))"
                )
    return None


def _no_files(spot: _Spot) -> str | None:
    if isinstance(spot.node, ast.Name) and spot.node.id == "open":
        return "a program reads no files: read it in Python, and pass an array with what is in it"
    return None


# -- values ----------------------------------------------------------------------------------------
def _cast(spot: _Spot) -> str | None:
    if "T.cast(…," not in spot.problem.help:
        return None
    text = _text(spot.node) if isinstance(spot.node, ast.expr) else "..."
    return None if text == "..." else spot.problem.help.replace("…", text).replace("'", '"')


def _indices(spot: _Spot) -> str | None:
    """Write as many indices as a buffer has axes."""
    found = re.search(r"has (\d) ax", spot.problem.message)
    node = next((n for n in spot.here if isinstance(n, ast.Subscript)), None)
    if found is None or node is None:
        return None
    given = _index_texts(node)
    parent = spot.parent
    while isinstance(parent, ast.Subscript) and len(given) < int(found[1]):  # x[i][j]
        given += _index_texts(parent)
        at = spot.around.index(parent)
        parent = spot.around[at + 1] if at + 1 < len(spot.around) else None
    if len(given) > int(found[1]):
        given = given[: int(found[1])]
    free = [axis for axis in _AXES if axis not in given]
    given += free[: int(found[1]) - len(given)]
    if not given:
        return None
    return f"{spot.problem.help}, as in {_text(node.value)}[{', '.join(given)}]"


def _index_texts(node: ast.Subscript) -> list[str]:
    at = node.slice
    return [_text(e) for e in at.elts] if isinstance(at, ast.Tuple) else [_text(at)]


def _part_of_tensor(spot: _Spot) -> str | None:
    """Write ``x[0]`` and ``x[:, 1:3]`` of a graph as calls of operators."""
    node = next((n for n in spot.here if isinstance(n, ast.Subscript)), None)
    if node is None or "R.strided_slice" not in spot.problem.help:
        return None
    value = _text(node.value)
    parts: Sequence[Any] = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if len(parts) == 1 and not isinstance(parts[0], ast.Slice):
        return f'write R.take({value}, R.const({_text(parts[0])}, "int64"), axis=0)'
    chosen = [(axis, p) for axis, p in enumerate(parts) if isinstance(p, ast.Slice)]
    if len(chosen) < len(parts) or any(p.step is not None for _, p in chosen):
        return None
    cut = [(a, p) for a, p in chosen if p.lower is not None or p.upper is not None]
    if any(p.upper is None for _, p in cut):
        return None
    axes, begin, end = (
        ", ".join(items)
        for items in (
            [str(a) for a, _ in cut],
            ["0" if p.lower is None else _text(p.lower) for _, p in cut],
            [_text(p.upper) for _, p in cut],
        )
    )
    return f"write R.strided_slice({value}, axes=[{axes}], begin=[{begin}], end=[{end}])"


def _name_item(spot: _Spot) -> str | None:
    """Name a value instead of storing it in a dict or list."""
    node = next((n for n in spot.here if isinstance(n, ast.Subscript)), None)
    statement = spot.parent
    if node is None or not isinstance(statement, ast.Assign) or node not in statement.targets:
        return None
    if not isinstance(node.slice, ast.Constant) or "no element" not in spot.problem.message:
        return None
    name = node.slice.value if str(node.slice.value).isidentifier() else "value"
    return f"dicts and lists are constants in a program: give the value a name, {name} = ..."


def _return_buffer(spot: _Spot) -> str | None:
    name = spot.node.id if isinstance(spot.node, ast.Name) else None
    if name is None or spot.function is None or not isinstance(spot.parent, ast.Return):
        return None
    if any(a.arg == name for a in spot.function.args.args):
        return f"leave out the return: {name} is a parameter, so its caller sees what is written"
    for node in ast.walk(spot.function):
        if isinstance(node, ast.Assign) and _text(node.targets[0]) == name:
            made = node.value
            if isinstance(made, ast.Call) and "alloc" in ast.unparse(made.func):
                declared = f"{name}: T.Buffer({_arguments(made)})"
                return f"make it a parameter, which calls may leave out: {declared}"
    return None


def _receiver(spot: _Spot) -> str | None:
    first = spot.node if isinstance(spot.node, ast.arg) else None
    if first is not None and first.arg in ("self", "cls"):
        return f"a program is no method: leave {first.arg} out"
    return None


_RULES: Final[dict[str, tuple[_Rule, ...]]] = {
    "OPS0001": (_option,),
    "SCR0002": (_replace_syntax,),
    "SCR0003": (_no_files,),
    "SCR0005": (_plain_function,),
    "SCR0006": (_method, _module_function),
    "SCR0007": (_foreign_function,),
    "SCR0008": (_part_of_tensor, _name_item),
    "SCR0009": (_ternary, _identity, _whole_buffers),
    "SCR0015": (_receiver,),
    "SCR0023": (_kernel_call,),
    "SCR0025": (_return_buffer,),
    "TIR0107": (_indices,),
    "TIR0203": (_cast,),
    "TIR0206": (_cast,),
}
