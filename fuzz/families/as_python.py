"""Run the text of a loop program as Python on NumPy scalars: TVMScript is valid Python.

The text is used as it is, except for what Python cannot express: choices become lazy, blocks lose
their declarations, and an ``init`` becomes a condition on the reduced axes. No code of Loomir takes
part. Loops run in order, so programs with parallel loops must give the same result in order.
"""

from __future__ import annotations

import ast
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np

__all__ = ["cast", "dtype_of", "float_like", "run_as_python"]

_BFLOAT16: Final = ml_dtypes.bfloat16
_FLOATS: Final = {
    "float16": np.float16,
    "float32": np.float32,
    "float64": np.float64,
    "bfloat16": _BFLOAT16,
}
_GARBAGE: Final = 77


def dtype_of(name: str) -> Any:
    """Return NumPy's dtype of a name."""
    return np.dtype(_BFLOAT16 if name == "bfloat16" else name)


def float_like(name: str) -> bool:
    """Whether a dtype is one of floats."""
    return name in _FLOATS


def run_as_python(text: str, entry: str, arguments: tuple[Any, ...]) -> None:
    """Run a function of a module's text on arrays, which it changes, and on numbers."""
    tree = _Rewriter().visit(ast.parse(text))
    ast.fix_missing_locations(tree)
    names: dict[str, Any] = {"T": _T, "np": np}
    with np.errstate(all="ignore"):
        exec(compile(tree, "<program>", "exec"), names)  # noqa: S102 - a generator wrote it
        names[entry](*arguments)


# -- conversions -------------------------------------------------------------------------------
def _to_integer(dtype: Any) -> Callable[[Any], Any]:
    info = np.iinfo(dtype)
    low, high, mask = int(info.min), int(info.max), (1 << info.bits) - 1
    half = -low

    def convert(value: Any) -> Any:
        if isinstance(value, (int, np.integer, np.bool_)):
            return dtype(((int(value) + half) & mask) - half)
        real = float(value)
        if real != real:
            return dtype(0)
        if math.isinf(real):
            return dtype(high if real > 0 else low)
        return dtype(min(max(int(real), low), high))

    return convert


def _sticky(value: int) -> float:
    """Round a whole number to odd, in 53 bits, so that one more rounding is the only one."""
    more = abs(value).bit_length() - 53
    if more <= 0:
        return float(value)
    kept = abs(value) >> more
    kept |= 1 if abs(value) & ((1 << more) - 1) else 0
    return math.copysign(math.ldexp(float(kept), more), value)


def _narrowed(real: float) -> Any:
    """Round to ``float32`` towards an odd last bit, so that one more rounding is the only one."""
    made = np.float32(real)
    if float(made) == real or not np.isfinite(made) or real != real:
        return made
    if abs(float(made)) > abs(real):
        made = np.nextafter(made, np.float32(0))
    return (made.view(np.uint32) | np.uint32(1)).view(np.float32)


def _to_float(name: str) -> Callable[[Any], Any]:
    kind = _FLOATS[name]

    def convert(value: Any) -> Any:
        if isinstance(value, (np.integer, np.bool_)):
            value = int(value)
        if name == "float64":
            return np.float64(value)
        real = _sticky(value) if isinstance(value, int) else float(value)
        return kind(_narrowed(real) if name == "bfloat16" else real)

    return convert


_CONVERT: Final[Mapping[str, Callable[[Any], Any]]] = {
    **{f"int{n}": _to_integer(getattr(np, f"int{n}")) for n in (8, 16, 32, 64)},
    **{f"uint{n}": _to_integer(getattr(np, f"uint{n}")) for n in (8, 16, 32, 64)},
    **{name: _to_float(name) for name in _FLOATS},
    "bool": lambda value: np.bool_(value != 0),
}


def cast(dtype: str, value: Any) -> Any:
    """Convert a number as programs do."""
    return _CONVERT[dtype](value)


# -- what programs call ------------------------------------------------------------------------
def _maximum(a: Any, b: Any) -> Any:
    if a != a:
        return a
    return b if b != b or b > a else a


def _minimum(a: Any, b: Any) -> Any:
    if a != a:
        return a
    return b if b != b or b < a else a


def _loop(*bounds: int, **_: Any) -> range:
    return range(*map(int, bounds))


def _grid(*extents: Any) -> Iterator[tuple[int, ...]]:
    spans = [e if isinstance(e, tuple) else (0, e) for e in extents]
    return itertools.product(*(range(int(low), int(high)) for low, high in spans))


def _divided(a: Any, b: Any) -> Any:
    if isinstance(a, (np.floating, _BFLOAT16)):
        return a / b
    quotient = abs(int(a)) // abs(int(b))
    value = quotient if (int(a) < 0) == (int(b) < 0) else -quotient
    return cast(a.dtype.name, value) if isinstance(a, np.generic) else value


def _remainder(a: Any, b: Any) -> Any:
    value = abs(int(a)) % abs(int(b))
    value = -value if int(a) < 0 else value
    return cast(a.dtype.name, value) if isinstance(a, np.generic) else value


def _shifted(left: bool) -> Callable[[Any, Any], Any]:
    def shift(a: Any, b: Any) -> Any:
        by = int(b) % (a.dtype.itemsize * 8)
        return cast(a.dtype.name, int(a) << by if left else int(a) >> by)

    return shift


def _function(of: Callable[[float], float]) -> Callable[[Any], Any]:
    def call(value: Any) -> Any:
        with np.errstate(all="ignore"):
            return cast(value.dtype.name, of(np.float64(value)))

    return call


def _leading_zeros(value: Any) -> Any:
    width = value.dtype.itemsize * 8
    bits = int(value) & (1 << width) - 1
    return np.int32(width - bits.bit_length())


def _scaled(x: Any, y: Any, q: int, s: int) -> Any:
    by = int(q) - int(s)
    product = int(x) * int(y)
    return cast("int32", (product + (1 << by >> 1)) >> by if by > 0 else product << -by)


def _allocated(shape: Any, dtype: str = "float32", **_: Any) -> Any:
    shape = tuple(int(n) for n in shape) if isinstance(shape, (tuple, list)) else (int(shape),)
    return np.full(shape, _GARBAGE, dtype_of(dtype))


def _declared(shape: Any, dtype: str, data: Any = None, elem_offset: int = 0, **_: Any) -> Any:
    size = math.prod(shape)
    elements = data.reshape(-1).view(dtype_of(dtype))
    return elements[elem_offset : elem_offset + size].reshape(shape)


def _viewed(region: Any, shape: Any, dtype: str = "", **_: Any) -> Any:
    made = np.asarray(region)
    view = made.view()
    view.shape = tuple(int(n) for n in shape)
    return view


class _T:
    """The names of ``T`` that programs use."""

    grid = staticmethod(_grid)
    serial = parallel = vectorized = unroll = staticmethod(_loop)
    max = staticmethod(_maximum)
    min = staticmethod(_minimum)
    Cast = cast = staticmethod(cast)
    div = truncdiv = Div = staticmethod(_divided)
    truncmod = staticmethod(_remainder)
    floordiv = staticmethod(lambda a, b: a // b)
    floormod = staticmethod(lambda a, b: a % b)
    shift_left = staticmethod(_shifted(True))
    shift_right = staticmethod(_shifted(False))
    Select = staticmethod(lambda c, a, b: a if c else b)
    alloc_buffer = staticmethod(_allocated)
    decl_buffer = staticmethod(_declared)
    view = staticmethod(_viewed)
    abs = staticmethod(abs)
    exp = staticmethod(_function(np.exp))
    exp2 = staticmethod(_function(np.exp2))
    log = staticmethod(_function(np.log))
    log1p = staticmethod(_function(np.log1p))
    atan = staticmethod(_function(np.arctan))
    tanh = staticmethod(_function(np.tanh))
    sqrt = staticmethod(_function(np.sqrt))
    sigmoid = staticmethod(_function(lambda x: 1 / (1 + np.exp(-x))))
    sin = staticmethod(_function(np.sin))
    cos = staticmethod(_function(np.cos))
    erf = staticmethod(_function(math.erf))
    floor = staticmethod(_function(np.floor))
    ceil = staticmethod(_function(np.ceil))
    trunc = staticmethod(_function(np.trunc))
    round = nearbyint = staticmethod(_function(np.rint))
    isinf = staticmethod(lambda x: np.bool_(abs(x) == math.inf))
    isfinite = staticmethod(lambda x: np.bool_(abs(x) < math.inf))
    copysign = staticmethod(lambda x, y: cast(x.dtype.name, math.copysign(float(x), float(y))))
    bitwise_and = staticmethod(lambda x, y: x & y)
    bitwise_or = staticmethod(lambda x, y: x | y)
    bitwise_xor = staticmethod(lambda x, y: x ^ y)
    bitwise_not = staticmethod(lambda x: ~x)
    reinterpret = staticmethod(lambda dtype, x: x.view(dtype_of(dtype)))
    clz = staticmethod(_leading_zeros)
    q_multiply_shift = staticmethod(_scaled)
    evaluate = staticmethod(lambda x: None)
    likely = staticmethod(lambda x: x)
    isnan = staticmethod(lambda x: np.bool_(x != x))
    popcount = staticmethod(
        lambda x: np.int32((int(x) & (1 << x.dtype.itemsize * 8) - 1).bit_count())
    )
    min_value = staticmethod(
        lambda d: (
            _FLOATS[d](ml_dtypes.finfo(dtype_of(d)).min)
            if d in _FLOATS
            else dtype_of(d).type(np.iinfo(d).min)
        )
    )
    max_value = staticmethod(
        lambda d: (
            _FLOATS[d](ml_dtypes.finfo(dtype_of(d)).max)
            if d in _FLOATS
            else dtype_of(d).type(np.iinfo(d).max)
        )
    )
    infinity = staticmethod(lambda d: _FLOATS[d](math.inf))


for _name, _convert in _CONVERT.items():
    setattr(_T, _name, staticmethod(_convert))


# -- what Python says in another way -----------------------------------------------------------
def _path(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, (ast.Attribute, ast.Name)) else ""


def _called(node: ast.AST | None) -> str:
    """Return what a node calls, as in ``T.block``."""
    return _path(node.func) if isinstance(node, ast.Call) else ""


_BLOCKS: Final = ("T.block", "T.sblock")
_SILENT: Final = ("T.reads", "T.writes", "T.func_attr", "T.block_attr", "T.sblock_attr", "T.assume")
_AXES: Final = ("T.axis.spatial", "T.axis.S", "T.axis.reduce", "T.axis.R")


class _Rewriter(ast.NodeTransformer):
    def __init__(self) -> None:
        self.reduced: list[list[ast.expr]] = []
        """For each block around, the conditions under which its ``init`` runs."""
        self.params: set[str] = set()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        return None

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        return [self.visit(part) for part in node.body]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.decorator_list = []
        self.params = {a.arg for a in node.args.args}
        head: list[ast.stmt] = []
        for arg in node.args.args:
            note, arg.annotation = arg.annotation, None
            if note is not None and _called(note) == "T.Buffer":
                assert isinstance(note, ast.Call)
                head += _bound(arg.arg, note.args[0])
        node.body = [*head, *self.statements(node.body)]
        return node

    def statements(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Rewrite statements; ``T.where`` takes those behind it."""
        made: list[ast.stmt] = []
        for at, stmt in enumerate(body):
            if isinstance(stmt, ast.Expr) and _called(stmt.value) == "T.where":
                assert isinstance(stmt.value, ast.Call)
                rest = self.statements(body[at + 1 :])
                made.append(ast.If(self.visit(stmt.value.args[0]), rest, []))
                break
            one = self.visit(stmt)
            made += one if isinstance(one, list) else [] if one is None else [one]
        return made or [ast.Pass()]

    def visit_For(self, node: ast.For) -> Any:
        node.iter = self.visit(node.iter)
        node.body = self.statements(node.body)
        return node

    def visit_While(self, node: ast.While) -> Any:
        node.test = self.visit(node.test)
        node.body = self.statements(node.body)
        return node

    def visit_If(self, node: ast.If) -> Any:
        node.test = self.visit(node.test)
        node.body = self.statements(node.body)
        node.orelse = self.statements(node.orelse) if node.orelse else []
        return node

    def visit_With(self, node: ast.With) -> Any:
        called = _called(node.items[0].context_expr)
        if called == "T.init":
            tests = self.reduced[-1]
            test = ast.BoolOp(ast.And(), list(tests)) if len(tests) > 1 else None
            first_test: ast.expr = tests[0] if tests else ast.Constant(True)
            return ast.If(test or first_test, self.statements(node.body), [])
        assert called in _BLOCKS, called
        self.reduced.append([])
        made = self.statements(node.body)
        self.reduced.pop()
        return made

    def visit_Expr(self, node: ast.Expr) -> Any:
        if _called(node.value) in _SILENT:
            return None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return None
        value = self.visit(node.value)
        kind = ast.unparse(node.annotation)
        if kind.startswith("T.") and kind[2:] in _CONVERT:
            value = ast.Call(node.annotation, [value], [])
        return ast.Assign([node.target], value)

    def visit_Assign(self, node: ast.Assign) -> Any:
        value, called = node.value, _called(node.value)
        if isinstance(value, ast.Call):
            if called.startswith("T.") and called[2:] in _CONVERT and not value.args:
                return None
            if called == "T.match_buffer":
                return self.matched(node, value)
            if called == "T.axis.remap":
                kinds, values = value.args
                assert isinstance(kinds, ast.Constant)
                targets = node.targets[0]
                names = targets.elts if isinstance(targets, ast.Tuple) else [targets]
                for kind, name in zip(str(kinds.value), names, strict=True):
                    if kind == "R":
                        self.starts(name, ast.Constant(0))
                assert isinstance(values, ast.List)
                many = ast.Tuple([self.visit(v) for v in values.elts], ast.Load())
                node.value = many if len(names) > 1 else many.elts[0]
                return node
            if called in _AXES:
                domain = value.args[0]
                if called in ("T.axis.reduce", "T.axis.R"):
                    is_span = isinstance(domain, ast.Tuple)
                    self.starts(node.targets[0], domain.elts[0] if is_span else ast.Constant(0))
                node.value = self.visit(value.args[1])
                return node
        return self.generic_visit(node)

    def matched(self, node: ast.Assign, value: ast.Call) -> Any:
        """Rewrite a ``match_buffer`` of a parameter, or of a region."""
        of = value.args[0]
        target = node.targets[0]
        assert isinstance(target, ast.Name)
        if isinstance(of, ast.Name) and of.id in self.params:
            return [ast.Assign([target], of), *_bound(of.id, value.args[1])]
        viewed = ast.Attribute(ast.Name("T", ast.Load()), "view", ast.Load())
        return ast.Assign([target], ast.Call(viewed, [self.visit(a) for a in value.args], []))

    def starts(self, name: ast.expr, begin: ast.expr) -> None:
        """Note that an axis is reduced, and where it begins."""
        assert isinstance(name, ast.Name)
        load = ast.Name(name.id, ast.Load())
        self.reduced[-1].append(ast.Compare(load, [ast.Eq()], [begin]))

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id in ("cls", "Module"):
            return ast.Name(node.attr, ast.Load())
        if node.attr == "data":
            return self.visit(node.value)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        if _called(node) == "T.if_then_else":
            test, one, other = (self.visit(a) for a in node.args)
            return ast.IfExp(test, one, other)
        return self.generic_visit(node)


def _bound(name: str, shape: ast.expr) -> list[ast.stmt]:
    """Bind the names that are extents by themselves."""
    made: list[ast.stmt] = []
    for at, extent in enumerate(shape.elts if isinstance(shape, ast.Tuple) else [shape]):
        free = extent.id if isinstance(extent, ast.Name) else getattr(extent, "value", None)
        if isinstance(free, str):
            made += ast.parse(f"{free} = {name}.shape[{at}]").body
    return made
