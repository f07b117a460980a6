"""Importers are imported under the names that users write."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "code",
    [
        "import loomir.torch; loomir.torch.compile",
        "from loomir.torch import compile; import loomir; assert compile is loomir.torch.compile",
        "import loomir; first = loomir.torch; import loomir.torch; assert loomir.torch is first",
        "import loomir.onnx; loomir.onnx.load",
        "from loomir.onnx import load; import loomir; assert load is loomir.onnx.load",
        "import loomir.onnx as o, loomir.frontend.onnx; assert o is loomir.frontend.onnx",
    ],
)
def test_importers_have_the_names_that_users_import(code: str):
    check = "; import sys; assert not {'torch', 'onnx'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code + check], check=True)
