"""Idioms that code generators recognise and turn into single instructions."""
