"""Shapes as values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import loomir
from tests.clause import clauses


@clauses("RX-VALS-06")
def test_shape_is_an_immutable_tuple_of_integers():
    shape = loomir.Shape([2, np.int32(3)])
    assert shape == (2, 3)
    assert hash(shape) == hash((2, 3))
    assert all(type(extent) is int for extent in shape)
    assert repr(shape) == "Shape([2, 3])"
    with pytest.raises(AttributeError):
        shape.more = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        shape[0] = 1  # type: ignore[index]


@clauses("RX-VALS-13")
def test_shape_is_distinguished_from_a_tuple():
    assert isinstance(loomir.Shape(()), loomir.Shape)
    assert not isinstance((2, 3), loomir.Shape)


@pytest.mark.parametrize("extents", [[2.5], 3, None, "ab", np.ones((2, 2))])
def test_shapes_are_made_of_integers(extents: Any):
    with pytest.raises(TypeError) as caught:
        loomir.Shape(extents)
    assert isinstance(caught.value, loomir.RunError)
    assert caught.value.diagnostic.code == "RUN0401"
