"""Operators of neural networks, ``R.nn`` in TVMScript."""

from loomir.op.nn.activation import *  # noqa: F403
from loomir.op.nn.attention import *  # noqa: F403
from loomir.op.nn.convolution import *  # noqa: F403
from loomir.op.nn.loss import *  # noqa: F403
from loomir.op.nn.normalization import *  # noqa: F403
from loomir.op.nn.pooling import *  # noqa: F403
from loomir.op.nn.shaping import *  # noqa: F403
