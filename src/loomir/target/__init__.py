"""The machine to compile for: its instruction set, vectors, caches and cores."""

from loomir.target.target import Target

__all__ = ["Target"]
