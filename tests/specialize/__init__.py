"""Tests of functions that are compiled at their first call."""
