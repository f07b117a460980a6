# Written by `python -m tools.operator_stubs` from the definitions of operators: do not edit.
"""``R``: the language of graphs, for annotations, decorators, and building programs in Python."""

import builtins as _b
from collections.abc import Callable as _AnyCallable
from collections.abc import Mapping as _Mapping
from collections.abc import Sequence as _Sequence
from typing import Any as _Any
from typing import Literal as _Literal
from typing import SupportsIndex as _SupportsIndex
from typing import TypeAlias as _TypeAlias

import numpy as _np

from loomir.ir.module import GlobalVar as _GlobalVar
from loomir.ir.module import IRModule as _IRModule
from loomir.ir.module import VDevice as _VDevice
from loomir.relax.expr import Call as _Call
from loomir.relax.expr import Function as _Function
from loomir.relax.node import Expr as _Expr
from loomir.script.builder.dtypes import DTypeLike as _DTypeLike
from loomir.script.builder.frame import IRBuilder as IRBuilder
from loomir.script.builder.function import vdevice as vdevice
from loomir.script.builder.relax import any_call as _any_call
from loomir.script.builder.relax import calls as _calls
from loomir.script.builder.relax import constants as _constants
from loomir.script.builder.relax import functions as _functions
from loomir.script.builder.relax import info as _info
from loomir.script.builder.relax import values as _values
from loomir.script.builder.relax.frames import FunctionFrame as _FunctionFrame
from loomir.script.builder.relax.table import match_cast as match_cast
from loomir.support.array import Array as _Array
from loomir.tir.expr import PrimExpr as _PrimExpr

# mypy takes the first branch: it knows `no_type_check` by its name. pyright takes the
# last one, and knows it in a stub of that name: see loomir/checkers/__init__.py.
MYPY = False
if MYPY:
    from typing import no_type_check as function
    from typing import no_type_check as macro
    from typing import no_type_check as inline
else:
    from loomir.checkers.function.typing_extensions import no_type_check as function
    from loomir.checkers.macro.typing_extensions import no_type_check as macro
    from loomir.checkers.macro.typing_extensions import no_type_check as inline

__all__ = [
    "Call",
    "Callable",
    "Else",
    "ExternFunc",
    "IRBuilder",
    "If",
    "Object",
    "Prim",
    "Shape",
    "Tensor",
    "Then",
    "Tuple",
    "arg",
    "branch",
    "call_dps_packed",
    "call_inplace_packed",
    "call_packed",
    "call_pure_packed",
    "call_tir",
    "call_tir_inplace",
    "const",
    "constant",
    "dataflow",
    "dtype",
    "else_case",
    "emit",
    "emit_match_cast",
    "func_attr",
    "func_name",
    "func_ret_struct_info",
    "func_ret_value",
    "function",
    "inline",
    "invoke_closure",
    "invoke_pure_closure",
    "is_impure",
    "is_pure",
    "macro",
    "match_cast",
    "output",
    "prim_value",
    "rewriter",
    "shape",
    "then_case",
    "vdevice",
]

_Scalar: _TypeAlias = _Expr | _PrimExpr | _b.bool | _b.int | _b.float | _np.generic
_TensorLike: _TypeAlias = _Scalar | _Array | _np.ndarray[_Any, _Any]
_TensorsLike: _TypeAlias = _Expr | _Sequence[_TensorLike]
_ShapeLike: _TypeAlias = _Expr | _PrimExpr | _b.int | _Sequence[_info.Extent]
_ScalarLike: _TypeAlias = _Scalar | _b.str
_NumberLike: _TypeAlias = _TensorLike
_FunctionLike: _TypeAlias = _Expr | _GlobalVar | _b.str
_TupleLike: _TypeAlias = _Expr | _Sequence[_Any]
_ValueLike: _TypeAlias = _TensorLike | _GlobalVar | _DTypeLike | _Sequence[_Any]
_ArgsLike: _TypeAlias = _ValueLike
_InfoLike: _TypeAlias = _info.StructInfoLike | _Sequence[_info.StructInfoLike]
_IntLike: _TypeAlias = _SupportsIndex | _Expr | _PrimExpr
_RealLike: _TypeAlias = _b.float | _SupportsIndex | _Expr | _PrimExpr
_FlagLike: _TypeAlias = _b.bool | _b.int | _Expr | _PrimExpr
_TextLike: _TypeAlias = _b.str | _Expr
_IntsLike: _TypeAlias = _Expr | _Sequence[_IntLike]
_RealsLike: _TypeAlias = _Expr | _Sequence[_RealLike]
_AxesLike: _TypeAlias = _IntLike | _Sequence[_IntLike]
_SectionsLike: _TypeAlias = _IntLike | _Sequence[_IntLike]
_DTypeOption: _TypeAlias = _DTypeLike | _Expr
_IndexMapLike: _TypeAlias = _AnyCallable[..., _Any] | _b.str | _Expr
_DeviceLike: _TypeAlias = _VDevice | _b.str | _b.int
_DataLike: _TypeAlias = _Mapping[_b.str, _Any]

class FunctionDecorator(_FunctionFrame):
    """``R.function(private=True)``: a decorator, and a frame of the builder."""

    def __call__(self, func: _AnyCallable[..., _Any]) -> _Function:
        """Read a function."""

def rewriter(cls: type) -> _IRModule:
    """Read a class of two functions, ``pattern`` and ``replacement``, as a module of them."""

def output(*variables: _Expr) -> None:
    """Say which variables of the dataflow block are seen after it."""

Any = _info.any_value
Call = _any_call.any_call
Callable = _info.function_info
Else = _functions.else_case
ExternFunc = _values.extern_func
If = _functions.branch
Object = _info.any_value
Prim = _info.prim
Shape = _info.shape
ShapeExpr = _values.shape
Tensor = _info.tensor
Then = _functions.then_case
Tuple = _info.tuple_info
TupleGetItem = _values.tuple_get_item
arg = _functions.arg
branch = _functions.branch
call_dps_packed = _calls.call_dps_packed
call_inplace_packed = _calls.call_inplace_packed
call_packed = _calls.call_packed
call_pure_packed = _calls.call_pure_packed
call_tir = _calls.call_tir
call_tir_inplace = _calls.call_tir_inplace
const = _values.const
constant = _values.const
cpu = _info.cpu
cuda = _info.cuda
data = _constants.data
dataflow = _functions.dataflow
device = _info.device
dtype = _values.dtype
else_case = _functions.else_case
emit = _functions.emit
emit_match_cast = _functions.emit_match_cast
func_attr = _functions.func_attr
func_name = _functions.func_name
func_ret_struct_info = _functions.func_ret_struct_info
func_ret_ty = _functions.func_ret_struct_info
func_ret_value = _functions.func_ret_value
invoke_closure = _calls.invoke_closure
invoke_pure_closure = _calls.invoke_pure_closure
is_impure = _functions.is_impure
is_pure = _functions.is_pure
prim_value = _values.prim_value
shape = _values.shape
str = _values.string
then_case = _functions.then_case
tuple = _values.tuple_of

def abs(x: _TensorLike) -> _Call:
    """Compute absolute values; that of the least integer wraps to itself."""

def acos(x: _TensorLike) -> _Call:
    """Compute inverse cosines; NaN beyond 1 and -1."""

def acosh(x: _TensorLike) -> _Call:
    """Compute inverse hyperbolic cosines; NaN below 1."""

def add(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Add; integers wrap."""

def arange(
    start: _ScalarLike,
    end: _ScalarLike | None = None,
    step: _ScalarLike = 1,
    dtype: _DTypeOption | None = None,
) -> _Call:
    """Count from ``start`` up to ``end``, exclusive, by steps; from 0 if one bound is given."""

def argmax(x: _TensorLike, axis: _IntLike | None = None, keepdims: _FlagLike = False) -> _Call:
    """Find the index of the greatest element, the first of equal ones; NaN is first."""

def argmin(x: _TensorLike, axis: _IntLike | None = None, keepdims: _FlagLike = False) -> _Call:
    """Find the index of the least element, the first of equal ones; NaN is first."""

def argsort(
    data: _TensorLike,
    axis: _IntLike = -1,
    descending: _FlagLike = False,
    dtype: _DTypeOption = "int32",
) -> _Call:
    """Return the indices along an axis that sort it; NaN comes last in either order."""

def asin(x: _TensorLike) -> _Call:
    """Compute inverse sines; NaN beyond 1 and -1."""

def asinh(x: _TensorLike) -> _Call:
    """Compute inverse hyperbolic sines."""

def assert_op(condition: _ValueLike, *format_args: _ValueLike, format: _TextLike = "") -> _Call:
    """Stop with an error unless a condition holds."""

def astype(x: _TensorLike, dtype: _DTypeOption) -> _Call:
    """Convert elements to a dtype."""

def atan(x: _TensorLike) -> _Call:
    """Compute inverse tangents."""

def atan2(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Return the angles of points (x, y); ``x1`` has their y, ``x2`` their x."""

def atanh(x: _TensorLike) -> _Call:
    """Compute inverse hyperbolic tangents; NaN beyond 1 and -1."""

def bitwise_and(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Compute the bitwise and."""

def bitwise_not(x: _TensorLike) -> _Call:
    """Invert all bits."""

def bitwise_or(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Compute the bitwise or."""

def bitwise_xor(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Compute the bitwise exclusive or."""

def broadcast_to(x: _TensorLike, shape: _ShapeLike) -> _Call:
    """Broadcast to a shape: repeat axes of extent 1, and add leading axes."""

def bucketize(
    input_tensor: _TensorLike,
    boundaries: _TensorLike,
    out_int32: _FlagLike = False,
    right: _FlagLike = False,
) -> _Call:
    """Return the bucket of each element, between sorted boundaries."""

def call_builtin_with_ctx(
    func: _FunctionLike,
    args: _ArgsLike,
    sinfo_args: _InfoLike = ...,
    *,
    out_sinfo: _InfoLike = ...,
    out_ty: _InfoLike = ...,
    ty_args: _InfoLike = ...,
    type_args: _InfoLike = ...,
) -> _Call:
    """Call a packed function to which other compilers pass the state of their run time."""

def call_py_func(
    func_name: _FunctionLike,
    args: _ArgsLike,
    out_sinfo: _InfoLike = ...,
    *,
    out_ty: _InfoLike = ...,
    sinfo_args: _InfoLike = ...,
    ty_args: _InfoLike = ...,
    type_args: _InfoLike = ...,
) -> _Call:
    """Call a registered Python function without side effects."""

def call_tir_with_grad(
    gvar: _FunctionLike,
    args: _ArgsLike,
    out_sinfo: _InfoLike = ...,
    te_grad_name: _TextLike = ...,
    te_grad_kwargs: _DataLike | None = None,
    tir_vars: _ShapeLike | None = None,
    *,
    out_ty: _InfoLike = ...,
    sinfo_args: _InfoLike = ...,
    ty_args: _InfoLike = ...,
    type_args: _InfoLike = ...,
    packed_ints: _ShapeLike | None = ...,
) -> _Call:
    """Call a kernel as ``call_tir`` does, and name the function that builds its gradient."""

def ceil(x: _TensorLike) -> _Call:
    """Round towards plus infinity."""

def clip(x: _TensorLike, min: _NumberLike, max: _NumberLike) -> _Call:
    """Clip elements to a range; if ``min`` is above ``max``, all become ``max``."""

def collapse_sum_like(data: _TensorLike, collapse_target: _TensorLike) -> _Call:
    """Sum over the axes along which broadcasting from the shape of another tensor repeats."""

def collapse_sum_to(data: _TensorLike, shape: _ShapeLike) -> _Call:
    """Sum over the axes along which broadcasting from a shape repeats."""

def concat(tensors: _TensorsLike, axis: _IntLike = 0) -> _Call:
    """Join tensors of one dtype along an axis."""

def cos(x: _TensorLike) -> _Call:
    """Compute cosines."""

def cosh(x: _TensorLike) -> _Call:
    """Compute hyperbolic cosines."""

def cumprod(
    data: _TensorLike,
    axis: _IntLike | None = None,
    dtype: _DTypeOption | None = None,
    exclusive: _FlagLike = False,
) -> _Call:
    """Multiply the elements up to each along an axis."""

def cumsum(
    data: _TensorLike,
    axis: _IntLike | None = None,
    dtype: _DTypeOption | None = None,
    exclusive: _FlagLike = False,
) -> _Call:
    """Sum the elements up to each along an axis."""

def dequantize(
    data: _TensorLike,
    scale: _TensorLike,
    zero_point: _TensorLike,
    axis: _IntLike = -1,
    out_dtype: _DTypeOption = "float32",
) -> _Call:
    """Compute ``(data - zero_point) * scale``."""

def divide(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Divide; the quotients of integers are rounded towards zero."""

def dynamic_strided_slice(
    x: _TensorLike,
    begin: _TensorLike,
    end: _TensorLike,
    strides: _TensorLike,
) -> _Call:
    """Take slices along all axes, with bounds and strides from tensors."""

def einsum(operands: _TensorsLike, subscripts: _TextLike) -> _Call:
    """Sum products over letters, as in ``einsum((a, b), "ij,jk->ik")``."""

def equal(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Test whether elements are equal; NaN equals nothing."""

def erf(x: _TensorLike) -> _Call:
    """Apply the error function."""

def ewise_fma(x1: _TensorLike, x2: _TensorLike, x3: _TensorLike) -> _Call:
    """Compute x1 * x2 + x3, rounding the product and the sum; integers wrap."""

def exp(x: _TensorLike) -> _Call:
    """Raise e to the power of each element."""

def expand_dims(x: _TensorLike, axis: _AxesLike) -> _Call:
    """Insert axes of extent 1, at places counted in the result."""

def eye(
    n: _ScalarLike,
    m: _ScalarLike | None = None,
    k: _ScalarLike = 0,
    dtype: _DTypeOption = "float32",
) -> _Call:
    """Build a matrix with ones on a diagonal, ``k`` above the main one, and zeros elsewhere."""

def eye_like(x: _TensorLike, k: _ScalarLike = 0, dtype: _DTypeOption | None = None) -> _Call:
    """Build a matrix of another's shape with ones on a diagonal, and zeros elsewhere."""

def flatten(x: _TensorLike) -> _Call:
    """Flatten a tensor to one axis, in row-major order."""

def flip(data: _TensorLike, axis: _AxesLike) -> _Call:
    """Reverse the order of elements along axes."""

def floor(x: _TensorLike) -> _Call:
    """Round towards minus infinity."""

def floor_divide(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Divide, rounding towards minus infinity."""

def floor_mod(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Return the remainder of ``floor_divide``, with the sign of the divisor."""

def full(shape: _ShapeLike, fill_value: _NumberLike, dtype: _DTypeOption | None = None) -> _Call:
    """Fill a tensor with one value, which is a number, or a tensor without axes."""

def full_like(x: _TensorLike, fill_value: _NumberLike, dtype: _DTypeOption | None = None) -> _Call:
    """Fill a tensor of the same shape, and by default the same dtype, with one value."""

def gather_elements(data: _TensorLike, indices: _TensorLike, axis: _IntLike = 0) -> _Call:
    """Take one element for each index along an axis; other coordinates are those of the index."""

def gather_nd(data: _TensorLike, indices: _TensorLike, batch_dims: _IntLike = 0) -> _Call:
    """Take parts whose first indices are the rows of ``indices``, after axes that both share."""

def greater(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Test whether the first is greater."""

def greater_equal(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Test whether the first is greater or equal."""

def hamming_window(
    window_size: _ScalarLike,
    periodic: _FlagLike = True,
    alpha: _RealLike = 0.54,
    beta: _RealLike = 0.46,
    dtype: _DTypeOption = "float32",
) -> _Call:
    """Return the weights ``alpha - beta * cos(2 * pi * i / n)`` of a window."""

def hint_on_device(
    data: _ValueLike,
    dst_vdevice: _DeviceLike,
    memory_scope: _TextLike = "global",
) -> _Call:
    """Hint that a tensor should be on a device; passes turn this into a move if needed."""

def index_put(
    data: _TensorLike,
    indices: _TensorsLike,
    values: _TensorLike,
    accumulate: _FlagLike = False,
) -> _Call:
    """Copy ``data`` and write values at indices, one tensor of them for each of the first axes."""

def index_tensor(data: _TensorLike, indices: _TensorsLike) -> _Call:
    """Take elements at indices, given by one tensor for each of the first axes."""

def isfinite(x: _TensorLike) -> _Call:
    """Test which elements are neither infinite nor NaN."""

def isinf(x: _TensorLike) -> _Call:
    """Test which elements are infinite."""

def isnan(x: _TensorLike) -> _Call:
    """Test which elements are NaN."""

def layout_transform(
    x: _TensorLike,
    index_map: _IndexMapLike,
    pad_value: _RealLike | None = None,
    axis_separators: _IntsLike | None = None,
    input_axis_separators: _IntsLike | None = None,
) -> _Call:
    """Move elements to the indices that an index map returns, such as ``lambda i, j: (j, i)``."""

def left_shift(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Shift bits up."""

def less(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Test whether the first is less."""

def less_equal(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Test whether the first is less or equal."""

def linear(
    data: _TensorLike,
    weight: _TensorLike,
    bias: _TensorLike | None = None,
    out_dtype: _DTypeOption | None = None,
) -> _Call:
    """Apply a linear layer: ``data @ weight.T + bias``."""

def log(x: _TensorLike) -> _Call:
    """Compute natural logarithms; of negative numbers they are NaN."""

def log_add_exp(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Compute log(exp(x1) + exp(x2)) without overflow."""

def logical_and(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Compute the logical and."""

def logical_not(x: _TensorLike) -> _Call:
    """Negate truth values."""

def logical_or(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Compute the logical or."""

def logical_xor(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Compute the logical exclusive or."""

def make_closure(func: _FunctionLike, args: _ArgsLike) -> _Call:
    """Return a closure: the function with its last parameters bound to ``args``."""

def masked_fill(x: _TensorLike, mask: _TensorLike, value: _RealLike) -> _Call:
    """Replace elements by a number where a mask of truths holds."""

def matmul(x1: _TensorLike, x2: _TensorLike, out_dtype: _DTypeOption | None = None) -> _Call:
    """Multiply matrices, as ``@`` does in NumPy."""

def max(x: _TensorLike, axis: _AxesLike | None = None, keepdims: _FlagLike = False) -> _Call:
    """Compute the maximum; there must be at least one element."""

def maximum(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Take the greater element; NaN if either is NaN."""

def mean(x: _TensorLike, axis: _AxesLike | None = None, keepdims: _FlagLike = False) -> _Call:
    """Compute the mean; NaN if there are no elements."""

def median(x: _TensorLike, axis: _AxesLike | None = None, keepdims: _FlagLike = False) -> _Call:
    """Compute the median, the lesser of two; over one axis, its index too."""

def meshgrid(tensors: _TensorsLike, indexing: _Literal["ij", "xy"] | _Expr = "ij") -> _Call:
    """Return the coordinates of the points of a grid, axis by axis."""

def min(x: _TensorLike, axis: _AxesLike | None = None, keepdims: _FlagLike = False) -> _Call:
    """Compute the minimum; there must be at least one element."""

def minimum(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Take the lesser element; NaN if either is NaN."""

def mod(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Return the remainder of a division towards zero, with the sign of the dividend."""

def multinomial_from_uniform(
    prob: _TensorLike,
    uniform_sample: _TensorLike,
    sample_indices: _TensorLike,
    dtype: _DTypeOption = "int64",
) -> _Call:
    """Sample an index from a distribution for each uniform random number between 0 and 1."""

def multiply(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Multiply; integers wrap."""

def negative(x: _TensorLike) -> _Call:
    """Negate each element; integers wrap."""

def nonzero(x: _TensorLike) -> _Call:
    """Return the indices of elements that are not 0, in row-major order."""

def not_equal(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Test whether elements differ; NaN differs from everything."""

def null_value() -> _Call:
    """Return null, which stands for an omitted argument."""

def one_hot(
    indices: _TensorLike,
    on_value: _ScalarLike,
    off_value: _ScalarLike,
    depth: _IntLike,
    axis: _IntLike = -1,
) -> _Call:
    """Write ``on_value`` at the indices along a new axis, ``off_value`` elsewhere."""

def ones(shape: _ShapeLike, dtype: _DTypeOption) -> _Call:
    """Fill a tensor with ones."""

def ones_like(x: _TensorLike, dtype: _DTypeOption | None = None) -> _Call:
    """Fill a tensor of the same shape, and by default the same dtype, with ones."""

def outer(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Multiply each element of a vector with each of another."""

def permute_dims(x: _TensorLike, axes: _AxesLike | None = None) -> _Call:
    """Permute axes; reverse them by default."""

def power(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Raise to powers; integers wrap."""

def print(*values: _ValueLike, format: _TextLike = "") -> _Call:
    """Print values by a Python format, such as ``'{} of {}'``, or separated by spaces."""

def prod(x: _TensorLike, axis: _AxesLike | None = None, keepdims: _FlagLike = False) -> _Call:
    """Multiply; integers wrap."""

def quantize(
    data: _TensorLike,
    scale: _TensorLike,
    zero_point: _TensorLike,
    axis: _IntLike = -1,
    out_dtype: _DTypeOption = "int8",
) -> _Call:
    """Compute ``round(data / scale) + zero_point``, clipped to the range of ``out_dtype``."""

def relax_assert_op(
    condition: _ValueLike,
    *format_args: _ValueLike,
    format: _TextLike = "",
) -> _Call:
    """Stop with an error unless a condition holds."""

def relax_print(*values: _ValueLike, format: _TextLike = "") -> _Call:
    """Print values by a Python format, such as ``'{} of {}'``, or separated by spaces."""

def relax_shape_to_tensor(expr: _ShapeLike) -> _Call:
    """Return the extents of a shape as a tensor of int64."""

def render_object(value: _ValueLike) -> _Call:
    """Return the string that ``print`` writes for a value."""

def repeat(data: _TensorLike, repeats: _IntLike, axis: _IntLike | None = None) -> _Call:
    """Repeat each element along an axis, or all elements in row-major order."""

def reshape(x: _TensorLike, shape: _ShapeLike) -> _Call:
    """Change the shape, keeping elements in row-major order."""

def reverse_sequence(
    data: _TensorLike,
    seq_lengths: _TensorLike,
    seq_axis: _IntLike = 1,
    batch_axis: _IntLike = 0,
) -> _Call:
    """Reverse the first elements along an axis."""

def right_shift(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Shift bits down, keeping the sign."""

def round(x: _TensorLike) -> _Call:
    """Round to the nearest whole number, halves to even."""

def rsqrt(x: _TensorLike) -> _Call:
    """Compute reciprocal square roots."""

def scatter_elements(
    data: _TensorLike,
    indices: _TensorLike,
    updates: _TensorLike,
    axis: _IntLike = 0,
    reduction: _Literal["update", "add", "mul", "mean", "max", "min"] | _Expr = "update",
) -> _Call:
    """Copy ``data`` and write each update at its index along an axis, in row-major order."""

def scatter_nd(
    data: _TensorLike,
    indices: _TensorLike,
    updates: _TensorLike,
    reduction: _Literal["update", "add", "mul", "mean", "max", "min"] | _Expr = "update",
) -> _Call:
    """Copy ``data`` and write parts at the indices in the rows of ``indices``, in order."""

def shape_of(expr: _TensorLike) -> _Call:
    """Return the shape of a tensor."""

def shape_to_tensor(expr: _ShapeLike) -> _Call:
    """Return the extents of a shape as a tensor of int64."""

def sigmoid(x: _TensorLike) -> _Call:
    """Compute 1 / (1 + exp(-x))."""

def sign(x: _TensorLike) -> _Call:
    """Return the sign: -1, 0 or 1; NaN stays."""

def sin(x: _TensorLike) -> _Call:
    """Compute sines."""

def sinh(x: _TensorLike) -> _Call:
    """Compute hyperbolic sines."""

def size(expr: _TensorLike) -> _Call:
    """Count the elements of a tensor: an int64 tensor of rank 0."""

def slice_scatter(
    input_tensor: _TensorLike,
    src: _TensorLike,
    start: _ScalarLike,
    end: _ScalarLike,
    step: _IntLike = 1,
    axis: _IntLike = 0,
) -> _Call:
    """Copy a tensor and write another into a slice of it along an axis."""

def sort(x: _TensorLike, axis: _IntLike = -1, descending: _FlagLike = False) -> _Call:
    """Sort the elements along an axis; NaN comes last in either order."""

def split(x: _TensorLike, indices_or_sections: _SectionsLike, axis: _IntLike = 0) -> _Call:
    """Split an axis into a number of equal parts, or at indices."""

def sqrt(x: _TensorLike) -> _Call:
    """Compute square roots; of negative numbers they are NaN."""

def square(x: _TensorLike) -> _Call:
    """Multiply each element by itself; integers wrap."""

def squeeze(x: _TensorLike, axis: _AxesLike | None = None) -> _Call:
    """Drop axes of extent 1; by default all that are known to have it."""

def stack(tensors: _TensorsLike, axis: _IntLike = 0) -> _Call:
    """Join tensors of one shape and dtype along a new axis."""

def std(x: _TensorLike, axis: _AxesLike | None = None, keepdims: _FlagLike = False) -> _Call:
    """Compute standard deviations; NaN if there are no elements."""

def strided_slice(
    x: _TensorLike,
    axes: _AxesLike,
    begin: _TupleLike,
    end: _TupleLike,
    strides: _TupleLike | None = None,
    assume_inbound: _FlagLike = False,
) -> _Call:
    """Take slices along axes, as ``x[begin:end:stride]`` does in Python."""

def subtract(x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Subtract; integers wrap."""

def sum(x: _TensorLike, axis: _AxesLike | None = None, keepdims: _FlagLike = False) -> _Call:
    """Sum; integers wrap."""

def take(
    x: _TensorLike,
    indices: _ValueLike,
    axis: _IntLike | None = None,
    mode: _Literal["fast", "wrap", "clip", "nan"] | _Expr = "fast",
) -> _Call:
    """Take elements at indices along an axis, or of all elements in row-major order."""

def tan(x: _TensorLike) -> _Call:
    """Compute tangents."""

def tanh(x: _TensorLike) -> _Call:
    """Compute hyperbolic tangents."""

def tensor_to_shape(expr: _TensorLike) -> _Call:
    """Return the shape whose extents are the elements of a tensor."""

def tile(data: _TensorLike, repeats: _AxesLike) -> _Call:
    """Repeat the whole tensor along each axis; missing axes or counts are 1, in front."""

def to_vdevice(data: _ValueLike, dst_vdevice: _DeviceLike) -> _Call:
    """Copy a tensor, or those of a tuple, to a device."""

def topk(
    data: _TensorLike,
    k: _IntLike = 1,
    axis: _IntLike = -1,
    ret_type: _Literal["both", "values", "indices"] | _Expr = "both",
    largest: _FlagLike = True,
    dtype: _DTypeOption = "int32",
) -> _Call:
    """Return the ``k`` greatest elements along an axis in order, and their indices."""

def tril(x: _TensorLike, k: _ScalarLike = 0) -> _Call:
    """Keep the lower triangle, and set zeros above."""

def triu(x: _TensorLike, k: _ScalarLike = 0) -> _Call:
    """Keep the upper triangle, and set zeros below."""

def trunc(x: _TensorLike) -> _Call:
    """Round towards zero."""

def unique(
    x: _TensorLike,
    sorted: _FlagLike = True,
    return_index: _FlagLike = False,
    return_inverse: _FlagLike = False,
    return_counts: _FlagLike = False,
    axis: _IntLike | None = None,
) -> _Call:
    """Return distinct elements in ascending order; with ``axis``, distinct slices along it."""

def variance(x: _TensorLike, axis: _AxesLike | None = None, keepdims: _FlagLike = False) -> _Call:
    """Compute variances; NaN if there are no elements."""

def where(condition: _TensorLike, x1: _TensorLike, x2: _TensorLike) -> _Call:
    """Select elements of ``x1`` where the condition holds, of ``x2`` elsewhere."""

def wrap_param(data: _TensorLike, dtype: _DTypeOption = "float32") -> _Call:
    """Convert a parameter of a model to the dtype in which it is used, as ``astype`` does."""

def zeros(shape: _ShapeLike, dtype: _DTypeOption) -> _Call:
    """Fill a tensor with zeros."""

def zeros_like(x: _TensorLike, dtype: _DTypeOption | None = None) -> _Call:
    """Fill a tensor of the same shape, and by default the same dtype, with zeros."""

class _builtin:
    """The operators ``R.builtin``."""

    @_b.staticmethod
    def alloc_tensor(
        shape: _ShapeLike,
        dtype: _DTypeOption,
        runtime_device_index: _IntLike = 0,
        storage_scope: _TextLike = "global",
    ) -> _Call:
        """Allocate a tensor with undefined contents."""

    @_b.staticmethod
    def require_order(numbers: _ShapeLike, message: _TextLike, help: _TextLike = "") -> _Call:
        """Stop with an error if the first of two numbers is above the second."""

    @_b.staticmethod
    def stop_lift_params(x: _TensorLike) -> _Call:
        """Return the tensor, and keep passes from computing it ahead of time."""

builtin: _builtin

class _grad:
    """The operators ``R.grad``."""

    @_b.staticmethod
    def end_checkpoint(input: _TensorLike) -> _Call:
        """Mark the end of a part that gradients recompute."""

    @_b.staticmethod
    def no_grad(input: _TensorLike) -> _Call:
        """Mark a tensor through which no gradient flows."""

    @_b.staticmethod
    def start_checkpoint(input: _TensorLike) -> _Call:
        """Mark the start of a part that gradients recompute."""

grad: _grad

class _image:
    """The operators ``R.image``."""

    @_b.staticmethod
    def affine_grid(data: _TensorLike, size: _ShapeLike, align_corners: _FlagLike = True) -> _Call:
        """Compute sampling grids for ``R.image.grid_sample`` from affine maps."""

    @_b.staticmethod
    def grid_sample(
        data: _TensorLike,
        grid: _TensorLike,
        method: _Literal["nearest", "bilinear", "bicubic"] | _Expr = "bilinear",
        layout: _Literal["NCHW", "NHWC"] | _Expr = "NCHW",
        padding_mode: _Literal["zeros", "border", "reflection"] | _Expr = "zeros",
        align_corners: _FlagLike = True,
    ) -> _Call:
        """Sample images at the coordinates of a grid, one for each element of the result."""

    @_b.staticmethod
    def resize2d(
        data: _TensorLike,
        size: _ShapeLike,
        roi: _RealsLike | None = None,
        layout: _TextLike = "NCHW",
        method: _Literal["nearest_neighbor", "linear", "cubic"] | _Expr = "linear",
        coordinate_transformation_mode: _Literal["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn"] | _Expr = "half_pixel",
        rounding_method: _Literal["round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"] | _Expr = "round",
        cubic_alpha: _RealLike = -0.75,
        cubic_exclude: _FlagLike = False,
        extrapolation_value: _RealLike = 0.0,
        out_dtype: _DTypeOption | None = None,
    ) -> _Call:
        """Resize images, interpolating between the elements around each coordinate."""

    @_b.staticmethod
    def resize3d(
        data: _TensorLike,
        size: _ShapeLike,
        roi: _RealsLike | None = None,
        layout: _TextLike = "NCDHW",
        method: _Literal["nearest_neighbor", "linear", "cubic"] | _Expr = "linear",
        coordinate_transformation_mode: _Literal["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn"] | _Expr = "half_pixel",
        rounding_method: _Literal["round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"] | _Expr = "round",
        cubic_alpha: _RealLike = -0.75,
        cubic_exclude: _FlagLike = False,
        extrapolation_value: _RealLike = 0.0,
        out_dtype: _DTypeOption | None = None,
    ) -> _Call:
        """Resize images of three axes, as ``R.image.resize2d`` does those of two."""

image: _image

class _memory:
    """The operators ``R.memory``."""

    @_b.staticmethod
    def alloc_storage(
        size: _ShapeLike,
        virtual_device_index: _IntLike = 0,
        storage_scope: _TextLike = "global",
        dtype: _DTypeOption = "uint8",
    ) -> _Call:
        """Allocate storage for tensors, with undefined contents."""

    @_b.staticmethod
    def alloc_tensor(
        storage: _ValueLike,
        offset: _ScalarLike,
        shape: _ShapeLike,
        dtype: _DTypeOption,
        runtime_device_ind: _IntLike = 0,
    ) -> _Call:
        """Return a tensor in a storage, ``offset`` bytes from its start."""

    @_b.staticmethod
    def ensure_zero_offset(x: _TensorLike) -> _Call:
        """Return the tensor; every tensor starts at the beginning of its memory."""

    @_b.staticmethod
    def kill_storage(storage: _ValueLike) -> _Call:
        """Mark a storage as no longer used."""

    @_b.staticmethod
    def kill_tensor(tensor: _TensorLike) -> _Call:
        """Mark a tensor as no longer used."""

    @_b.staticmethod
    def view(
        data: _TensorLike,
        shape: _ShapeLike | None = None,
        dtype: _DTypeOption | None = None,
        relative_byte_offset: _IntLike = 0,
    ) -> _Call:
        """Return a view: the same memory with another shape and dtype."""

memory: _memory

class _nn:
    """The operators ``R.nn``."""

    @_b.staticmethod
    def adaptive_avg_pool1d(
        data: _TensorLike,
        output_size: _AxesLike | None = None,
        layout: _TextLike = "NCW",
        out_layout: _TextLike | None = None,
    ) -> _Call:
        """Take the mean of each of ``output_size`` windows that cover the image evenly."""

    @_b.staticmethod
    def adaptive_avg_pool2d(
        data: _TensorLike,
        output_size: _AxesLike | None = None,
        layout: _TextLike = "NCHW",
        out_layout: _TextLike | None = None,
    ) -> _Call:
        """Take the mean of each of ``output_size`` windows that cover the image evenly."""

    @_b.staticmethod
    def adaptive_avg_pool3d(
        data: _TensorLike,
        output_size: _AxesLike | None = None,
        layout: _TextLike = "NCDHW",
        out_layout: _TextLike | None = None,
    ) -> _Call:
        """Take the mean of each of ``output_size`` windows that cover the image evenly."""

    @_b.staticmethod
    def attention(
        query: _TensorLike,
        key: _TensorLike,
        value: _TensorLike,
        bias: _TensorLike | None = None,
        scale: _RealLike | None = None,
        causal_mask: _Literal["TopLeft", "BottomRight"] | _Expr | None = None,
        window_size: _IntLike | None = None,
    ) -> _Call:
        """Compute attention, a mean of values weighted by keys: ``softmax(q k^T * scale + bias) v``."""

    @_b.staticmethod
    def attention_bias(
        query: _TensorLike,
        key: _TensorLike,
        value: _TensorLike,
        bias: _TensorLike,
        scale: _RealLike | None = None,
        causal_mask: _Literal["TopLeft", "BottomRight"] | _Expr | None = None,
        window_size: _IntLike | None = None,
    ) -> _Call:
        """Compute attention, a mean of values weighted by keys: ``softmax(q k^T * scale + bias) v``."""

    @_b.staticmethod
    def attention_var_len(
        queries: _TensorLike,
        keys: _TensorLike,
        values: _TensorLike,
        seqstart_q: _TensorLike,
        max_seqlen_q: _TensorLike | None = None,
        seqstart_k: _TensorLike | None = None,
        max_seqlen_k: _TensorLike | None = None,
        scale: _RealLike | None = None,
        causal_mask: _Literal["TopLeft", "BottomRight"] | _Expr | None = None,
        window_size: _IntLike | None = None,
    ) -> _Call:
        """Compute attention within each of several packed sequences."""

    @_b.staticmethod
    def avg_pool1d(
        data: _TensorLike,
        pool_size: _AxesLike = (1,),
        strides: _AxesLike = (1,),
        padding: _AxesLike = (0, 0),
        dilation: _AxesLike = (1,),
        ceil_mode: _FlagLike = False,
        count_include_pad: _FlagLike = True,
        layout: _TextLike = "NCW",
        out_layout: _TextLike | None = None,
    ) -> _Call:
        """Take the mean of each window's elements."""

    @_b.staticmethod
    def avg_pool2d(
        data: _TensorLike,
        pool_size: _AxesLike = (1, 1),
        strides: _AxesLike = (1, 1),
        padding: _AxesLike = (0, 0, 0, 0),
        dilation: _AxesLike = (1, 1),
        ceil_mode: _FlagLike = False,
        count_include_pad: _FlagLike = False,
        layout: _TextLike = "NCHW",
        out_layout: _TextLike | None = None,
    ) -> _Call:
        """Take the mean of each window's elements."""

    @_b.staticmethod
    def avg_pool3d(
        data: _TensorLike,
        pool_size: _AxesLike = (1, 1, 1),
        strides: _AxesLike = (1, 1, 1),
        padding: _AxesLike = (0, 0, 0, 0, 0, 0),
        dilation: _AxesLike = (1, 1, 1),
        ceil_mode: _FlagLike = False,
        count_include_pad: _FlagLike = True,
        layout: _TextLike = "NCDHW",
        out_layout: _TextLike | None = None,
    ) -> _Call:
        """Take the mean of each window's elements."""

    @_b.staticmethod
    def batch_flatten(data: _TensorLike) -> _Call:
        """Flatten each item to one axis, in row-major order."""

    @_b.staticmethod
    def batch_norm(
        data: _TensorLike,
        gamma: _TensorLike,
        beta: _TensorLike,
        moving_mean: _TensorLike,
        moving_var: _TensorLike,
        axis: _IntLike,
        epsilon: _RealLike = 1e-05,
        center: _FlagLike = True,
        scale: _FlagLike = True,
        momentum: _RealLike = 0.1,
        training: _FlagLike = True,
    ) -> _Call:
        """Shift and scale channels to mean 0 and variance 1, then by ``gamma`` and ``beta``."""

    @_b.staticmethod
    def conv1d(
        data: _TensorLike,
        weight: _TensorLike,
        strides: _AxesLike = (1,),
        padding: _AxesLike = (0, 0),
        dilation: _AxesLike = (1,),
        groups: _IntLike = 1,
        data_layout: _TextLike = "NCW",
        kernel_layout: _TextLike = "OIW",
        out_layout: _TextLike | None = None,
        out_dtype: _DTypeOption | None = None,
    ) -> _Call:
        """Convolve images with kernels."""

    @_b.staticmethod
    def conv1d_transpose(
        data: _TensorLike,
        weight: _TensorLike,
        strides: _AxesLike = (1,),
        padding: _AxesLike = (0, 0),
        output_padding: _AxesLike = (0,),
        dilation: _AxesLike = (1,),
        groups: _IntLike = 1,
        data_layout: _TextLike = "NCW",
        kernel_layout: _TextLike = "IOW",
        out_layout: _TextLike | None = None,
        out_dtype: _DTypeOption | None = None,
    ) -> _Call:
        """Compute transposed convolutions: scatter elements by the kernel, and sum."""

    @_b.staticmethod
    def conv2d(
        data: _TensorLike,
        weight: _TensorLike,
        strides: _AxesLike = (1, 1),
        padding: _AxesLike = (0, 0, 0, 0),
        dilation: _AxesLike = (1, 1),
        groups: _IntLike = 1,
        data_layout: _TextLike = "NCHW",
        kernel_layout: _TextLike = "OIHW",
        out_layout: _TextLike | None = None,
        out_dtype: _DTypeOption | None = None,
    ) -> _Call:
        """Convolve images with kernels."""

    @_b.staticmethod
    def conv2d_transpose(
        data: _TensorLike,
        weight: _TensorLike,
        strides: _AxesLike = (1, 1),
        padding: _AxesLike = (0, 0, 0, 0),
        output_padding: _AxesLike = (0, 0),
        dilation: _AxesLike = (1, 1),
        groups: _IntLike = 1,
        data_layout: _TextLike = "NCHW",
        kernel_layout: _TextLike = "IOHW",
        out_layout: _TextLike | None = None,
        out_dtype: _DTypeOption | None = None,
    ) -> _Call:
        """Compute transposed convolutions: scatter elements by the kernel, and sum."""

    @_b.staticmethod
    def conv3d(
        data: _TensorLike,
        weight: _TensorLike,
        strides: _AxesLike = (1, 1, 1),
        padding: _AxesLike = (0, 0, 0, 0, 0, 0),
        dilation: _AxesLike = (1, 1, 1),
        groups: _IntLike = 1,
        data_layout: _TextLike = "NCDHW",
        kernel_layout: _TextLike = "OIDHW",
        out_layout: _TextLike | None = None,
        out_dtype: _DTypeOption | None = None,
    ) -> _Call:
        """Convolve images with kernels."""

    @_b.staticmethod
    def conv3d_transpose(
        data: _TensorLike,
        weight: _TensorLike,
        strides: _AxesLike = (1, 1, 1),
        padding: _AxesLike = (0, 0, 0, 0, 0, 0),
        output_padding: _AxesLike = (0, 0, 0),
        dilation: _AxesLike = (1, 1, 1),
        groups: _IntLike = 1,
        data_layout: _TextLike = "NCDHW",
        kernel_layout: _TextLike = "IODHW",
        out_layout: _TextLike | None = None,
        out_dtype: _DTypeOption | None = None,
    ) -> _Call:
        """Compute transposed convolutions: scatter elements by the kernel, and sum."""

    @_b.staticmethod
    def cross_entropy_with_logits(predictions: _TensorLike, labels: _TensorLike) -> _Call:
        """Compute the cross entropy of log-probabilities and labels, averaged over items."""

    @_b.staticmethod
    def dropout(data: _TensorLike, rate: _RealLike = 0.5) -> _Call:
        """Return a tensor as it is, and a mask of ones, since this is inference."""

    @_b.staticmethod
    def gelu(data: _TensorLike) -> _Call:
        """Compute x times the normal distribution's probability below x; at minus infinity it is NaN."""

    @_b.staticmethod
    def gelu_tanh(data: _TensorLike) -> _Call:
        """Approximate gelu by a hyperbolic tangent; at minus infinity it is NaN."""

    @_b.staticmethod
    def group_norm(
        data: _TensorLike,
        gamma: _TensorLike,
        beta: _TensorLike,
        num_groups: _IntLike,
        channel_axis: _IntLike,
        axes: _AxesLike,
        epsilon: _RealLike = 1e-05,
        center: _FlagLike = True,
        scale: _FlagLike = True,
    ) -> _Call:
        """Shift and scale groups of channels of each item to mean 0 and variance 1."""

    @_b.staticmethod
    def instance_norm(
        data: _TensorLike,
        gamma: _TensorLike,
        beta: _TensorLike,
        channel_axis: _IntLike,
        axes: _AxesLike,
        epsilon: _RealLike = 1e-05,
        center: _FlagLike = True,
        scale: _FlagLike = True,
    ) -> _Call:
        """Shift and scale each channel of each item to mean 0 and variance 1 over ``axes``."""

    @_b.staticmethod
    def layer_norm(
        data: _TensorLike,
        gamma: _TensorLike,
        beta: _TensorLike,
        axes: _AxesLike,
        epsilon: _RealLike = 1e-05,
        center: _FlagLike = True,
        scale: _FlagLike = True,
    ) -> _Call:
        """Shift and scale elements over axes to mean 0 and variance 1, then by weights."""

    @_b.staticmethod
    def leakyrelu(data: _TensorLike, alpha: _RealLike = 0.01) -> _Call:
        """Multiply negative elements by ``alpha``."""

    @_b.staticmethod
    def log_softmax(data: _TensorLike, axis: _IntLike = -1) -> _Call:
        """Compute the logarithm of the softmax along an axis, accurate for small values."""

    @_b.staticmethod
    def max_pool1d(
        data: _TensorLike,
        pool_size: _AxesLike = (1,),
        strides: _AxesLike = (1,),
        padding: _AxesLike = (0, 0),
        dilation: _AxesLike = (1,),
        ceil_mode: _FlagLike = False,
        count_include_pad: _FlagLike = False,
        layout: _TextLike = "NCW",
        out_layout: _TextLike | None = None,
    ) -> _Call:
        """Take the maximum of each window; NaN counts as the greatest."""

    @_b.staticmethod
    def max_pool2d(
        data: _TensorLike,
        pool_size: _AxesLike = (1, 1),
        strides: _AxesLike = (1, 1),
        padding: _AxesLike = (0, 0, 0, 0),
        dilation: _AxesLike = (1, 1),
        ceil_mode: _FlagLike = False,
        count_include_pad: _FlagLike = False,
        layout: _TextLike = "NCHW",
        out_layout: _TextLike | None = None,
    ) -> _Call:
        """Take the maximum of each window; NaN counts as the greatest."""

    @_b.staticmethod
    def max_pool3d(
        data: _TensorLike,
        pool_size: _AxesLike = (1, 1, 1),
        strides: _AxesLike = (1, 1, 1),
        padding: _AxesLike = (0, 0, 0, 0, 0, 0),
        dilation: _AxesLike = (1, 1, 1),
        ceil_mode: _FlagLike = False,
        count_include_pad: _FlagLike = False,
        layout: _TextLike = "NCDHW",
        out_layout: _TextLike | None = None,
    ) -> _Call:
        """Take the maximum of each window; NaN counts as the greatest."""

    @_b.staticmethod
    def nll_loss(
        predictions: _TensorLike,
        targets: _TensorLike,
        weights: _TensorLike | None = None,
        reduction: _Literal["none", "sum", "mean"] | _Expr = "mean",
        ignore_index: _IntLike = -100,
    ) -> _Call:
        """Compute the negative log-likelihood of targets, times their weights."""

    @_b.staticmethod
    def pad(
        data: _TensorLike,
        pad_width: _IntsLike,
        pad_mode: _Literal["constant", "reflect", "replicate", "circular"] | _Expr = "constant",
        pad_value: _RealLike = 0.0,
    ) -> _Call:
        """Add elements before and after each axis; ``pad_width`` has two numbers for each."""

    @_b.staticmethod
    def pixel_shuffle(data: _TensorLike, upscale_factor: _IntLike) -> _Call:
        """Upscale images: each group of channels becomes a block of elements."""

    @_b.staticmethod
    def prelu(data: _TensorLike, alpha: _TensorLike, axis: _IntLike = 1) -> _Call:
        """Multiply negative elements by the slope of their channel."""

    @_b.staticmethod
    def relu(data: _TensorLike) -> _Call:
        """Take the greater of each element and 0; NaN stays."""

    @_b.staticmethod
    def relu6(data: _TensorLike) -> _Call:
        """Clip elements to the range 0 to 6; NaN stays."""

    @_b.staticmethod
    def rms_norm(
        data: _TensorLike,
        weight: _TensorLike,
        axes: _AxesLike = (-1,),
        epsilon: _RealLike = 1e-05,
    ) -> _Call:
        """Scale elements to a mean square of 1 over axes, then by ``weight``."""

    @_b.staticmethod
    def selu(data: _TensorLike) -> _Call:
        """Compute the scaled elu of self-normalising networks."""

    @_b.staticmethod
    def silu(data: _TensorLike) -> _Call:
        """Compute x / (1 + exp(-x)); at minus infinity it is NaN."""

    @_b.staticmethod
    def softmax(data: _TensorLike, axis: _IntLike = -1) -> _Call:
        """Compute the softmax along an axis."""

    @_b.staticmethod
    def softplus(data: _TensorLike, beta: _RealLike = 1.0, threshold: _RealLike = 20.0) -> _Call:
        """Compute log(1 + exp(beta * x)) / beta; x itself if beta * x exceeds ``threshold``."""

nn: _nn

class _vision:
    """The operators ``R.vision``."""

    @_b.staticmethod
    def roi_align(
        data: _TensorLike,
        rois: _TensorLike,
        pooled_size: _IntsLike,
        spatial_scale: _RealLike,
        sample_ratio: _IntLike = -1,
        aligned: _FlagLike = False,
        layout: _Literal["NCHW", "NHWC"] | _Expr = "NCHW",
        mode: _Literal["avg", "max"] | _Expr = "avg",
    ) -> _Call:
        """Resample regions of images to a fixed size (region of interest align)."""

vision: _vision

class _vm:
    """The operators ``R.vm``."""

    @_b.staticmethod
    def alloc_storage(
        size: _ShapeLike,
        runtime_device_index: _IntLike = 0,
        dtype: _DTypeOption = "uint8",
        storage_scope: _TextLike = "global",
    ) -> _Call:
        """Allocate storage for tensors, as ``R.memory.alloc_storage`` does."""

    @_b.staticmethod
    def alloc_tensor(
        storage: _ValueLike,
        offset: _ScalarLike,
        shape: _ShapeLike,
        dtype: _DTypeOption,
        runtime_device_ind: _IntLike = 0,
    ) -> _Call:
        """Return a tensor in a storage, as ``R.memory.alloc_tensor`` does."""

    @_b.staticmethod
    def call_tir_dyn(func: _FunctionLike, args: _ArgsLike) -> _Call:
        """Call a kernel on tensors that it reads and writes, and on the extents of a shape."""

    @_b.staticmethod
    def kill_object(obj: _ValueLike) -> _Call:
        """Mark a value as no longer used."""

vm: _vm
