"""Convolutions as matrix products over panels of an image."""
