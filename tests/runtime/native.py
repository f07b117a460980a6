"""Native entries in LLVM IR written by hand, in the form that the code generator gives them.

``compile_ir`` turns IR into an address; the texts here follow the calling convention that
``loomir.runtime.layout`` describes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm

from loomir.runtime import Fault, FaultKind, Function, Parameter, ffi
from loomir.runtime import layout as at
from loomir.support.diagnostics import Diagnostic, RunError
from loomir.support.dtype import DataType

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

_counter = itertools.count()
F32 = DataType("float32")

PRELUDE = f"""
@kind = private constant [12 x i8] c"LoomirFault\\00"
@format = private constant [20 x i8] c"%d;%lld;%lld;%lld;0\\00"
declare i32 @snprintf(ptr, i64, ptr, ...)
declare void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)

define private i32 @fault(i32 %site, i64 %v0, i64 %v1, i64 %v2) {{
  %text = alloca [128 x i8]
  call i32 (ptr, i64, ptr, ...) @snprintf(ptr %text, i64 128, ptr @format, i32 %site,
                                          i64 %v0, i64 %v1, i64 %v2)
  call void @TVMFFIErrorSetRaisedFromCStr(ptr @kind, ptr %text)
  ret i32 -1
}}

; The DLTensor of an argument, or NULL if it is no CPU tensor of that dtype with one axis.
define private ptr @tensor(ptr %args, i32 %index, i8 %code, i8 %bits) {{
  %off = mul i32 %index, {at.ANY_SIZE}
  %any = getelementptr i8, ptr %args, i32 %off
  %type = load i32, ptr %any
  %slot = getelementptr i8, ptr %any, i32 {at.ANY_VALUE}
  %value = load ptr, ptr %slot
  %inner = getelementptr i8, ptr %value, i32 {at.TENSOR_OBJECT_DLTENSOR}
  %is.object = icmp eq i32 %type, {at.TYPE_TENSOR}
  %is.plain = icmp eq i32 %type, {at.TYPE_DLTENSOR_PTR}
  %t = select i1 %is.object, ptr %inner, ptr %value
  %any.tensor = or i1 %is.object, %is.plain
  br i1 %any.tensor, label %check, label %bad
check:
  %pc = getelementptr i8, ptr %t, i32 {at.DLTENSOR_CODE}
  %c = load i8, ptr %pc
  %pb = getelementptr i8, ptr %t, i32 {at.DLTENSOR_BITS}
  %b = load i8, ptr %pb
  %pl = getelementptr i8, ptr %t, i32 {at.DLTENSOR_LANES}
  %l = load i16, ptr %pl
  %pn = getelementptr i8, ptr %t, i32 {at.DLTENSOR_NDIM}
  %n = load i32, ptr %pn
  %pd = getelementptr i8, ptr %t, i32 {at.DLTENSOR_DEVICE_TYPE}
  %d = load i32, ptr %pd
  %ok1 = icmp eq i8 %c, %code
  %ok2 = icmp eq i8 %b, %bits
  %ok3 = icmp eq i16 %l, 1
  %ok4 = icmp eq i32 %n, 1
  %ok5 = icmp eq i32 %d, {at.DEVICE_CPU}
  %a1 = and i1 %ok1, %ok2
  %a2 = and i1 %ok3, %ok4
  %a3 = and i1 %a1, %a2
  %a4 = and i1 %a3, %ok5
  br i1 %a4, label %good, label %bad
good:
  ret ptr %t
bad:
  ret ptr null
}}

define private ptr @data(ptr %t) {{
  %p = load ptr, ptr %t
  %po = getelementptr i8, ptr %t, i32 {at.DLTENSOR_BYTE_OFFSET}
  %o = load i64, ptr %po
  %d = getelementptr i8, ptr %p, i64 %o
  ret ptr %d
}}

define private i64 @extent(ptr %t) {{
  %ps = getelementptr i8, ptr %t, i32 {at.DLTENSOR_SHAPE}
  %s = load ptr, ptr %ps
  %n = load i64, ptr %s
  ret i64 %n
}}

define private i64 @stride(ptr %t) {{
  %ps = getelementptr i8, ptr %t, i32 {at.DLTENSOR_STRIDES}
  %s = load ptr, ptr %ps
  %null = icmp eq ptr %s, null
  br i1 %null, label %one, label %given
given:
  %n = load i64, ptr %s
  ret i64 %n
one:
  ret i64 1
}}

define private void @result(ptr %ret, i32 %type, i64 %value) {{
  store i32 %type, ptr %ret
  %pp = getelementptr i8, ptr %ret, i32 {at.ANY_PADDING}
  store i32 0, ptr %pp
  %pv = getelementptr i8, ptr %ret, i32 {at.ANY_VALUE}
  store i64 %value, ptr %pv
  ret void
}}
"""


def entry(arity: int, body: str) -> str:
    """An entry that refuses another number of arguments, then runs ``body`` (from label ``go``)."""
    return f"""
define i32 @entry(ptr %self, ptr %args, i32 %n, ptr %ret) {{
  %right = icmp eq i32 %n, {arity}
  br i1 %right, label %go, label %bad
bad:
  %r.bad = call i32 @fault(i32 {at.SITE_ARGUMENTS}, i64 0, i64 0, i64 0)
  ret i32 %r.bad
go:
{body}
}}
"""


def elementwise(code: int, bits: int, type_: str, combine: str, inputs: int) -> str:
    """``out[i] = combine(in0[i], in1[i])`` on vectors; fault 0 with (n, -1, 7) where n is 13."""
    names = [f"i{k}" for k in range(inputs)] + ["out"]
    lines: list[str] = []
    for k, name in enumerate(names):
        lines += [
            f"  %{name} = call ptr @tensor(ptr %args, i32 {k}, i8 {code}, i8 {bits})",
            f"  %{name}.null = icmp eq ptr %{name}, null",
            f"  br i1 %{name}.null, label %bad, label %have.{name}",
            f"have.{name}:",
            f"  %{name}.n = call i64 @extent(ptr %{name})",
            f"  %{name}.s = call i64 @stride(ptr %{name})",
            f"  %{name}.d = call ptr @data(ptr %{name})",
            f"  %{name}.same = icmp eq i64 %{name}.n, %i0.n",
            f"  br i1 %{name}.same, label %fit.{name}, label %bad",
            f"fit.{name}:",
        ]
    loads: list[str] = []
    for name in names:
        loads.append(f"  %{name}.o = mul i64 %i, %{name}.s")
        loads.append(f"  %{name}.p = getelementptr {type_}, ptr %{name}.d, i64 %{name}.o")
        if name != "out":
            loads.append(f"  %{name}.v = load {type_}, ptr %{name}.p, align 1")
    lines += [
        "  %unlucky = icmp eq i64 %i0.n, 13",
        "  br i1 %unlucky, label %stop, label %head.pre",
        "stop:",
        "  %r.stop = call i32 @fault(i32 0, i64 %i0.n, i64 -1, i64 7)",
        "  ret i32 %r.stop",
        "head.pre:",
        "  br label %head",
        "head:",
        "  %i = phi i64 [0, %head.pre], [%next, %loop]",
        "  %more = icmp slt i64 %i, %i0.n",
        "  br i1 %more, label %loop, label %end",
        "loop:",
        *loads,
        f"  %v = {combine}",
        f"  store {type_} %v, ptr %out.p, align 1",
        "  %next = add i64 %i, 1",
        "  br label %head",
        "end:",
        "  ret i32 0",
    ]
    return entry(inputs + 1, "\n".join(lines))


ADD_F32 = elementwise(at.CODE_FLOAT, 32, "float", "fadd float %i0.v, %i1.v", 2)
COPY_F32 = elementwise(at.CODE_FLOAT, 32, "float", "fadd float %i0.v, -0.0", 1)
COPY_BF16 = elementwise(at.CODE_BFLOAT, 16, "i16", "add i16 %i0.v, 0", 1)
NOT_BOOL = elementwise(at.CODE_BOOL, 8, "i8", "xor i8 %i0.v, 1", 1)

_FIRST = f"""
  %type = load i32, ptr %args
  %slot = getelementptr i8, ptr %args, i32 {at.ANY_VALUE}
  %v = load i64, ptr %slot
"""


def identity(types: Sequence[int], result: int) -> str:
    """Return the first argument's 64 bits as ``result`` if its type is one of ``types``."""
    lines = [_FIRST]
    for k, type_ in enumerate(types):
        lines.append(f"  %is{k} = icmp eq i32 %type, {type_}")
        lines.append(f"  br i1 %is{k}, label %yes, label %no{k}\nno{k}:")
    lines.append("  br label %bad\nyes:")
    lines.append(f"  call void @result(ptr %ret, i32 {result}, i64 %v)\n  ret i32 0")
    return entry(1, "\n".join(lines))


ID_INT = identity([at.TYPE_INT, at.TYPE_BOOL], at.TYPE_INT)
ID_UINT64 = identity([at.TYPE_INT, at.TYPE_OPAQUE_PTR], at.TYPE_INT)
ID_BOOL = identity([at.TYPE_BOOL], at.TYPE_BOOL)
ID_FLOAT = identity([at.TYPE_FLOAT], at.TYPE_FLOAT)
HANDLE_BITS = identity([at.TYPE_OPAQUE_PTR, at.TYPE_NONE], at.TYPE_INT)
NOTHING = entry(0, "  ret i32 0")
RAISES = entry(0, "  %r = call i32 @fault(i32 5, i64 0, i64 0, i64 0)\n  ret i32 %r")


@dataclass
class Code:
    """Compiled IR: the address of ``@entry`` and what owns it."""

    address: int
    engine: object


def compile_ir(text: str) -> Code:
    """Compile the prelude and an entry."""
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    jit = llvm.create_lljit_compiler(machine)
    builder = llvm.JITLibraryBuilder().add_ir(PRELUDE + text).export_symbol("entry")
    builder.import_symbol(
        "TVMFFIErrorSetRaisedFromCStr", ffi.native_symbols()["TVMFFIErrorSetRaisedFromCStr"]
    )
    builder.add_current_process()
    tracker = builder.link(jit, f"library{next(_counter)}")
    return Code(tracker["entry"], (jit, tracker))


class Explainer:
    """An ``explain`` callback that keeps what it was asked and raises, or not."""

    def __init__(self, silent: bool = False) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.silent = silent

    def __call__(self, args: tuple[object, ...]) -> None:
        """Raise the error that stands for the explanation of ``build``."""
        self.asked.append(args)
        if not self.silent:
            raise RunError(Diagnostic("RUN0001", "explained"))


FAULTS = (Fault(FaultKind.ASSERTION, ("n is ", 0, ", {not} ", 1, " or ", 2)),)


def buffer(name: str, dtype: str = "float32", written: bool = False) -> Parameter:
    """A buffer parameter."""
    return Parameter(name, DataType(dtype), is_buffer=True, is_written=written)


def scalar(name: str, dtype: str) -> Parameter:
    """A scalar parameter."""
    return Parameter(name, DataType(dtype), is_buffer=False)


def function(
    text: str,
    *parameters: Parameter,
    explain: Explainer | None = None,
    faults: Sequence[Fault] = FAULTS,
    returns: str | None = None,
) -> Function:
    """A ``Function`` around an entry in IR."""
    holder: list[object] = []

    def address() -> int:
        code = compile_ir(text)
        holder.append(code.engine)
        return code.address

    return Function(
        "f",
        parameters,
        address,
        faults,
        explain or Explainer(),
        keep_alive=holder,
        returns=None if returns is None else DataType(returns),
    )


def add_f32(explain: Explainer | None = None) -> Function:
    """``C = A + B`` on float32 vectors."""
    return function(ADD_F32, buffer("A"), buffer("B"), buffer("C", written=True), explain=explain)
