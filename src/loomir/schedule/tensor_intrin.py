"""Tensor intrinsics: the nest that an instruction implements, and the code that calls it."""

from __future__ import annotations

from typing import Final, NamedTuple, cast

from loomir.ir.node import Node
from loomir.ir.visit import pre_order
from loomir.schedule.state import with_root_block
from loomir.support.diagnostics import Diagnostic, ScheduleError, nearest
from loomir.support.runtime_types import quote_name, show_value
from loomir.tir.buffer import Buffer
from loomir.tir.expr import Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block, BlockRealize

__all__ = ["TensorIntrin", "body_of"]


def _refuse(why: str, help: str) -> None:
    raise ScheduleError(Diagnostic("SCH0003", f"TensorIntrin.register: {why}", help=help))


def body_of(func: PrimFunc) -> Block:
    """Return the block that is all of a description's or an implementation's body."""
    body = with_root_block(func).body
    assert isinstance(body, BlockRealize)
    return body.block


class TensorIntrin(NamedTuple):
    """A computation on small buffers, ``desc``, and code that does the same, ``impl``.

    That both do the same is the promise of who registers them.
    """

    name: str
    desc: PrimFunc
    impl: PrimFunc

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> TensorIntrin:
        """Return a description and an implementation a name for ``tensorize``.

        Errors: SCH0003 where their parameters differ, or the name is taken.
        """
        if not isinstance(cast("object", name), str):
            _refuse(f"the name is {show_value(name)}, not a string", "give a string")
        if name in _REGISTERED and not override:
            _refuse(f"{name!r} is registered already", "use another name, or override=True")
        for what, func in (("desc", desc), ("impl", impl)):
            if any(p not in func.buffer_map for p in func.params):
                _refuse(f"{what} has a parameter that is not a buffer", "declare buffers only")
        if body_of(desc).alloc_buffers:
            _refuse("desc allocates a buffer", "describe one computation of its parameters")
        _check_same_buffers(_buffers(desc), _buffers(impl))
        made = _REGISTERED[name] = TensorIntrin(name, desc, impl)
        return made

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """Return what is registered under a name; None, if allowed, where nothing is.

        Errors: SCH0001.
        """
        found = _REGISTERED.get(name) if isinstance(cast("object", name), str) else None
        if found is None and not allow_missing:
            guess = nearest(name, _REGISTERED)
            raise ScheduleError(
                Diagnostic(
                    "SCH0001",
                    f"there is no tensor intrinsic {quote_name(name)}",
                    help=f"did you mean {guess!r}?"
                    if guess
                    else "register it with TensorIntrin.register",
                )
            )
        return found


_REGISTERED: Final[dict[str, TensorIntrin]] = {}


def _buffers(func: PrimFunc) -> list[Buffer]:
    return [func.buffer_map[p] for p in func.params]


def _check_same_buffers(desc: list[Buffer], impl: list[Buffer]) -> None:
    if len(desc) != len(impl):
        _refuse(f"desc has {len(desc)} parameters, impl has {len(impl)}", "give both the same")
    for a, b in zip(desc, impl):
        numbers = [[str(e) for e in buffer.shape] for buffer in (a, b)]
        if a.dtype is not b.dtype or a.scope != b.scope or numbers[0] != numbers[1]:
            _refuse(f"{a.name!r} of desc is not like {b.name!r} of impl", "give both the same")
        if any(isinstance(n, Var) for e in a.shape for n in _nodes(e)):
            _refuse(f"the shape of {a.name!r} is not known", "use numbers")


def _nodes(node: Node) -> list[Node]:
    return list(pre_order(node))
