"""The primitives, in files by family; importing this package fills the table."""

from loomir.schedule.primitive import (
    compute_location,
    finding,
    inlining,
    marking,
    ordering,
    reducing,
    sampling,
    splitting,
)

__all__ = [
    "compute_location",
    "finding",
    "inlining",
    "marking",
    "ordering",
    "reducing",
    "sampling",
    "splitting",
]
