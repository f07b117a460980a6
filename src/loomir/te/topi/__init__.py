"""Operators on tensors, with the semantics of NumPy and the Array API.

They take and return tensors; sizes may be symbolic. Operands of one operator must have one dtype,
since nothing is promoted; plain numbers take that of the tensor. Negative axes count from the end.
Shapes that may not broadcast are refused (TE0101), as are invalid axes (TE0102), dtypes (TE0103)
and parameters (TE0104).
"""

from loomir.te.arguments import check_arguments as _check_arguments
from loomir.te.topi.assume import *  # noqa: F403
from loomir.te.topi.broadcast import *  # noqa: F403
from loomir.te.topi.create import *  # noqa: F403
from loomir.te.topi.data_dependent import *  # noqa: F403
from loomir.te.topi.einsum import *  # noqa: F403
from loomir.te.topi.elementwise import *  # noqa: F403
from loomir.te.topi.index import *  # noqa: F403
from loomir.te.topi.manipulate import *  # noqa: F403
from loomir.te.topi.matmul import *  # noqa: F403
from loomir.te.topi.nn.attention import *  # noqa: F403
from loomir.te.topi.nn.conv import *  # noqa: F403
from loomir.te.topi.nn.loss import *  # noqa: F403
from loomir.te.topi.nn.norm import *  # noqa: F403
from loomir.te.topi.nn.pool import *  # noqa: F403
from loomir.te.topi.nn.resize import *  # noqa: F403
from loomir.te.topi.pad import *  # noqa: F403
from loomir.te.topi.reduction import *  # noqa: F403
from loomir.te.topi.scan import *  # noqa: F403
from loomir.te.topi.search import *  # noqa: F403
from loomir.te.topi.sort import *  # noqa: F403

globals().update(_check_arguments(globals(), [name for name in globals() if name[0] != "_"]))
