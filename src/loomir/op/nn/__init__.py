"""Operators of neural networks, ``R.nn`` in TVMScript."""

from __future__ import annotations

__all__: list[str] = []
