"""Measurements, printed as tables of ratios taken in one run."""
