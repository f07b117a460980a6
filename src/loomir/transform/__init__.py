"""Passes, one file each, and the pipelines that they form."""

from loomir.transform.pipelines import LOWER_CPU, LowerOptions, lower

__all__ = ["LOWER_CPU", "LowerOptions", "lower"]
