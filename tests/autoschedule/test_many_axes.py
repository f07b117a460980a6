"""Nests of more axes than anybody writes are scheduled without running out of the stack."""

from __future__ import annotations

import loomir
from loomir.script import from_source


def test_five_hundred_axes_of_one_element():
    shape = ", ".join(["1"] * 500)
    names = ", ".join(f"i{k}" for k in range(500))
    own = ", ".join(f"v{k}" for k in range(500))
    func = from_source(f"""
from loomir.script import tir as T
@T.prim_func
def main(A: T.Buffer(({shape},), "float32"), B: T.Buffer(({shape},), "float32")):
    for {names} in T.grid({shape}):
        with T.sblock("b"):
            {own} = T.axis.remap("{"S" * 500}", [{names}])
            B[{own}] = A[{own}] + T.float32(1)
""")
    assert "fadd" in loomir.compile(func, "x86-64-v3").llvm_ir()
