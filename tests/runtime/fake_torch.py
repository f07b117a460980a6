"""A stand-in for torch, as far as the runtime looks at it: states of a tensor, and its memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace

import numpy as np

strided, sparse_coo = "torch.strided", "torch.sparse_coo"
_recording = [True]


class Device(str):
    """Where a tensor is; prints as its name."""

    __slots__ = ()

    @property
    def type(self) -> str:
        """The kind of device."""
        return str(self)


class Tensor:
    """An array with the states that memory does not show."""

    def __init__(self, array: object, **states: object) -> None:
        self.array = np.asarray(array, np.float32)
        self.requires_grad = states.get("requires_grad", False)
        self.negated = states.get("negated", False)
        self.conjugated = states.get("conjugated", False)
        self.layout = states.get("layout", strided)
        self.device = Device(states.get("device", "cpu"))

    @property
    def is_cpu(self) -> object:
        return self.device.type == "cpu"

    @property
    def ndim(self) -> int:
        return self.array.ndim

    def item(self) -> object:
        return self.array.item()

    def is_neg(self) -> object:
        return self.negated

    def is_conj(self) -> object:
        return self.conjugated

    def detach(self) -> Tensor:
        return Tensor(self.array)

    def tolist(self) -> object:
        return self.array.tolist()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **kwargs: object) -> object:
        if self.requires_grad:
            raise BufferError("Can't export tensors that require gradient")
        if self.layout != strided or not self.is_cpu:
            raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")
        if self.conjugated:
            raise BufferError("Can't export tensors with the conjugate bit set")
        return self.array.__dlpack__(**kwargs)


class Parameter(Tensor):
    """A tensor that is trained."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__(tensor.array, requires_grad=True)


nn = SimpleNamespace(Parameter=Parameter)


def is_grad_enabled() -> object:
    return _recording[0]


@contextmanager
def no_grad() -> Iterator[None]:
    _recording[0] = False
    try:
        yield
    finally:
        _recording[0] = True


class dtype(str):  # noqa: N801 - PyTorch's name
    """The dtype of a tensor."""


float32 = dtype("float32")


def zeros(shape: tuple[int, ...], dtype: object) -> Tensor:
    assert dtype is float32
    return Tensor(np.zeros(shape, np.float32))


def tensor(values: object, requires_grad: object = False) -> Tensor:
    return Tensor(values, requires_grad=requires_grad)


def from_dlpack(value: object) -> Tensor:
    return Tensor(np.from_dlpack(value))  # type: ignore[arg-type]


def negated(values: object) -> Tensor:
    return Tensor(values, negated=True)


def conjugated(values: object) -> Tensor:
    return Tensor(values, conjugated=True)


def sparse(values: object) -> Tensor:
    return Tensor(values, layout=sparse_coo)


def elsewhere(values: object) -> Tensor:
    return Tensor(values, device="meta")


def module() -> ModuleType:
    """Return this module, to be put where torch would be."""
    return sys.modules[__name__]
