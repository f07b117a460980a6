"""Algorithms of textbooks as people write them."""
