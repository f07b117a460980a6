"""Single-instruction idioms at every length, so that no length is left to chance.

A seed is a kind of idiom and a length: seeds below ``len(KINDS) * 200`` enumerate all kinds with 1
to 200 elements, and each part of these seeds covers all lengths. Kinds are sums of products and of
distances, averages, saturating conversions, population counts, rotations, high halves of products,
and matrix products whose rows, columns and depths leave remainders of every tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from fuzz.families.cases import Case
from loomir.ir.module import IRModule
from loomir.script import from_source

__all__ = ["KINDS", "Kind", "draw"]


class Kind(NamedTuple):
    """An idiom: the dtypes of its operands ``a`` and ``b``, of its result, and what it computes."""

    name: str
    dtypes: tuple[str, str]
    result: str
    text: str
    meaning: Callable[[Any, Any], Any]
    form: str = "sum"
    """``sum`` over elements, ``each`` of them, ``rows`` by a vector, ``matrices``, or ``tiles``:
    matrices in a block, from 16 rows, columns and steps on."""


_LONGEST: Final = 200
_STEP: Final = 37
_BYTES: Final = ("int8", "uint8")


def _products() -> list[Kind]:
    made: list[Kind] = []
    pairs = [(a, b, "int32") for a in _BYTES for b in _BYTES]
    pairs += [("uint8", "uint8", "uint32"), ("int16", "int16", "int32")]
    pairs += [("uint8", "int16", "int32"), ("int16", "uint16", "int32")]
    pairs += [("int16", "int16", "int64"), ("int32", "int32", "int64")]
    pairs += [("bfloat16", "bfloat16", "float32"), ("float16", "float16", "float32")]
    for form in ("sum", "rows", "matrices", "tiles"):
        for a, b, to in pairs:
            if form == "tiles" and a not in (*_BYTES, "bfloat16"):
                continue
            text = f'T.Cast("{to}", {{a}}) * T.Cast("{to}", {{b}})'
            made.append(Kind(f"product {a} {b} {to}", (a, b), to, text, lambda x, y: x * y, form))
    return made


def _distances() -> list[Kind]:
    made: list[Kind] = []
    for dtype in ("int8", "uint8", "int16", "uint16"):
        wide = '(T.Cast("int32", {a}) - T.Cast("int32", {b}))'
        narrow = 'T.Cast("int32", T.max({a}, {b}) - T.min({a}, {b}))'
        pair = (dtype, dtype)
        absolute = f"T.abs({wide})"
        made += [
            Kind(f"distance {dtype}", pair, "int32", absolute, lambda x, y: abs(x - y)),
            Kind(
                f"narrow distance {dtype}",
                pair,
                "int32",
                narrow,
                lambda x, y, d=dtype: abs(x - y).astype(d).astype("int64"),
            ),
            Kind(f"square {dtype}", pair, "int32", f"{wide} * {wide}", lambda x, y: (x - y) ** 2),
            Kind(f"sum {dtype}", pair, "int32", 'T.Cast("int32", {a})', lambda x, _: x),
        ]
    return made


def _average(dtype: str, rounds: int) -> Kind:
    wide = "uint32" if dtype == "uint16" else "uint16"
    more = f" + T.{wide}(1)" * rounds
    total = f'T.Cast("{wide}", {{a}}) + T.Cast("{wide}", {{b}}){more}'
    text = f'T.Cast("{dtype}", T.shift_right({total}, T.{wide}(1)))'
    how = "rounded average" if rounds else "average"
    return Kind(
        f"{how} {dtype}", (dtype, dtype), dtype, text, lambda x, y: (x + y + rounds) >> 1, "each"
    )


def _saturating(dtype: str, to: str) -> Kind:
    info = np.iinfo(to)
    low, high = int(info.min), int(info.max)
    if dtype.startswith("uint"):
        low = 0
    text = f'T.Cast("{to}", T.max(T.min({{a}}, T.{dtype}({high})), T.{dtype}({low})))'
    return Kind(
        f"saturate {dtype} {to}",
        (dtype, dtype),
        to,
        text,
        lambda x, _: np.clip(np.trunc(x), low, high).astype(to),
        "each",
    )


def _saturating_sum(dtype: str, operator: str) -> Kind:
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    text = (
        f'T.Cast("{dtype}", T.max(T.min(T.Cast("int32", {{a}}) {operator} T.Cast("int32", {{b}}), '
        f"{high}), {low}))"
    )
    return Kind(
        f"saturating {operator} {dtype}",
        (dtype, dtype),
        dtype,
        text,
        lambda x, y: np.clip(x + y if operator == "+" else x - y, low, high),
        "each",
    )


def _bits(dtype: str) -> list[Kind]:
    size = np.dtype(dtype).itemsize * 8
    pair = (dtype, dtype)
    mask = (1 << size) - 1

    def by_one(count: Callable[[int], int]) -> Callable[[Any, Any], Any]:
        return lambda x, _: np.array([count(int(v) & mask) for v in x], object)

    def rotated(value: int) -> int:
        return (value << 3 | value >> (size - 3)) & mask

    made = [
        Kind(f"{name} {dtype}", pair, "int32", f'T.Cast("int32", T.{of}({{a}}))', meaning, "each")
        for name, of, meaning in (
            ("ones", "popcount", by_one(int.bit_count)),
            ("zeros", "clz", by_one(lambda v: size - v.bit_length())),
        )
    ]
    made += [kind._replace(form="sum") for kind in made]
    if dtype.startswith("uint"):
        rotate = (
            f"T.bitwise_or(T.shift_left({{a}}, T.{dtype}(3)), "
            f"T.shift_right({{a}}, T.{dtype}({size - 3})))"
        )
        made.append(Kind(f"rotated {dtype}", pair, dtype, rotate, by_one(rotated), "each"))
    return made


def _high(dtype: str) -> Kind:
    wide = "int32" if dtype == "int16" else "uint32"
    text = (
        f'T.Cast("{dtype}", T.shift_right(T.Cast("{wide}", {{a}}) * T.Cast("{wide}", {{b}}), '
        f"T.{wide}(16)))"
    )
    return Kind(f"high {dtype}", (dtype, dtype), dtype, text, lambda x, y: (x * y) >> 16, "each")


KINDS: Final = (
    *_products(),
    *_distances(),
    *(_average(dtype, rounds) for dtype in ("uint8", "uint16") for rounds in (0, 1)),
    *(
        _saturating(dtype, to)
        for dtype, targets in (
            ("int16", ("int8", "uint8")),
            ("uint16", ("int8", "uint8")),
            ("int32", ("int8", "uint8", "int16", "uint16")),
            ("int64", ("int8", "uint8", "int16", "uint16", "int32")),
            ("float32", ("int8", "uint8", "int16", "uint16")),
        )
        for to in targets
    ),
    *(_saturating_sum(dtype, sign) for dtype in (*_BYTES, "int16", "uint16") for sign in "+-"),
    *(kind for size in (8, 16, 32, 64) for of in ("int", "uint") for kind in _bits(f"{of}{size}")),
    _high("int16"),
    _high("uint16"),
)


def draw(seed: int) -> Case:
    """Return the case of a seed; after all lengths they repeat, with other elements."""
    kind, length = KINDS[seed % len(KINDS)], seed // len(KINDS) * _STEP % _LONGEST + 1
    random = np.random.default_rng(seed)
    shapes, text = _SHAPES[kind.form](kind, length)
    a, b = (_elements(random, dtype, shape) for dtype, shape in zip(kind.dtypes, shapes[:2]))
    out = _elements(random, kind.result, shapes[2])
    expected = _EXPECTED[kind.form](kind, _exact(a), _exact(b), _exact(out))
    module = from_source(_program(kind, shapes, text))
    assert isinstance(module, IRModule)
    wanted = (None, None, _as(expected, kind.result))
    return Case("lengths", seed, module, "main", (a, b, out), (a, b, wanted[2]))


def _elements(random: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    if dtype in ("float16", "bfloat16", "float32"):
        most = 9 if dtype != "float32" else 100_000
        numbers = random.integers(-most, most, shape)
        return numbers.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    info = np.iinfo(dtype)
    made = random.integers(info.min, info.max, shape, dtype, endpoint=True)
    # Ends of the range meet each other often, and small numbers are there too.
    ends = np.array([info.min, info.max, 0, 1, info.max // 2 + 1], dtype)
    made = np.where(random.random(shape) < 0.4, random.choice(ends, shape), made)
    small = random.integers(-200, 200, shape).astype(dtype)
    return np.where(random.random(shape) < 0.2, small, made)


def _exact(array: Any) -> Any:
    """Return numbers that neither round nor wrap."""
    if array.dtype.kind in "iu":
        return array.astype(object) if array.itemsize == 8 else array.astype("int64")
    return array.astype("float64")


def _as(array: Any, dtype: str) -> Any:
    if dtype.startswith("float"):
        return np.asarray(array).astype(dtype)
    size = np.iinfo(dtype).bits
    flat = [int(v) & ((1 << size) - 1) for v in np.asarray(array).ravel()]
    return np.array(flat, f"uint{size}").view(dtype).reshape(np.shape(array))


# -- forms -------------------------------------------------------------------------------------
def _sum(kind: Kind, n: int) -> tuple[list[tuple[int, ...]], str]:
    body = kind.text.format(a="a[i]", b="b[i]")
    return [(n,), (n,), (1,)], f"for i in range({n}):\n            c[0] = c[0] + {body}"


def _each(kind: Kind, n: int) -> tuple[list[tuple[int, ...]], str]:
    body = kind.text.format(a="a[i]", b="b[i]")
    return [(n,), (n,), (n,)], f"for i in range({n}):\n            c[i] = {body}"


def _rows(kind: Kind, n: int) -> tuple[list[tuple[int, ...]], str]:
    m = 1 + n * 5 % 11
    body = kind.text.format(a="a[i, k]", b="b[k]")
    loop = f"for i, k in T.grid({m}, {n}):\n            c[i] = c[i] + {body}"
    return [(m, n), (n,), (m,)], loop


def _matrices(kind: Kind, n: int) -> tuple[list[tuple[int, ...]], str]:
    # Not all lengths at once, but all of each, and few that are large together.
    rows, columns, depth = 1 + n * 7 % 37, 1 + n * 11 % 53, n
    body = kind.text.format(a="a[i, k]", b="b[k, j]")
    loop = (
        f"for i, j, k in T.grid({rows}, {columns}, {depth}):\n"
        f"            c[i, j] = c[i, j] + {body}"
    )
    return [(rows, depth), (depth, columns), (rows, columns)], loop


def _tiles(kind: Kind, n: int) -> tuple[list[tuple[int, ...]], str]:
    rows, columns, depth = 16 + n * 7 % 37, 16 + n * 11 % 53, 15 + n
    body = kind.text.format(a="a[i, k]", b="b[k, j]")
    loop = f"""for i0, j0, k0 in T.grid({rows}, {columns}, {depth}):
            with T.sblock("c"):
                i, j, k = T.axis.remap("SSR", [i0, j0, k0])
                with T.init():
                    c[i, j] = T.Cast("{kind.result}", 0)
                c[i, j] = c[i, j] + {body}"""
    return [(rows, depth), (depth, columns), (rows, columns)], loop


_SHAPES: Final = {"sum": _sum, "each": _each, "rows": _rows, "matrices": _matrices, "tiles": _tiles}
_EXPECTED: Final[dict[str, Callable[[Kind, Any, Any, Any], Any]]] = {
    "sum": lambda kind, a, b, c: c + [kind.meaning(a, b).sum()],
    "each": lambda kind, a, b, _: kind.meaning(a, b),
    "rows": lambda kind, a, b, c: c + a @ b,
    "matrices": lambda kind, a, b, c: c + a @ b,
    "tiles": lambda kind, a, b, c: a @ b,
}


def _program(kind: Kind, shapes: list[tuple[int, ...]], text: str) -> str:
    dtypes = (*kind.dtypes, kind.result)
    buffers = ", ".join(
        f'{name}: T.Buffer({shape}, "{dtype}")' for name, shape, dtype in zip("abc", shapes, dtypes)
    )
    return f"""
from loomir.script import ir as I, tir as T

@I.ir_module
class Module:
    @T.prim_func
    def main({buffers}):
        {text}
"""
