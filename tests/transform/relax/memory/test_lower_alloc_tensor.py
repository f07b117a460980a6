"""Allocations become storage with a tensor in it, and what is allocated is given back."""

from __future__ import annotations

from loomir.ir.equality import assert_structural_equal
from tests.transform.relax.modules import applied, module
from tests.transform.relax.test_lowering import random

KERNEL = """
    @T.prim_func(private=True)
    def twice(a: T.handle, b: T.handle):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = A[i] * T.float32(2)
    @R.function
    def main(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        R.func_attr({"relax.force_pure": True})
        n = T.int64()
"""
TEXT = (
    KERNEL
    + """
        a = R.builtin.alloc_tensor(R.shape([n]), "float32", 0)
        _ = cls.twice(x, a)
        b = R.builtin.alloc_tensor(R.shape([n]), "float32", 0)
        _1 = cls.twice(a, b)
        return b
"""
)
LOWERED = (
    KERNEL
    + """
        s = R.memory.alloc_storage(R.shape([n * 4]), 0, "global", "uint8")
        a = R.memory.alloc_tensor(s, R.prim_value(0), R.shape([n]), "float32")
        _ = cls.twice(x, a)
        t = R.memory.alloc_storage(R.shape([n * 4]), 0, "global", "uint8")
        b = R.memory.alloc_tensor(t, R.prim_value(0), R.shape([n]), "float32")
        _1 = cls.twice(a, b)
        return b
"""
)
KILLED = LOWERED.replace(
    "        return b",
    "        _2 = R.memory.kill_tensor(a)\n        _3 = R.memory.kill_storage(s)\n        return b",
)


def test_a_tensor_gets_a_storage():
    made = applied("LowerAllocTensor", module(TEXT), random(3))
    assert_structural_equal(made, module(LOWERED.replace("n * 4", "4 * n")))


def test_what_is_used_last_is_given_back():
    made = applied("KillAfterLastUse", module(LOWERED), random(3))
    assert_structural_equal(made, module(KILLED))


def test_what_may_be_kept_is_not_given_back():
    for old, new in [
        ("return b", "return (a, b)"),
        ("return b", 'f = R.call_pure_packed("k", a, sinfo_args=R.Any)\n        return b'),
    ]:
        mod = module(
            LOWERED.replace(old, new).replace('-> R.Tensor(("n",), "float32")', "-> R.Any")
        )
        assert applied("KillAfterLastUse", mod) is mod


def test_what_is_lowered_stays():
    mod = module(KILLED)
    assert applied("LowerAllocTensor", mod) is mod
    assert applied("KillAfterLastUse", mod, random(2)) is mod
