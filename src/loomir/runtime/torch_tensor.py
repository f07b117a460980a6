"""PyTorch tensors as arguments, without importing torch.

A tensor can only exist if torch has been imported, so torch is looked up in ``sys.modules``.
Several properties of a tensor are invisible in the memory that it exports (such as lazy
conjugation); accessing that memory would be silently wrong, so such tensors are refused here.
"""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple

from loomir.runtime.errors import RunValueError
from loomir.runtime.parameter import Parameter
from loomir.support.diagnostics import Diagnostic, with_article

__all__ = ["diagnose_tensor", "is_torch_tensor", "plain_tensor", "zeros_of"]


class _Torch(NamedTuple):
    """Attributes of torch, looked up only once, since that takes as long as a call."""

    module: Any
    tensor: type
    plain: tuple[type, type]


_found: Final[list[_Torch]] = []


def _torch() -> _Torch | None:
    if _found:
        return _found[0]
    module: Any = sys.modules.get("torch")
    parameter: Any = getattr(getattr(module, "nn", None), "Parameter", None)
    if parameter is None:  # not imported, or not completely yet
        return None
    _found.append(_Torch(module, module.Tensor, (module.Tensor, parameter)))
    return _found[0]


def is_torch_tensor(value: object) -> bool:
    """Tell whether this is a PyTorch tensor, or one of a subclass."""
    torch = _found[0] if _found else _torch()
    return torch is not None and isinstance(value, torch.tensor)


def plain_tensor(parameter: Parameter, value: Any) -> object:
    """Return a tensor whose memory has the values that it shows; if possible, the same object.

    Only problems that native code would not notice are checked; ``diagnose_tensor`` explains
    others.

    Errors: RUN0106.
    """
    torch = _found[0]
    if value.__class__ not in torch.plain:
        raise _refuse(
            parameter,
            f"is {with_article(type(value).__name__)}, a subclass of torch.Tensor "
            "with rules of its own",
            f"pass {parameter.name}.as_subclass(torch.Tensor) if its memory is what you mean",
        )
    if value.is_neg():
        raise _refuse(
            parameter,
            "is a view that negates lazily: its memory holds the opposite numbers",
            f"pass {parameter.name}.resolve_neg()",
        )
    if not value.requires_grad:
        return value
    if torch.module.is_grad_enabled():
        raise _refuse(
            parameter,
            "requires a gradient, which a compiled function does not record",
            f"pass {parameter.name}.detach(), or call under torch.no_grad()",
        )
    return value.detach()


def zeros_of(shape: tuple[int, ...], dtype: str) -> Any:
    """Return a tensor of zeros, None if PyTorch has no such dtype; torch must be imported."""
    torch = _found[0].module
    kind = getattr(torch, dtype, None)
    return torch.zeros(shape, dtype=kind) if isinstance(kind, torch.dtype) else None


def diagnose_tensor(parameter: Parameter, value: Any) -> None:
    """Raise an error that says why the memory of a tensor cannot be used.

    Errors: RUN0106 for states, RUN0107 for devices; none if nothing is wrong.
    """
    torch = _found[0]
    if not value.is_cpu:
        raise RunValueError(
            Diagnostic(
                "RUN0107",
                f"{parameter.name} is on device {value.device}, this function runs on the CPU",
                span=parameter.span,
                help=f"pass {parameter.name}.cpu()"
                if value.device.type != "meta"
                else "it has a shape and no numbers: make it on the CPU, as by torch.zeros",
            )
        )
    if value.layout is not torch.module.strided:
        raise _refuse(parameter, "is sparse", f"pass {parameter.name}.to_dense()")
    if value.is_conj():
        raise _refuse(
            parameter,
            "is a view that conjugates lazily: its memory holds other numbers",
            f"pass {parameter.name}.resolve_conj()",
        )


def _refuse(parameter: Parameter, what: str, remedy: str) -> RunValueError:
    return RunValueError(
        Diagnostic("RUN0106", f"{parameter.name} {what}", span=parameter.span, help=remedy)
    )
