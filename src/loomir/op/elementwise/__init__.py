"""Operators on each element, or on pairs and triples of them."""
