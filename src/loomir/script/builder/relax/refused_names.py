"""Names of ``R`` that other implementations have and Loomir does not, each with a replacement."""

from __future__ import annotations

from typing import Final

from loomir.script.builder.tir.refused_names import UnsupportedName

__all__ = ["REFUSED"]

_DISTRIBUTED: Final = UnsupportedName(
    "a program runs on one machine, and its tensors are whole",
    "write R.Tensor, without a mesh and a placement, and run the part of each machine by itself",
)

REFUSED: Final[dict[str, UnsupportedName]] = {
    "DTensor": _DISTRIBUTED,
    "Placement": _DISTRIBUTED,
    "device_mesh": _DISTRIBUTED,
    "dist": _DISTRIBUTED,
    "distributed": _DISTRIBUTED,
}
"""By name."""
