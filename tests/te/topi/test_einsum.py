"""Sums of products by subscripts: the order of pairs, and that the result stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loomir import te
from loomir.te import topi
from tests.te.topi.running import check


def values(shape: Any, dtype: str = "float32"):
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(dtype)


def products(text: str, *shapes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the shapes of the products that come before the last one."""
    made = topi.einsum(text, *(te.placeholder(s) for s in shapes))
    found: list[tuple[int, ...]] = []
    left = list(made.op.inputs())
    while left:
        x = left.pop()
        if x.op.inputs():
            found.append(tuple(int(str(e)) for e in x.shape))
            left += x.op.inputs()
    return found


def test_order():
    """A chain of matrices starts where they are thin; what nothing is summed in stays together."""
    assert products("ij,jk,kl->il", (50, 50), (50, 50), (50, 2)) == [(50, 2)]
    assert products("ij,jk,kl->il", (2, 50), (50, 50), (50, 50)) == [(2, 50)]
    assert sorted(products("ij,jk,kl,lm->im", *[(20, 20)] * 4)) == [(20, 20)] * 2
    assert products("ij,kl->i", (9, 10), (11, 12)) == [(), (9,)]
    assert products("ij,j,i->ij", (9, 10), (10,), (9,)) == []
    assert products("i,i,i->", (99,), (99,), (99,)) == []
    assert products("ij,jk->ik", (9, 10), (10, 11)) == []
    assert products("ij,jk,kl->il", (5, 0), (0, 5), (5, 5)) == []
    # The product of the thin ones would not fit: 2 ** 26 elements, of tensors of 2 ** 15.
    assert (8192, 8192) not in products("ai,bi,ab,ab->", (8192, 4), (8192, 4), (8192, 1), (1, 8192))


CASES = [
    ("ij,jk,kl->il", [(3, 17), (17, 16), (16, 5)]), ("bi,ijk,bk->bj", [(4, 5), (5, 7, 6), (4, 6)]),
    ("ij,kl->i", [(3, 4), (5, 6)]), ("ij,kl", [(3, 4), (5, 6)]), ("ii,ij,jj->j", [(7, 7)] * 3),
    ("ij,jk,kl->il", [(5, 1), (9, 8), (1, 7)]), ("ij,jk,kl->il", [(3, 4), (4, 1), (6, 5)]),
    ("ab,bc,cd,de,ea->", [(3, 5), (5, 4), (4, 3), (3, 6), (6, 3)]),
    ("a,b,c,d,->cb", [(6,), (7,), (5,), (4,), ()]), ("aab,b,ca->c", [(5, 5, 6), (6,), (7, 5)]),
    ("ab,bc,cd,de,ef,fg,gh,hi,ij->aj", [(3, 3)] * 9), ("ij,jk,kl->il", [(3, 0), (0, 16), (16, 5)]),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(("text", "shapes"), CASES)
def test_results(text: str, shapes: list[tuple[int, ...]], dtype: str):
    """Integers wrap in any order; a row that is as far as 9 products go is exact in float32."""
    arrays = [values(s, dtype) for s in shapes]
    expected = np.einsum(text, *(a.astype("int64") for a in arrays)).astype(dtype)
    check(arrays, [(lambda *t: topi.einsum(text, *t), expected)], slack=1e-4, arranged=True)
    if dtype == "float32":
        check(arrays, [(lambda *t: topi.einsum(text, *t), expected)], symbolic=True)


def test_short_floats_are_rounded_once():
    a, b = np.full((3, 500), 0.3, "float16"), np.full((500, 500), 0.01, "float16")
    wide = a.astype("float64") @ b.astype("float64") @ b.astype("float64")
    check([a, b], [(lambda x, y: topi.einsum("ij,jk,kl->il", x, y, y), wide.astype("float16"))])
