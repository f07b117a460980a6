"""Graphs of neural networks: convolutional, transformer and recurrent."""
