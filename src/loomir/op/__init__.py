"""Operators of Relax: one file for each family, one ``define_op`` for each operator.

Importing this package defines all of them. Their names are those of ``R`` in TVMScript.
"""

from typing import TYPE_CHECKING

from loomir.op import builtin as builtin
from loomir.op import grad as grad
from loomir.op import image as image
from loomir.op import memory as memory
from loomir.op import nn as nn
from loomir.op import vision as vision
from loomir.op import vm as vm
from loomir.op.call import *  # noqa: F403
from loomir.op.create import *  # noqa: F403
from loomir.op.effects import *  # noqa: F403
from loomir.op.elementwise.binary import *  # noqa: F403
from loomir.op.elementwise.datatype import *  # noqa: F403
from loomir.op.elementwise.mask import *  # noqa: F403
from loomir.op.elementwise.ternary import *  # noqa: F403
from loomir.op.elementwise.unary import *  # noqa: F403
from loomir.op.indexing.gathering import *  # noqa: F403
from loomir.op.indexing.index import *  # noqa: F403
from loomir.op.indexing.parts import *  # noqa: F403
from loomir.op.indexing.scattering import *  # noqa: F403
from loomir.op.layout import *  # noqa: F403
from loomir.op.linear_algebra import *  # noqa: F403
from loomir.op.manipulate import *  # noqa: F403
from loomir.op.qdq import *  # noqa: F403
from loomir.op.sampling import *  # noqa: F403
from loomir.op.search import *  # noqa: F403
from loomir.op.sequences import *  # noqa: F403
from loomir.op.set import *  # noqa: F403
from loomir.op.shapes import *  # noqa: F403
from loomir.op.sorting import *  # noqa: F403
from loomir.op.statistical import *  # noqa: F403
from loomir.relax.operator.other_libraries import find_operator as _find_operator
from loomir.support.argument_errors import refuse_missing as _refuse_missing

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Say which operator is meant by a name that there is not."""
        found = _find_operator(name)
        instead = {} if found is None else {name: f"op.{found}"}
        return _refuse_missing("op", list(globals()), instead)(name)
