"""Windows that turn out to be larger than an image of symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest

import loomir
from loomir.ir.module import IRModule
from loomir.script import from_source
from loomir.support.diagnostics import RunError
from loomir.transform.pipelines import lower_relax

_WINDOW = "a window of {} does not fit an axis of {}, padding included"
_CUT = "padding cuts more than there is, and leaves an extent of -1"
_CONV = 'R.nn.conv2d(R.add(x, x), R.ones((4, 2, 3, 3), "float32"))'
_CASES: dict[str, tuple[str, str, str, tuple[int, ...]]] = {
    "even": ("R.nn.max_pool2d(x, pool_size=[3, 3])", "hw", _WINDOW.format(3, 2), (4, 2)),
    "steps": (
        "R.nn.max_pool2d(x, pool_size=[3, 3], strides=[2, 2], ceil_mode=True)",
        "hw",
        _WINDOW.format(3, 2),
        (2, 4),
    ),
    "padded": ("R.nn.avg_pool1d(x, pool_size=[5], padding=[1])", "w", _WINDOW.format(5, 3), (1,)),
    "deep": ("R.nn.max_pool3d(x, pool_size=[2])", "dhw", _WINDOW.format(2, 1), (3, 1, 3)),
    "conv": (_CONV, "hw", _WINDOW.format(3, 1), (1, 4)),
    "gaps": (
        'R.nn.conv1d(x, R.ones((4, 2, 3), "float32"), dilation=[2])',
        "w",
        _WINDOW.format(5, 4),
        (4,),
    ),
    "fused": (
        f"R.nn.max_pool2d(R.nn.relu({_CONV}), pool_size=[2, 2])",
        "hw",
        _WINDOW.format(2, 1),
        (3, 3),
    ),
    "cut": (
        'R.nn.conv2d_transpose(x, R.ones((2, 4, 1, 1), "float32"), padding=[1, 1, 1, 1])',
        "hw",
        _CUT,
        (1, 3),
    ),
    "average": (
        "R.nn.adaptive_avg_pool2d(x, output_size=[2, 2])",
        "hw",
        "axis 'H' has no element to average",
        (0, 2),
    ),
    "resize": (
        "R.image.resize2d(x, (4, 4))",
        "hw",
        "images of no elements are not resized",
        (0, 2),
    ),
}


def _program(call: str, sizes: str) -> IRModule:
    extents = ", ".join(f'"{size}"' for size in sizes)
    text = f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1, 2, {extents}), "float32")):
        with R.dataflow():
            y = {call}
            R.output(y)
        return y
"""
    made = from_source(text)
    assert isinstance(made, IRModule)
    return made


@pytest.mark.parametrize("case", sorted(_CASES))
def test_both_refuse_images_that_are_too_small(case: str):
    call, sizes, message, small = _CASES[case]
    mod = _program(call, sizes)
    run = loomir.compile(mod, opt_level=1 if case == "fused" else 0)["main"]
    images = np.ones((1, 2, *small), "float32")
    for attempt in (run, lambda x: loomir.interpret(mod, "main", x)):
        with pytest.raises(RunError) as refused:
            attempt(images)
        (found,) = refused.value.diagnostics
        assert found.code == "RUN0212"
        assert found.message.endswith(message)
        assert found.help
        assert found.span is not None
    large = np.random.default_rng(1).random((1, 2, *[7 for _ in sizes]), "float32")
    np.testing.assert_allclose(run(large), loomir.interpret(mod, "main", large), rtol=1e-5)


def test_winograd_refuses_them_too():
    call = 'R.nn.conv2d(x, R.ones((32, 2, 3, 3), "float32"))'
    run = loomir.compile(_program(call, "hw"), winograd=True)["main"]
    with pytest.raises(RunError, match="a window of 3 does not fit an axis of 2"):
        run(np.ones((1, 2, 2, 9), "float32"))


def test_sizes_that_surely_fit_are_not_checked():
    mod = _program("R.nn.max_pool2d(R.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1]), [2, 2])", "hw")
    assert "require_order" not in lower_relax(mod).script()
    assert "require_order" in lower_relax(_program("R.nn.max_pool2d(x, [2, 2])", "hw")).script()
