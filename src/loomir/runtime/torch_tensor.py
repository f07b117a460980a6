"""PyTorch's tensors as arguments, without importing torch.

A tensor can only exist where torch has been imported, so it is looked up, never loaded. Several
properties of a tensor do not show in the memory that it exports; reading or writing that memory
would then be silently wrong, so they are refused here.
"""

from __future__ import annotations

import sys
from typing import Any

from loomir.runtime.errors import RunValueError
from loomir.runtime.parameter import Parameter
from loomir.support.diagnostics import Diagnostic

__all__ = ["is_torch_tensor", "plain_tensor"]


def _torch() -> Any:
    return sys.modules.get("torch")


def is_torch_tensor(value: object) -> bool:
    """Whether this is a tensor of PyTorch, or of a subclass."""
    tensor: Any = getattr(_torch(), "Tensor", None)
    return isinstance(tensor, type) and isinstance(value, tensor)


def plain_tensor(parameter: Parameter, value: Any) -> object:
    """Give a tensor whose memory is what it looks like; the same object where possible.

    Errors: RUN0106 for states that memory does not show, RUN0107 for other devices.
    """
    torch = _torch()
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise _refuse(
            parameter,
            f"is a {type(value).__name__}, a subclass of torch.Tensor with rules of its own",
            f"pass {parameter.name}.as_subclass(torch.Tensor) if its memory is what you mean",
        )
    if not value.is_cpu:
        raise RunValueError(
            Diagnostic(
                "RUN0107",
                f"{parameter.name} is on device {value.device}, this function runs on the CPU",
                span=parameter.span,
                help=f"pass {parameter.name}.cpu()",
            )
        )
    if value.layout is not torch.strided:
        raise _refuse(parameter, "is sparse", f"pass {parameter.name}.to_dense()")
    if value.is_neg():
        raise _refuse(
            parameter,
            "is a view that negates lazily: its memory holds the opposite numbers",
            f"pass {parameter.name}.resolve_neg()",
        )
    if not value.requires_grad:
        return value
    if torch.is_grad_enabled():
        raise _refuse(
            parameter,
            "requires a gradient, which a compiled function does not record",
            f"pass {parameter.name}.detach(), or call under torch.no_grad()",
        )
    return value.detach()


def _refuse(parameter: Parameter, what: str, remedy: str) -> RunValueError:
    return RunValueError(
        Diagnostic("RUN0106", f"{parameter.name} {what}", span=parameter.span, help=remedy)
    )
