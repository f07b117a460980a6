"""Graphs of networks: convolutional, transformer and recurrent."""
