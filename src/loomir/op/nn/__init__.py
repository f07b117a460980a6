"""Operators of neural networks, ``R.nn`` in TVMScript."""

from loomir.op.nn.activation import *  # noqa: F403
