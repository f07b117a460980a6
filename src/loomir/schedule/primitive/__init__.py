"""The primitives, in files by family; importing this package fills the table."""

from loomir.schedule.primitive import finding, marking, ordering, sampling, splitting

__all__ = ["finding", "marking", "ordering", "sampling", "splitting"]
