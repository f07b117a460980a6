"""Append LLVM instructions to a block, with type checks.

A ``Builder`` appends to one block. Each method checks the types of its operands, raises
``InternalError`` if they do not fit, and returns the result as a typed ``Value``. No instruction
carries fast-math flags. Loads and stores assume the alignment of one element unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from loomir.codegen.llvm.assembler.folding import fold_binary, fold_comparison
from loomir.codegen.llvm.assembler.text import Block, Callee, Function, Metadata, Phi
from loomir.codegen.llvm.assembler.types import I1, I64, PTR, VOID, Type, struct, vector
from loomir.codegen.llvm.assembler.values import NOTHING, Value, const, poison
from loomir.support.diagnostics import InternalError

__all__ = ["Builder"]

_ORDERINGS: Final = frozenset(["monotonic", "acquire", "release", "acq_rel", "seq_cst"])
_RMW_FLOAT: Final = frozenset(["fadd", "fsub", "fmax", "fmin"])
_RMW_INT: Final = frozenset(
    ["add", "sub", "and", "nand", "or", "xor", "max", "min", "umax", "umin"]
)
_ICMP: Final = frozenset(["eq", "ne", "ugt", "uge", "ult", "ule", "sgt", "sge", "slt", "sle"])
_FCMP: Final = frozenset(
    [
        "oeq",
        "ogt",
        "oge",
        "olt",
        "ole",
        "one",
        "ord",
        "ueq",
        "ugt",
        "uge",
        "ult",
        "ule",
        "une",
        "uno",
    ]
)
_WRAP_FLAGS: Final = frozenset(["", "nsw", "nuw", "nuw nsw"])

Binary = Callable[["Builder", Value, Value], Value]
Cast = Callable[["Builder", Value, Type], Value]
Meta = Mapping[str, Metadata]


def _wrong(what: str, *operands: Value | Type) -> InternalError:
    listed = ", ".join(o.text if isinstance(o, Type) else o.typed for o in operands)
    return InternalError(f"{what} does not take ({listed})")


def _int_binary(op: str) -> Binary:
    def emit(self: Builder, x: Value, y: Value) -> Value:
        t = x.type
        if t is not y.type or not t.is_int:
            raise _wrong(op, x, y)
        if t.kind == "int" and (x.text[0] != "%" or y.text[0] != "%"):
            folded = fold_binary(op, x, y)
            if folded is not None:
                return folded
        return self.pure(t, f"{op} {t.text} {x.text}, {y.text}")

    emit.__doc__ = f"Emit ``{op}`` on integers, lane by lane."
    return emit


def _float_binary(op: str) -> Binary:
    def emit(self: Builder, x: Value, y: Value) -> Value:
        t = x.type
        if t is not y.type or not t.is_float:
            raise _wrong(op, x, y)
        return self.pure(t, f"{op} {t.text} {x.text}, {y.text}")

    emit.__doc__ = f"Emit ``{op}`` on floats, lane by lane."
    return emit


def _cast(op: str, fits: Callable[[Type, Type], bool]) -> Cast:
    def emit(self: Builder, x: Value, to: Type) -> Value:
        t = x.type
        if t.lanes != to.lanes or not fits(t, to):
            raise _wrong(f"{op} to {to.text}", x)
        return self.pure(to, f"{op} {t.text} {x.text} to {to.text}")

    emit.__doc__ = f"Emit ``{op}``, lane by lane."
    return emit


class Builder:
    """Writes instructions at the end of ``block``; ``position_at_end`` moves it."""

    # Slots, since every instruction reads them; `emit` appends a line to the open block.
    __slots__ = ("_suffix", "block", "emit", "function", "known", "module", "serial")

    emit: Callable[[str], object]
    serial: Callable[[], int]

    def __init__(self, function: Function, block: Block | None = None) -> None:
        self.function = function
        self.module = function.module
        self._suffix = ""
        self.serial = function.serial
        self.position_at_end(block or function.entry)

    # -- position ------------------------------------------------------------------------------
    def position_at_end(self, block: Block) -> None:
        """Go on at the end of ``block``, which must be open."""
        if block.function is not self.function:
            raise InternalError(f"block %{block.label} is of another function")
        self.block = block
        self.known = block.known
        self._choose_emit()

    def append(self, hint: str = "b") -> Block:
        """Append a new block to the function; the builder stays where it is."""
        return self.function.block(hint)

    @property
    def is_open(self) -> bool:
        """Whether the block still lacks its terminator."""
        return not self.block.terminated

    def locate(self, location: Metadata | None) -> None:
        """Attach a ``!DILocation`` to the instructions that follow."""
        self._suffix = "" if location is None else f", !dbg {location.text}"
        self._choose_emit()

    def _choose_emit(self) -> None:
        append = self.block.lines.append
        suffix = self._suffix
        if self.block.terminated:
            self.emit = self._refuse
        elif suffix:
            self.emit = lambda line: append(line + suffix)
        else:
            self.emit = append

    def _refuse(self, line: str) -> None:
        raise InternalError(f"block %{self.block.label} has ended, before: {line.strip()}")

    def _end(self, line: str) -> None:
        self.emit(line)
        self.block.terminated = True
        self.emit = self._refuse

    # -- arithmetic ----------------------------------------------------------------------------
    add: ClassVar[Binary] = _int_binary("add")
    sub: ClassVar[Binary] = _int_binary("sub")
    mul: ClassVar[Binary] = _int_binary("mul")
    udiv: ClassVar[Binary] = _int_binary("udiv")
    sdiv: ClassVar[Binary] = _int_binary("sdiv")
    urem: ClassVar[Binary] = _int_binary("urem")
    srem: ClassVar[Binary] = _int_binary("srem")
    shl: ClassVar[Binary] = _int_binary("shl")
    lshr: ClassVar[Binary] = _int_binary("lshr")
    ashr: ClassVar[Binary] = _int_binary("ashr")
    and_: ClassVar[Binary] = _int_binary("and")
    or_: ClassVar[Binary] = _int_binary("or")
    xor: ClassVar[Binary] = _int_binary("xor")
    fadd: ClassVar[Binary] = _float_binary("fadd")
    fsub: ClassVar[Binary] = _float_binary("fsub")
    fmul: ClassVar[Binary] = _float_binary("fmul")
    fdiv: ClassVar[Binary] = _float_binary("fdiv")
    # No `frem`: LLVM turns it into a call of fmod, which mathlib makes explicit.

    def emit_flagged(self, op: str, x: Value, y: Value, flags: str) -> Value:
        """Emit add, sub, mul or shl with the flags ``nsw``, ``nuw`` or ``nuw nsw``."""
        t = x.type
        fits = t is y.type and t.is_int and flags in _WRAP_FLAGS
        if not fits or op not in ("add", "sub", "mul", "shl"):
            raise _wrong(f"{op} {flags}", x, y)
        return self.pure(t, f"{op} {flags} {t.text} {x.text}, {y.text}")

    def fneg(self, x: Value) -> Value:
        """Flip the sign bit, of NaN too."""
        if not x.type.is_float:
            raise _wrong("fneg", x)
        return self.pure(x.type, f"fneg {x.typed}")

    def neg(self, x: Value) -> Value:
        """Negate an integer, wrapping."""
        return self.sub(const(x.type, 0), x)

    def not_(self, x: Value) -> Value:
        """Flip every bit."""
        return self.xor(x, const(x.type, -1))

    def icmp(self, predicate: str, x: Value, y: Value) -> Value:
        """Compare integers or pointers: eq ne ugt uge ult ule sgt sge slt sle."""
        t = x.type
        if t is not y.type or not (t.is_int or t.is_ptr) or predicate not in _ICMP:
            raise _wrong(f"icmp {predicate}", x, y)
        if t.kind == "int" and x.text[0] != "%" and y.text[0] != "%":
            folded = fold_comparison(predicate, x, y)
            if folded is not None:
                return folded
        return self.pure(t.mask, f"icmp {predicate} {t.text} {x.text}, {y.text}")

    def fcmp(self, predicate: str, x: Value, y: Value) -> Value:
        """Compare floats; if one is NaN, ``o..`` is false and ``u..`` true."""
        t = x.type
        if t is not y.type or not t.is_float or predicate not in _FCMP:
            raise _wrong(f"fcmp {predicate}", x, y)
        return self.pure(t.mask, f"fcmp {predicate} {t.text} {x.text}, {y.text}")

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """Choose ``x`` if the condition holds, else ``y``; as a whole or lane by lane."""
        t, c = x.type, condition.type
        if t is not y.type or not (c is I1 or c is t.mask) or not t.is_first_class:
            raise _wrong("select", condition, x, y)
        if c is I1 and condition.text in ("true", "false"):
            return x if condition.text == "true" else y
        return self.pure(
            t, f"select {c.text} {condition.text}, {t.text} {x.text}, {t.text} {y.text}"
        )

    def freeze(self, x: Value) -> Value:
        """Replace poison by an arbitrary value, the same for all uses."""
        return self._result(x.type, f"freeze {x.typed}")

    # -- casts ---------------------------------------------------------------------------------
    trunc: ClassVar[Cast] = _cast("trunc", lambda a, b: a.is_int and b.is_int and a.bits > b.bits)
    zext: ClassVar[Cast] = _cast("zext", lambda a, b: a.is_int and b.is_int and a.bits < b.bits)
    sext: ClassVar[Cast] = _cast("sext", lambda a, b: a.is_int and b.is_int and a.bits < b.bits)
    fptrunc: ClassVar[Cast] = _cast(
        "fptrunc", lambda a, b: a.is_float and b.is_float and a.bits > b.bits
    )
    fpext: ClassVar[Cast] = _cast(
        "fpext", lambda a, b: a.is_float and b.is_float and a.bits < b.bits
    )
    fptosi: ClassVar[Cast] = _cast("fptosi", lambda a, b: a.is_float and b.is_int)
    fptoui: ClassVar[Cast] = _cast("fptoui", lambda a, b: a.is_float and b.is_int)
    sitofp: ClassVar[Cast] = _cast("sitofp", lambda a, b: a.is_int and b.is_float)
    uitofp: ClassVar[Cast] = _cast("uitofp", lambda a, b: a.is_int and b.is_float)
    ptrtoint: ClassVar[Cast] = _cast("ptrtoint", lambda a, b: a.is_ptr and b.is_int)
    inttoptr: ClassVar[Cast] = _cast("inttoptr", lambda a, b: a.is_int and b.is_ptr)

    def bitcast(self, x: Value, to: Type) -> Value:
        """Read the same bits as another type, not from or to pointers."""
        t = x.type
        plain = (t.is_int or t.is_float) and (to.is_int or to.is_float)
        if not plain or t.bits * t.lanes != to.bits * to.lanes:
            raise _wrong(f"bitcast to {to.text}", x)
        return x if t is to else self.pure(to, f"bitcast {x.typed} to {to.text}")

    # -- memory --------------------------------------------------------------------------------
    def alloca(self, type: Type, count: int = 1, *, align: int = 0, hint: str = "slot") -> Value:
        """Reserve stack for the whole call, in the entry block."""
        if not type.is_first_class or count < 1:
            raise _wrong(f"alloca of {count}", type)
        name = self.function.name_local(hint)
        many = f", i64 {count}" if count > 1 else ""
        self.function.reserved += type.room * count + align
        tail = f", align {align}" if align else ""
        self.function.entry.allocas.append(f"  {name} = alloca {type.text}{many}{tail}")
        return Value(PTR, name)

    def gep(self, type: Type, base: Value, *indices: Value, inbounds: bool = False) -> Value:
        """Compute an address: the first index counts elements of ``type``, the others select parts.

        If the pointer or an index is a vector, the result is a vector of pointers.
        """
        if not base.type.is_ptr or not indices:
            raise _wrong(f"getelementptr {type.text}", base, *indices)
        result = base.type
        text = ""
        for index in indices:
            if not index.type.is_int:
                raise _wrong(f"getelementptr {type.text}", base, *indices)
            if index.type.kind == "vector":
                if result.lanes not in (1, index.type.lanes):
                    raise _wrong(f"getelementptr {type.text}", base, *indices)
                result = vector(PTR, index.type.lanes)
            text += f", {index.type.text} {index.text}"
        word = "getelementptr inbounds" if inbounds else "getelementptr"
        return self.pure(result, f"{word} {type.text}, {base.type.text} {base.text}{text}")

    def field(self, type: Type, base: Value, index: int) -> Value:
        """Compute the address of a field of the struct at ``base``."""
        if base.type is not PTR or type.kind != "struct" or not 0 <= index < len(type.fields):
            raise _wrong(f"field {index} of {type.text}", base)
        return self.pure(
            PTR, f"getelementptr inbounds {type.text}, ptr {base.text}, i32 0, i32 {index}"
        )

    def load(
        self,
        type: Type,
        address: Value,
        *,
        align: int = 0,
        volatile: bool = False,
        meta: Meta | None = None,
    ) -> Value:
        """Read a value; ``align`` in bytes, that of one element by default."""
        if address.type is not PTR or not type.is_first_class:
            raise _wrong(f"load of {type.text}", address)
        tail = _meta(meta) if meta else ""
        word = "load volatile" if volatile else "load"
        n = self.serial()
        self.emit(
            f"  %v{n} = {word} {type.text}, ptr {address.text}, align {align or type.align}{tail}"
        )
        return Value(type, f"%v{n}")

    def store(
        self,
        value: Value,
        address: Value,
        *,
        align: int = 0,
        volatile: bool = False,
        meta: Meta | None = None,
    ) -> None:
        """Write a value; ``align`` in bytes, that of one element by default."""
        t = value.type
        if address.type is not PTR or not t.is_first_class:
            raise _wrong("store", value, address)
        tail = _meta(meta) if meta else ""
        word = "store volatile" if volatile else "store"
        self.emit(
            f"  {word} {t.text} {value.text}, ptr {address.text}, align {align or t.align}{tail}"
        )

    def load_atomic(self, type: Type, address: Value, ordering: str) -> Value:
        """Load a scalar atomically."""
        if address.type is not PTR or type.lanes != 1 or ordering not in _ORDERINGS:
            raise _wrong(f"atomic {ordering} load of {type.text}", address)
        return self._result(
            type, f"load atomic {type.text}, ptr {address.text} {ordering}, align {type.align}"
        )

    def store_atomic(self, value: Value, address: Value, ordering: str) -> None:
        """Store a scalar atomically."""
        if address.type is not PTR or value.type.lanes != 1 or ordering not in _ORDERINGS:
            raise _wrong(f"atomic {ordering} store", value, address)
        self.emit(
            f"  store atomic {value.typed}, ptr {address.text} {ordering}, align {value.type.align}"
        )

    def atomicrmw(self, op: str, address: Value, value: Value, ordering: str = "seq_cst") -> Value:
        """Modify a scalar atomically, and return its old value."""
        known = _RMW_FLOAT if value.type.is_float else _RMW_INT
        fits = (op in known or op == "xchg") and ordering in _ORDERINGS and value.type.lanes == 1
        if address.type is not PTR or not fits:
            raise _wrong(f"atomicrmw {op} {ordering}", address, value)
        return self._result(
            value.type, f"atomicrmw {op} ptr {address.text}, {value.typed} {ordering}"
        )

    def cmpxchg(
        self,
        address: Value,
        expected: Value,
        new: Value,
        success: str = "seq_cst",
        failure: str = "seq_cst",
    ) -> tuple[Value, Value]:
        """Replace ``expected`` by ``new`` atomically; return the old value and a success flag."""
        t = new.type
        fits = address.type is PTR and t is expected.type and (t.is_int or t.is_ptr)
        if not fits or success not in _ORDERINGS or failure not in _ORDERINGS:
            raise _wrong(f"cmpxchg {success} {failure}", address, expected, new)
        pair = self._result(
            struct([t, I1]),
            f"cmpxchg ptr {address.text}, {expected.typed}, {new.typed} {success} {failure}",
        )
        return self.extractvalue(pair, 0), self.extractvalue(pair, 1)

    def fence(self, ordering: str = "seq_cst") -> None:
        """Order memory operations around this point."""
        if ordering not in _ORDERINGS or ordering == "monotonic":
            raise InternalError(f"no fence is {ordering}")
        self.emit(f"  fence {ordering}")

    # -- vectors and aggregates ----------------------------------------------------------------
    def extractelement(self, vec: Value, index: Value | int) -> Value:
        """Read one lane."""
        i = const(I64, index) if isinstance(index, int) else index
        if vec.type.kind != "vector" or not i.type.is_int or i.type.lanes != 1:
            raise _wrong("extractelement", vec, i)
        return self.pure(vec.type.element, f"extractelement {vec.typed}, {i.typed}")

    def insertelement(self, vec: Value, value: Value, index: Value | int) -> Value:
        """Replace one lane."""
        i = const(I64, index) if isinstance(index, int) else index
        fits = vec.type.kind == "vector" and vec.type.element is value.type
        if not fits or not i.type.is_int or i.type.lanes != 1:
            raise _wrong("insertelement", vec, value, i)
        return self.pure(vec.type, f"insertelement {vec.typed}, {value.typed}, {i.typed}")

    def shufflevector(self, x: Value, y: Value, mask: Sequence[int]) -> Value:
        """Choose lanes by number, those of ``y`` after those of ``x``; -1 is an undefined lane."""
        t = x.type
        if t.kind != "vector" or t is not y.type or not mask:
            raise _wrong("shufflevector", x, y)
        if not all(-1 <= i < 2 * t.lanes for i in mask):
            raise InternalError(f"shufflevector of {t.text} has no lanes {list(mask)}")
        listed = ", ".join("i32 poison" if i < 0 else f"i32 {i}" for i in mask)
        return self.pure(
            vector(t.element, len(mask)),
            f"shufflevector {x.typed}, {y.typed}, <{len(mask)} x i32> <{listed}>",
        )

    def splat(self, value: Value, lanes: int) -> Value:
        """Repeat a scalar in all lanes; one lane is the scalar itself."""
        if lanes == 1:
            return value
        t = vector(value.type, lanes)
        if value.is_constant:
            return Value(t, f"splat ({value.typed})")
        one = self.insertelement(poison(t), value, 0)
        return self.shufflevector(one, poison(t), [0] * lanes)

    def extractvalue(self, value: Value, index: int) -> Value:
        """Read one field of a struct or array."""
        return self.pure(_part(value, index), f"extractvalue {value.typed}, {index}")

    def insertvalue(self, value: Value, part: Value, index: int) -> Value:
        """Replace one field of a struct or array."""
        if _part(value, index) is not part.type:
            raise _wrong(f"insertvalue at {index}", value, part)
        return self.pure(value.type, f"insertvalue {value.typed}, {part.typed}, {index}")

    # -- calls ---------------------------------------------------------------------------------
    def call(
        self,
        callee: Callee,
        args: Sequence[Value],
        *,
        attributes: str = "",
        tail: bool = False,
        looked: bool = False,
    ) -> Value:
        """Call a function of the module or a declared one; the result of void is ``NOTHING``."""
        return self.call_pointer(
            callee, callee.signature, args, attributes=attributes, tail=tail, looked=looked
        )

    def call_pointer(
        self,
        pointer: Value,
        signature: Type,
        args: Sequence[Value],
        *,
        attributes: str = "",
        tail: bool = False,
        looked: bool = False,
    ) -> Value:
        """Call through an address; ``signature`` is a function type.

        ``looked``: it has been checked that the stack has room for the call.
        """
        wanted = signature.fields
        fits = pointer.type is PTR and signature.kind == "function"
        if (
            not fits
            or len(args) < len(wanted)
            or (len(args) > len(wanted) and not signature.varargs)
        ):
            raise _wrong(f"call of {pointer.text}: {signature.text}", *args)
        for arg, want in zip(args, wanted, strict=False):
            if arg.type is not want:
                raise _wrong(f"call of {pointer.text}: {signature.text}", *args)
        if not looked:
            for part in (pointer, *args):
                if isinstance(part, Function):
                    self.function.refers[part] = None
        shown = signature.text if signature.varargs else signature.result.text
        word = "tail call" if tail else "call"
        behind = f" {attributes}" if attributes else ""
        text = f"{word} {shown} {pointer.text}({', '.join([a.typed for a in args])}){behind}"
        if signature.result is VOID:
            self.emit("  " + text)
            return NOTHING
        return self._result(signature.result, text)

    def intrinsic(
        self,
        name: str,
        args: Sequence[Value],
        *,
        result: Type | None = None,
        overloads: Sequence[Type] | None = None,
    ) -> Value:
        """Call an intrinsic such as ``llvm.fma``, declared as needed.

        ``overloads`` are the types that complete its name, by default that of the first argument;
        pass ``()`` for a complete name. ``result`` is by default the type of the first argument.
        """
        chosen = [args[0].type] if overloads is None else overloads
        full = ".".join([name, *[t.code for t in chosen]])
        made = args[0].type if result is None else result
        return self.call(self.module.declare(full, made, [a.type for a in args]), args)

    # -- control -------------------------------------------------------------------------------
    def phi(self, type: Type, hint: str = "phi") -> Phi:
        """Begin a phi at the head of the block; add its edges by ``Phi.add``."""
        made = Phi(type, self.function.name_local(hint))
        self.block.phis.append(made)
        return made

    def br(self, target: Block, *, meta: Meta | None = None) -> None:
        """Go to a block."""
        self._end(f"  br label %{target.label}{_meta(meta) if meta else ''}")

    def condbr(self, condition: Value, yes: Block, no: Block, *, meta: Meta | None = None) -> None:
        """Go to ``yes`` if the condition holds, else to ``no``."""
        if condition.type is not I1:
            raise _wrong("br", condition)
        tail = _meta(meta) if meta else ""
        self._end(f"  br i1 {condition.text}, label %{yes.label}, label %{no.label}{tail}")

    def switch(self, value: Value, default: Block, cases: Sequence[tuple[int, Block]]) -> None:
        """Go to the block of the value's case, or to ``default``."""
        t = value.type
        if not t.is_int or t.lanes != 1:
            raise _wrong("switch", value)
        listed = " ".join(f"{const(t, key).typed}, label %{block.label}" for key, block in cases)
        self._end(f"  switch {value.typed}, label %{default.label} [ {listed} ]")

    def ret(self, value: Value | None = None) -> None:
        """Return from the function; the value must have its result type."""
        wanted = self.function.signature.result
        if (VOID if value is None else value.type) is not wanted:
            raise InternalError(f"{self.function.text} returns {wanted.text}, not {value}")
        self._end("  ret void" if value is None else f"  ret {value.typed}")

    def unreachable(self) -> None:
        """Mark a point that control never reaches."""
        self._end("  unreachable")

    def pure(self, type: Type, text: str) -> Value:
        """Emit an instruction without effects, unless the result of an equal one is known."""
        found = self.known.find(text)
        if found is None:
            n = self.serial()
            self.emit(f"  %v{n} = {text}")
            found = self.known.here[text] = Value(type, f"%v{n}")
        return found

    def _result(self, type: Type, text: str) -> Value:
        n = self.serial()
        self.emit(f"  %v{n} = {text}")
        return Value(type, f"%v{n}")


def _part(value: Value, index: int) -> Type:
    t = value.type
    if t.kind == "struct" and 0 <= index < len(t.fields):
        return t.fields[index]
    if t.kind == "array" and 0 <= index < t.count:
        return t.element
    raise _wrong(f"field {index}", value)


def _meta(meta: Meta) -> str:
    return "".join(f", !{kind} {node.text}" for kind, node in meta.items())
