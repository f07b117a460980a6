"""The primitives, in files by family; importing this package fills the table."""

from loomir.schedule.primitive import (
    blockizing,
    caching,
    compute_location,
    epilogue,
    finding,
    inlining,
    layout,
    marking,
    ordering,
    padding,
    reducing,
    reindexing,
    sampling,
    splitting,
    tensorizing,
)

__all__ = [
    "blockizing",
    "caching",
    "compute_location",
    "epilogue",
    "finding",
    "inlining",
    "layout",
    "marking",
    "ordering",
    "padding",
    "reducing",
    "reindexing",
    "sampling",
    "splitting",
    "tensorizing",
]
