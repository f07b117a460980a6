"""The primitives, in files by family; importing this package fills the table."""

from loomir.schedule.primitive import (
    caching,
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
    "caching",
    "compute_location",
    "finding",
    "inlining",
    "marking",
    "ordering",
    "reducing",
    "sampling",
    "splitting",
]
