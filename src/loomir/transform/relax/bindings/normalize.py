"""Bring the functions of graphs into normal form."""

from __future__ import annotations

from loomir.ir.module import IRModule
from loomir.ir.passes import register
from loomir.relax.normal.normalize import normalize as normalized

__all__ = ["normalize"]


@register("relax.Normalize", establishes={"relax_normal_form"})
def normalize(mod: IRModule) -> IRModule:
    """Bind nested expressions to variables, and derive the structural information of each.

    Errors: those of derivation.
    """
    return normalized(mod)
