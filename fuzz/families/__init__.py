"""Families of random programs in the style of users, each with a reference in NumPy or Python."""
