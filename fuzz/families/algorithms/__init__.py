"""Textbook algorithms, as people write them."""
