"""Convolutions and what takes their results are computed in the layout that is wanted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from loomir import relax
from loomir.ir.equality import assert_structural_equal
from loomir.ir.passes import PASSES, apply
from loomir.transform.relax.layout.convert_layout import ConvertLayoutOptions
from tests.transform.relax.modules import module
from tests.transform.relax.test_lowering import flat, random

SIGNATURE = """
    @R.function
    def main(x: R.Tensor(("n", 4, 6, 5), "float32"), w: R.Tensor((4, 4, 3, 3), "float32"), b: R.Tensor((4, 1, 1), "float32"), s: R.Tensor((4,), "float32")):
        n = T.int64()
        with R.dataflow():
"""
ARGS = random(2, 4, 6, 5), random(4, 4, 3, 3), random(4, 1, 1), np.abs(random(4)) + 1
NHWC = {"relax.nn.conv2d": ["NHWC", "OHWI"]}
BLOCKS = {"relax.nn.conv2d": ["NCHW2c", "OIHW4i2o"]}


def text(*lines: str) -> str:
    body = "".join(f"            {line}\n" for line in lines)
    return SIGNATURE + body + "            R.output(o)\n        return o\n"


def converted(mod: loomir.relax.IRModule, layouts: Any, args: Any = ARGS) -> loomir.relax.IRModule:
    """Apply the pass and interpret before and after; sums may add up in another order."""
    made = apply(PASSES["relax.ConvertLayout"], mod, ConvertLayoutOptions(layouts))
    assert [d for d in loomir.verify(made) if d.severity == "error"] == []
    assert relax.normalize(made) is made
    wanted = flat(loomir.interpret(mod, "main", *args))
    found = flat(loomir.interpret(made, "main", *args))
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)
    return made


def test_the_layout_goes_on_to_the_end():
    mod = module(
        text(
            "c = R.nn.conv2d(x, w, padding=1)",
            "d = R.add(c, b)",
            "e = R.nn.relu(d)",
            "f = R.nn.conv2d(e, w, strides=2)",
            "g = R.nn.max_pool2d(f, pool_size=2)",
            "o = R.multiply(g, R.const(2.0))",
        )
    )
    expected = module(
        text(
            "xl = R.permute_dims(x, axes=[0, 2, 3, 1])",
            "wl = R.permute_dims(w, axes=[0, 2, 3, 1])",
            'c = R.nn.conv2d(xl, wl, padding=1, data_layout="NHWC", kernel_layout="OHWI", out_layout="NHWC")',
            "b4 = R.expand_dims(b, axis=[0])",
            "bl = R.permute_dims(b4, axes=[0, 2, 3, 1])",
            "d = R.add(c, bl)",
            "e = R.nn.relu(d)",
            'f = R.nn.conv2d(e, wl, strides=2, data_layout="NHWC", kernel_layout="OHWI", out_layout="NHWC")',
            'g = R.nn.max_pool2d(f, pool_size=2, layout="NHWC", out_layout="NHWC")',
            "ol = R.multiply(g, R.const(2.0))",
            "o = R.permute_dims(ol, axes=[0, 3, 1, 2])",
        )
    )
    made = converted(mod, NHWC)
    assert_structural_equal(made, expected)
    assert_structural_equal(converted(made, NHWC), made)
    fast = loomir.compile(made, opt_level=0)["main"](*ARGS)
    np.testing.assert_allclose(fast, loomir.interpret(mod, "main", *ARGS), rtol=1e-5, atol=1e-5)


def test_blocks_of_channels():
    mod = module(text("c = R.nn.conv2d(x, w)", "d = R.nn.relu(c)", "o = R.nn.conv2d(d, w)"))
    expected = module(
        text(
            'xl = R.layout_transform(x, index_map="lambda i0, i1, i2, i3: (i0, i1 // 2, i2, i3, i1 % 2)")',
            'wl = R.layout_transform(w, index_map="lambda i0, i1, i2, i3: (i0 // 2, i1 // 4, i2, i3, i1 % 4, i0 % 2)")',
            'c = R.nn.conv2d(xl, wl, data_layout="NCHW2c", kernel_layout="OIHW4i2o", out_layout="NCHW2c")',
            "d = R.nn.relu(c)",
            'e = R.nn.conv2d(d, wl, data_layout="NCHW2c", kernel_layout="OIHW4i2o", out_layout="NCHW2c")',
            'o = R.layout_transform(e, index_map="lambda i0, i1, i2, i3, i4: (i0, i1 * 2 + i4, i2, i3)")',
        )
    )
    assert_structural_equal(converted(mod, BLOCKS), expected)


FOLLOWERS = [
    (["o = R.mean(c, axis=[2, 3])"], 0),
    (["o = R.sum(c, axis=[-1], keepdims=True)"], 1),
    (["o = R.max(c)"], 0),
    (["o = R.concat((c, R.negative(c)), axis=1)"], 1),
    (["p = R.split(c, 2, axis=1)", "o = R.add(p[1], p[0])"], 1),
    (["p = R.split(c, [1], axis=-1)", "o = (p, p[1])"], 3),
    (["o = R.nn.pad(c, pad_width=[0, 0, 1, 2, 0, 1, 0, 0])"], 1),
    (["o = R.nn.softmax(c, axis=1)"], 1),
    (["p = R.nn.batch_norm(c, s, s, s, s, axis=1, training=False)", "o = p[0]"], 1),
    (["p = R.nn.batch_norm(c, s, s, s, s, axis=1, training=True)", "o = p"], 1),
    (["o = R.nn.group_norm(c, s, s, num_groups=2, channel_axis=1, axes=[2, 3])"], 1),
    (["o = R.nn.layer_norm(c, s, s, axes=[1])"], 1),
    (["o = R.permute_dims(c, axes=[0, 2, 3, 1])"], 1),
    (["p = R.permute_dims(c, axes=[0, 2, 3, 1])", "o = R.add(p, s)"], 0),
    (["p = R.nn.adaptive_avg_pool2d(c, 1)", "o = R.squeeze(p, axis=[2, 3])"], 0),
    (["o = R.nn.avg_pool2d(c, pool_size=[2, 1], strides=[1, 2])"], 1),
    (["o = R.image.resize2d(c, (3, 7))"], 1),
    (["o = R.where(R.greater(c, R.const(0.0)), c, b)"], 1),
    (["o = R.clip(R.astype(c, \"float64\"), 0, 1)"], 1),
    (["p = R.nn.dropout(c, 0.0)", "o = R.add(p[0], p[1])"], 1),
    (["o = R.reshape(c, (n, 48))"], 1),
    (["o = R.cumsum(R.nn.prelu(c, s), axis=1)"], 1),
    (["o = (c, R.exp(c))"], 2),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "moves"), FOLLOWERS, ids=lambda v: str(v)[:60])
def test_what_follows_a_convolution(lines: list[str], moves: int):
    """``moves``: how many results must be moved back; two more move the images and the kernel."""
    mod = module(text("c = R.nn.conv2d(x, w)", *lines))
    made = converted(mod, NHWC)
    tail = made.script().split("R.nn.conv2d")[1]
    tail = "\n".join(x for x in tail.splitlines() if "expand" not in x and "(b, " not in x)
    assert tail.count("permute_dims(") - ("expand_dims" in made.script()) == moves
    converted(mod, BLOCKS)
    assert_structural_equal(relax.normalize(made), made)


@pytest.mark.parametrize(
    ("before", "layouts", "shapes"),
    [
        ("R.nn.conv1d(x, w, strides=2)", {"relax.nn.conv1d": ["NWC", "WIO"]}, [(2, 3, 6), (4, 3, 2)]),
        ("R.nn.conv3d(x, w, padding=1)", {"relax.nn.conv3d": ["NDHWC", "DHWIO", "NCDHW"]}, [(1, 2, 3, 4, 3), (2, 2, 1, 2, 2)]),
        ("R.nn.conv2d_transpose(x, w, strides=(2, 1))", {"relax.nn.conv2d_transpose": ["NHWC", "HWIO"]}, [(1, 3, 3, 2), (3, 2, 2, 3)]),
        ("R.nn.conv2d(x, w, groups=2, strides=(1, 2))", {"relax.nn.conv2d": ["CWHN", "WHOI"]}, [(2, 4, 5, 6), (2, 2, 2, 3)]),
        ('R.nn.conv2d(x, w, data_layout="NHWC", kernel_layout="HWIO", out_layout="NCHW")', {"relax.nn.conv2d": ["HWNC", "HWOI"]}, [(1, 5, 4, 2), (2, 3, 2, 3)]),
        ("R.add(R.nn.avg_pool2d(x, (2, 1), strides=(1, 2)), R.sum(w))", {"relax.nn.avg_pool2d": ["WHCN"]}, [(2, 4, 5, 6), (2,)]),
        ("R.nn.relu(R.nn.max_pool3d(R.add(x, w), 2))", {"relax.nn.max_pool3d": ["NDHWC", "NCDHW2c"]}, [(2, 4, 3, 2, 4), (1,)]),
    ],
)  # fmt: skip
def test_each_operator_with_a_layout(before: str, layouts: Any, shapes: Any):
    mod = module(f"""
    @R.function
    def main(x: R.Tensor({shapes[0]}, "float32"), w: R.Tensor({shapes[1]}, "float32")):
        with R.dataflow():
            o = {before}
            R.output(o)
        return o
    """)
    made = converted(mod, layouts, [random(*s) for s in shapes])
    (wanted,) = layouts.values()
    assert all(f'"{layout}"' in made.script() for layout in wanted)


@pytest.mark.parametrize(
    ("lines", "layouts"),
    [
        (["o = R.exp(x)"], NHWC),
        (["o = R.nn.conv2d(x, w)"], {}),
        (["o = R.nn.conv2d(x, w)"], {"relax.nn.conv2d": ["NCHW", "OIHW"]}),
        (["o = R.nn.conv2d(x, w)"], {"relax.nn.conv1d": ["NWC", "OIW"]}),
        (["o = R.nn.conv2d(x, w)"], {"relax.nn.conv2d": ["NCHW3c", "OIHW"]}),
        (["o = R.nn.conv2d(x, w)"], {"relax.nn.conv2d": ["NCHW2n", "OIHW"]}),  # n may be odd
        (["p = R.nn.max_pool2d(x, pool_size=2)", "o = R.nn.relu(p)"], NHWC),
    ],
)  # fmt: skip
def test_others_stay(lines: list[str], layouts: Any):
    mod = module(text(*lines))
    assert converted(mod, layouts) is mod


def test_ordinary_blocks_stay_and_closures_take_what_they_know():
    body = text("c = R.nn.conv2d(x, w)", "o = R.nn.relu(c)")
    ordinary = body.replace("        with R.dataflow():\n", "").replace(
        "            R.output(o)\n", ""
    )
    mod = module(ordinary.replace("            ", "        "))
    assert converted(mod, NHWC) is mod


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        ({"relax.nn.conv2": ["NHWC", "OHWI"]}, "did you mean 'relax.nn.conv2d'?"),
        ({"relax.add": ["NHWC"]}, "not an operator that has a layout"),
        ({"relax.nn.conv2d": ["NHWC"]}, "data_layout, kernel_layout, out_layout"),
        ({"relax.nn.conv2d": "NHWC"}, "data_layout, kernel_layout, out_layout"),
        ({"relax.nn.conv2d": ["NHWC", "HWI"]}, "cannot have 'HWI' as kernel_layout"),
        ({"relax.nn.conv2d": ["NHWC16", "OHWI"]}, "cannot have 'NHWC16' as data_layout"),
        ({"relax.nn.max_pool2d": ["NHWC4x"]}, "cannot have 'NHWC4x' as layout"),
    ],
)
def test_mistaken_options_are_refused(layouts: Any, message: str):
    mod = module(text("o = R.nn.conv2d(x, w)"))
    with pytest.raises(loomir.CompileError) as caught:
        apply(PASSES["relax.ConvertLayout"], mod, ConvertLayoutOptions(layouts))
    assert caught.value.diagnostic.code == "RLX0331"
    assert message in str(caught.value)
