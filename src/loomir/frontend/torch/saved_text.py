"""What a file of ``torch.export.save`` says of its program, with all of it checked that can act.

torch evaluates sizes as text, imports modules that the file names, and looks operators up by
paths of attributes. Here only what a plain program needs is let through; all else is left out, or
refused.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator
from typing import Any, Final, cast

__all__ = ["UnsafeProgram", "plain_program"]

_FUNCTIONS: Final = {
    "Abs", "Add", "And", "CeilDiv", "CeilToInt", "CleanDiv", "Eq", "Equality", "FloorDiv",
    "FloorToInt", "Ge", "GreaterThan", "Gt", "Identity", "IntTrueDiv", "Le", "LessThan", "Lt",
    "Max", "Min", "Mod", "ModularIndexing", "Mul", "Ne", "Not", "Or", "PythonMod",
    "StrictGreaterThan", "StrictLessThan", "TruncToInt", "Unequality", "Where", "Integer",
    "Rational", "Symbol",
}  # fmt: skip
"""The functions allowed in sizes; not powers, with which huge numbers could be written."""
_SYMBOL: Final = re.compile(r"[suz]+\d{1,9}")
_OPERATORS: Final = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_MOST_PARTS: Final = 1000
_LARGEST: Final = 2**63
_CONTAINERS: Final = (
    "builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict",
)  # fmt: skip
_ON_NUMBERS: Final = re.compile(
    r"(_operator\.(add|sub|mul|floordiv|truediv|mod|neg|pos|eq|ne|lt|le|gt|ge|and_|or_|getitem)"
    r"|math\.(ceil|floor|trunc|sqrt)|torch\.sym_(int|max|min|not|float|ite))"
)
_OPERATOR: Final = re.compile(r"torch\.ops\.(\w+)\.(\w+)(?:\.(\w+))?")
_SPECIAL: Final = re.compile(r"__\w+__")
_SPECIAL_OPERATORS: Final = {"__and__", "__or__", "__xor__", "__lshift__", "__rshift__"}
_HIGHER_ORDER: Final = {
    "cond", "while_loop", "scan", "map_impl", "associative_scan", "wrap_with_set_grad_enabled",
    "wrap_with_autocast",
}  # fmt: skip


class UnsafeProgram(Exception):
    """The content of a file is not acceptable."""


def plain_program(data: bytes, namespaces: Collection[str]) -> dict[str, Any]:
    """Read the JSON of a program, without parts that are not needed. Errors: UnsafeProgram.

    ``namespaces`` are those of the operators that it may call.
    """
    try:
        found: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnsafeProgram(f"its description is no JSON: {error}") from error
    program = _require_mapping(found)
    program["verifiers"] = ["TRAINING"]  # accepts operators that are decomposed later
    program["guards_code"] = []
    graph = _require_mapping(program.get("graph_module"))
    calls = graph.get("module_call_graph")
    if not isinstance(calls, list) or not calls:
        raise UnsafeProgram("it does not say what its inputs are")
    graph["module_call_graph"] = calls[:1]
    for each in _mappings(program):
        _check(each, namespaces)
    return program


def _require_mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnsafeProgram("its description is none of a program")
    return cast("dict[str, Any]", value)


def _mappings(root: Any) -> Iterator[dict[str, Any]]:
    pending = [root]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            mapping = cast("dict[str, Any]", value)
            yield mapping
            pending.extend(mapping.values())
        elif isinstance(value, list):
            pending.extend(cast("list[Any]", value))


def _check(each: dict[str, Any], namespaces: Collection[str]) -> None:
    if "target" in each and "inputs" in each:
        _check_operator(each["target"], namespaces)
    if "metadata" in each and isinstance(each["metadata"], dict):
        metadata = cast("dict[str, Any]", each["metadata"])
        trace: Any = metadata.get("stack_trace")
        each["metadata"] = {"stack_trace": trace} if isinstance(trace, str) else {}
    if "as_operator" in each:
        _check_operator(each["as_operator"], namespaces)
    if "expr_str" in each:
        _check_size(each["expr_str"])
    if "as_custom_obj" in each or each.get("custom_obj_values"):
        raise UnsafeProgram("it has objects that are no tensors")
    for key in ("in_spec", "out_spec"):
        if key in each:
            _check_containers(each[key])


def _check_operator(target: Any, namespaces: Collection[str]) -> None:
    if not isinstance(target, str):
        raise UnsafeProgram("an operator has no name")
    if _ON_NUMBERS.fullmatch(target):
        return
    found = _OPERATOR.fullmatch(target)
    if found is not None:
        namespace, name, overload = found.groups()
        special = _SPECIAL.search(target.removeprefix("torch.ops."))
        if namespace == "higher_order" and name in _HIGHER_ORDER and overload is None:
            return
        plain = special is None or (name in _SPECIAL_OPERATORS and special[0] == name)
        if namespace in namespaces and overload and name != "from_file" and plain:
            return
    raise UnsafeProgram(f"it calls {target[:80]!r}, which is no operator on tensors that is known")


def _check_size(text: Any) -> None:
    """Check a size as text, which torch evaluates."""
    if not isinstance(text, str) or len(text) > 20_000:
        raise UnsafeProgram("a size is no text, or a very long one")
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnsafeProgram(f"a size is no expression: {text[:80]!r}") from error
    pending: list[ast.AST] = [tree.body]
    count = 0
    while pending:
        node = pending.pop()
        count += 1
        if count > _MOST_PARTS or not _is_size(node):
            raise UnsafeProgram(f"a size is no expression of known functions: {text[:80]!r}")
        pending.extend(_operands(node))


def _is_size(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is bool or (type(node.value) is int and abs(node.value) < _LARGEST)
    if isinstance(node, ast.Name):
        return _SYMBOL.fullmatch(node.id) is not None
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, _OPERATORS)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    if node.func.id != "Symbol":
        return node.func.id in _FUNCTIONS and not node.keywords
    name = node.args[0] if len(node.args) == 1 else None
    named = isinstance(name, ast.Constant) and isinstance(name.value, str)
    flags = all(isinstance(k.value, ast.Constant) for k in node.keywords)
    return named and flags and _SYMBOL.fullmatch(cast("Any", name).value) is not None


def _operands(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.Call) and cast("ast.Name", node.func).id != "Symbol":
        return node.args
    return []


def _check_containers(text: Any) -> None:
    """Check the nesting of inputs or outputs, since torch imports modules that its text names."""
    if text == "":
        return
    try:
        found: Any = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnsafeProgram("how its inputs are nested is no JSON") from error
    if not isinstance(found, list) or len(cast("list[Any]", found)) != 2:
        raise UnsafeProgram("how its inputs are nested is not said")
    for each in _mappings(found):
        if each.get("type") not in (None, *_CONTAINERS):
            raise UnsafeProgram(f"its inputs or outputs are in a {str(each['type'])[:80]}")
        context: Any = each.get("context")
        if context is not None and not _is_plain(context):
            raise UnsafeProgram("the names of its inputs are no names")


def _is_plain(context: Any) -> bool:
    """Tell whether the keys of a container are null, or a list of strings and numbers."""
    try:
        keys: Any = json.loads(context) if isinstance(context, str) else context
    except (ValueError, RecursionError):
        return False
    if keys is None:
        return True
    return isinstance(keys, list) and all(
        isinstance(k, (str, int)) for k in cast("list[Any]", keys)
    )
