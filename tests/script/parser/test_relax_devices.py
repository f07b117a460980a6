"""Devices by the names under which a module lists them."""

from __future__ import annotations

import pytest

import loomir
from loomir import relax
from loomir.ir import assert_structural_equal
from loomir.ir.module import VDevice
from loomir.script import from_source
from tests.clause import clauses

TEXT = """
@I.ir_module
class Module:
    I.module_global_infos({
        "vdevice": [I.vdevice("llvm", 5), I.vdevice("cuda", 1), I.vdevice("llvm", 7, "ddr")]
    })

    @R.function
    def main(x: R.Tensor((4,), "float32", vdevice="llvm:0")) -> R.Tensor((4,), "float32"):
        y = R.to_vdevice(x, "{}")
        z = R.to_vdevice(y, dst_vdevice="llvm:0")
        return z
"""


@clauses("RX-GRAM-26")
def test_operators_take_the_devices_of_the_module() -> None:
    program = from_source(TEXT.replace("{}", "llvm:1"))
    func = program["main"]
    first, second = (b for block in func.body.blocks for b in block.bindings)
    assert_structural_equal(func.params[0].struct_info.vdevice, VDevice("llvm", 5))
    assert_structural_equal(first.var.struct_info.vdevice, VDevice("llvm", 7, "ddr"))
    assert_structural_equal(second.var.struct_info.vdevice, VDevice("llvm", 5))
    assert isinstance(func, relax.Function)
    assert loomir.verify(program) == ()


@pytest.mark.parametrize("name", ["llvm:2", "cuda:1", "rocm:0", "vdevice:x"])
def test_a_device_that_the_module_does_not_list_is_refused(name: str) -> None:
    with pytest.raises(loomir.CompileError) as caught:
        from_source(TEXT.replace("{}", name))
    (found,) = caught.value.diagnostics
    assert found.code == "SCR0034"
    assert found.span is not None
    assert found.span.line == 10
