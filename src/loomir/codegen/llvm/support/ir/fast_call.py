"""The fast entry from Python into graphs, as LLVM IR; ``runtime.graph.fast_call`` loads it.

``ptr loomir_fast_call(ptr self, ptr args, i64 count)`` is a ``METH_FASTCALL`` function as C
extensions of Python define them: ``args`` are Python objects, ``self`` is a Python integer, the
address of the callee. It returns

- an array, or a tuple of arrays, if the graph owns all of its results;
- None if the slow path must handle the arguments; it has then done nothing;
- bytes if the call has ended and Python must finish it (a fault, or other results);
- NULL with an exception set if Python could not create the result.

The GIL is released while the graph runs.
"""

from __future__ import annotations

from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Block, Callee, Module
from loomir.codegen.llvm.assembler.types import I8, I32, I64, PTR, VOID, Type, array, function
from loomir.codegen.llvm.assembler.values import NULL, Value, aggregate, const
from loomir.codegen.llvm.support.ir.names import FAST_CALL
from loomir.codegen.llvm.support.ir.objects import OBJECT_FUNCTIONS, count_loop, place
from loomir.runtime import layout as dl
from loomir.runtime.graph import cpython_layout as py
from loomir.runtime.graph import object_layout as at
from loomir.runtime.graph.fast_call import HOST

__all__ = ["FAST_CALL", "fast_call_module"]


_PYTHON: Final[dict[str, Type]] = {
    "PyBytes_FromStringAndSize": function(PTR, [PTR, I64]),
    "PyCapsule_GetPointer": function(PTR, [PTR, PTR]),
    "PyCapsule_New": function(PTR, [PTR, PTR, PTR]),
    "PyEval_RestoreThread": function(VOID, [PTR]),
    "PyEval_SaveThread": function(PTR, []),
    "PyLong_AsVoidPtr": function(PTR, [PTR]),
    "PyTuple_New": function(PTR, [I64]),
    "PyTuple_SetItem": function(I32, [PTR, I64, PTR]),
    "Py_DecRef": function(VOID, [PTR]),
    "Py_IncRef": function(VOID, [PTR]),
    "malloc": function(PTR, [I64]),
    "free": function(VOID, [PTR]),
}
_ENTER: Final = function(I32, [PTR, PTR, I64, PTR, PTR, I64])
_NEW: Final = function(PTR, [PTR, PTR, I32, PTR, PTR, PTR, I32, PTR])
_BASE: Final = function(I32, [PTR, PTR])
_NEEDED: Final = py.ARRAY_ROW_MAJOR | py.ARRAY_ALIGNED
_RESULT: Final = _NEEDED | py.ARRAY_WRITEABLE


class _FastCallBuilder:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.host = module.declare_global(HOST, array(I64, 1))
        padded = (py.CAPSULE + b"\0").ljust(16, b"\0")
        words = [const(I64, int.from_bytes(padded[i : i + 8], "little")) for i in (0, 8)]
        self.name = module.define_global(
            "capsule", aggregate(array(I64, 2), words), constant=True, linkage="private", align=8
        )

    def python(self, b: Builder, name: str, *args: Value) -> Value:
        """Call a function of Python or of the C library."""
        t = _PYTHON[name]
        return b.call(self.module.declare(name, t.result, t.fields), args)

    def objects(self, b: Builder, name: str, *args: Value) -> Value:
        """Call one of ``OBJECT_FUNCTIONS``."""
        t = OBJECT_FUNCTIONS[name]
        return b.call(self.module.declare(name, t.result, t.fields), args)

    def load_none(self, b: Builder) -> Value:
        """Return None."""
        return b.load(PTR, place(b, self.host, py.HOST_NONE))

    # -- dtypes ----------------------------------------------------------------------------------
    def find(self, name: str, field: int, t: Type) -> Callee:
        """Define the function that finds the row of a dtype by one of its fields; NULL if none."""
        made = self.module.define(name, PTR, [("wanted", t)], linkage="internal")
        b = Builder(made)
        found = b.alloca(PTR, hint="found")
        b.store(place(b, self.host, py.HOST_DTYPES), found)
        rows = b.load(I64, place(b, self.host, py.HOST_COUNT))
        hit = b.append("hit")

        def body(_: Value) -> None:
            row = b.load(PTR, found)
            on = b.append("on")
            same = b.icmp("eq", b.load(t, place(b, row, field)), made.params[0])
            b.condbr(same, hit, on)
            b.position_at_end(on)
            b.store(place(b, row, py.HOST_STEP), found)

        count_loop(b, rows, body)
        b.ret(NULL)
        b.position_at_end(hit)
        b.ret(b.load(PTR, found))
        return made

    # -- arguments -------------------------------------------------------------------------------
    def lend(self, by_object: Callee) -> Callee:
        """Define the function that makes a tensor of a NumPy array; NULL for any other object."""
        made = self.module.define("lend", PTR, [("given", PTR)], linkage="internal")
        b = Builder(made)
        (given,) = made.params
        bad = b.append("bad")
        known = b.load(PTR, place(b, self.host, py.HOST_CLASS))
        self.need(b, b.icmp("eq", b.load(PTR, place(b, given, py.OBJECT_TYPE)), known), bad)
        flags = b.load(I32, place(b, given, py.ARRAY_FLAGS))
        needed = const(I32, _NEEDED)
        self.need(b, b.icmp("eq", b.and_(flags, needed), needed), bad)
        row = b.call(by_object, [b.load(PTR, place(b, given, py.ARRAY_DTYPE))])
        self.need(b, b.icmp("ne", row, NULL), bad)
        rank = b.zext(b.load(I32, place(b, given, py.ARRAY_RANK)), I64)
        word = b.or_(rank, b.shl(b.load(I64, place(b, row, 8)), const(I64, 32)))
        extents = b.load(PTR, place(b, given, py.ARRAY_SHAPE))
        size = b.load(I64, place(b, row, 16))
        count = self.objects(b, "loomir_tensor_bytes", word, extents, size)
        writeable = b.and_(flags, const(I32, py.ARRAY_WRITEABLE))
        closed = b.icmp("eq", writeable, const(I32, 0))
        marks = b.select(closed, const(I32, at.READ_ONLY), const(I32, 0))
        data = b.load(PTR, place(b, given, py.ARRAY_DATA))
        b.ret(self.objects(b, "loomir_tensor_lend", word, extents, data, marks, NULL, count))
        b.position_at_end(bad)
        b.ret(NULL)
        return made

    @staticmethod
    def need(b: Builder, holds: Value, bad: Block) -> None:
        """Go on if the condition holds, else to ``bad``."""
        fine = b.append("fine")
        b.condbr(holds, fine, bad)
        b.position_at_end(fine)

    # -- results ---------------------------------------------------------------------------------
    def is_own(self, by_word: Callee) -> Callee:
        """Define the function that tells whether a tensor can become an array here.

        Nothing else refers to such a tensor, and it is writable. Its memory is its own, or that of
        a tensor that owns its memory and is no constant; so neither compiled code nor a Python
        object owns the memory.
        """
        made = self.module.define("is_own", I32, [("given", PTR)], linkage="internal")
        b = Builder(made)
        (given,) = made.params
        bad, good, owned = b.append("bad"), b.append("good"), b.append("owned")

        def equals(base: Value, offset: int, wanted: int, t: Type) -> None:
            self.need(b, b.icmp("eq", b.load(t, place(b, base, offset)), const(t, wanted)), bad)

        equals(given, at.KIND, at.TENSOR, I32)
        equals(given, at.COUNT, 1, I64)
        equals(given, at.FLAGS, 0, I32)
        kind = self.dtype(b, given)
        self.need(b, b.icmp("ne", b.call(by_word, [kind]), NULL), bad)
        owner = b.load(PTR, place(b, given, at.TENSOR_OWNER))
        b.condbr(b.icmp("eq", owner, NULL), good, owned)
        b.position_at_end(owned)
        equals(owner, at.KIND, at.TENSOR, I32)
        equals(owner, at.FLAGS, 0, I32)
        count = b.load_atomic(I64, place(b, owner, at.COUNT), "monotonic")
        self.need(b, b.icmp("sgt", count, const(I64, 0)), bad)
        inner = b.load(PTR, place(b, owner, at.TENSOR_OWNER))
        self.need(b, b.icmp("eq", inner, NULL), bad)
        b.br(good)
        b.position_at_end(good)
        b.ret(const(I32, 1))
        b.position_at_end(bad)
        b.ret(const(I32, 0))
        return made

    def dtype(self, b: Builder, tensor: Value) -> Value:
        """Read the dtype of a tensor."""
        offset = at.TENSOR_DLTENSOR + dl.DLTENSOR_CODE
        return b.zext(b.load(I32, place(b, tensor, offset)), I64)

    def forget(self) -> Callee:
        """Define the destructor of a capsule."""
        made = self.module.define("forget", VOID, [("capsule", PTR)], linkage="internal")
        b = Builder(made)
        tensor = self.python(b, "PyCapsule_GetPointer", made.params[0], self.name)
        self.objects(b, "loomir_release", tensor)
        b.ret()
        return made

    def wrap(self, by_word: Callee, forget: Callee) -> Callee:
        """Define the function that consumes a tensor and returns an array; NULL on failure."""
        made = self.module.define("wrap", PTR, [("given", PTR)], linkage="internal")
        b = Builder(made)
        (given,) = made.params
        made_capsule, none = b.append("made"), b.append("none")
        capsule = self.python(b, "PyCapsule_New", given, self.name, forget)
        b.condbr(b.icmp("ne", capsule, NULL), made_capsule, none)
        b.position_at_end(none)
        self.objects(b, "loomir_release", given)
        b.ret(NULL)
        b.position_at_end(made_capsule)
        row = b.call(by_word, [self.dtype(b, given)])
        dtype = b.load(PTR, row)
        self.python(b, "Py_IncRef", dtype)
        tensor = place(b, given, at.TENSOR_DLTENSOR)
        start = b.load(I64, place(b, tensor, dl.DLTENSOR_BYTE_OFFSET))
        data = b.gep(I8, b.load(PTR, place(b, tensor, dl.DLTENSOR_DATA)), start)
        shape = b.load(PTR, place(b, tensor, dl.DLTENSOR_SHAPE))
        rank = b.load(I32, place(b, tensor, dl.DLTENSOR_NDIM))
        new = b.load(PTR, place(b, self.host, py.HOST_NEW))
        kind = b.load(PTR, place(b, self.host, py.HOST_CLASS))
        given_ = [kind, dtype, rank, shape, NULL, data, const(I32, _RESULT), NULL]
        result = b.call_pointer(new, _NEW, given_)
        some, lost = b.append("some"), b.append("lost")
        b.condbr(b.icmp("ne", result, NULL), some, lost)
        b.position_at_end(lost)
        self.python(b, "Py_DecRef", capsule)
        b.ret(NULL)
        b.position_at_end(some)
        # It consumes the capsule even if it fails.
        status = b.call_pointer(
            b.load(PTR, place(b, self.host, py.HOST_BASE)), _BASE, [result, capsule]
        )
        good, bad = b.append("good"), b.append("bad")
        b.condbr(b.icmp("eq", status, const(I32, 0)), good, bad)
        b.position_at_end(bad)
        self.python(b, "Py_DecRef", result)
        b.ret(NULL)
        b.position_at_end(good)
        b.ret(result)
        return made

    def wrap_all(self, is_own: Callee, wrap: Callee) -> Callee:
        """Define the function that turns a result into a Python value.

        It consumes the result. If it cannot, it does nothing and returns None.
        """
        made = self.module.define("wrap_all", PTR, [("given", PTR)], linkage="internal")
        b = Builder(made)
        (given,) = made.params
        one, other, several, bad = (b.append(n) for n in ("one", "other", "several", "bad"))
        b.condbr(b.icmp("ne", b.call(is_own, [given]), const(I32, 0)), one, other)
        b.position_at_end(one)
        b.ret(b.call(wrap, [given]))
        b.position_at_end(bad)
        b.ret(self.load_none(b))
        b.position_at_end(other)
        kind = b.load(I32, place(b, given, at.KIND))
        b.condbr(b.icmp("eq", kind, const(I32, at.TUPLE)), several, bad)
        b.position_at_end(several)
        length = b.load(I64, place(b, given, at.LENGTH))
        items = place(b, given, at.ITEMS)

        def check(i: Value) -> None:
            item = b.load(PTR, b.gep(PTR, items, i))
            self.need(b, b.icmp("ne", b.call(is_own, [item]), const(I32, 0)), bad)

        count_loop(b, length, check)
        result = self.python(b, "PyTuple_New", length)
        lost, fill = b.append("lost"), b.append("fill")
        b.condbr(b.icmp("ne", result, NULL), fill, lost)
        b.position_at_end(lost)
        self.objects(b, "loomir_release", given)
        b.ret(NULL)
        b.position_at_end(fill)
        half = b.append("half")

        def add(i: Value) -> None:
            item = b.load(PTR, b.gep(PTR, items, i))
            self.objects(b, "loomir_retain", item)
            value = b.call(wrap, [item])
            self.need(b, b.icmp("ne", value, NULL), half)
            self.python(b, "PyTuple_SetItem", result, i, value)

        count_loop(b, length, add)
        self.objects(b, "loomir_release", given)
        b.ret(result)
        b.position_at_end(half)
        self.python(b, "Py_DecRef", result)
        self.objects(b, "loomir_release", given)
        b.ret(NULL)
        return made

    # -- the call --------------------------------------------------------------------------------
    def settle(self) -> Callee:
        """Define the function that frees the first ``count`` lent tensors."""
        params = [("lent", PTR), ("count", I64)]
        made = self.module.define("settle", VOID, params, linkage="internal")
        b = Builder(made)
        lent, count = made.params

        def release_lent(i: Value) -> None:
            self.objects(b, "loomir_release", b.load(PTR, b.gep(PTR, lent, i)))

        count_loop(b, count, release_lent)
        b.ret()
        return made

    def define_entry(self, lend: Callee, wrap_all: Callee, settle: Callee) -> None:
        """Define the entry function."""
        params = [("self", PTR), ("args", PTR), ("given", I64)]
        made = self.module.define(FAST_CALL, PTR, params)
        b = Builder(made)
        itself, args, given = made.params
        slow, refused, whole = b.append("slow"), b.append("refused"), b.append("whole")
        known = self.python(b, "PyLong_AsVoidPtr", itself)
        count = b.load(I64, place(b, known, py.FUNCTION_COUNT))
        self.need(b, b.icmp("eq", given, count), slow)
        values = b.load(I64, place(b, known, py.FUNCTION_VALUES))
        words = b.add(b.add(count, values), const(I64, py.RECORD_LENT // 8 + 2))
        size = b.shl(words, const(I64, 3))
        record = self.python(b, "malloc", size)
        self.need(b, b.icmp("ne", record, NULL), slow)
        lent = place(b, record, py.RECORD_LENT)
        made_ = b.alloca(I64, hint="made")
        b.store(const(I64, 0), made_)

        def take(i: Value) -> None:
            tensor = b.call(lend, [b.load(PTR, b.gep(PTR, args, i))])
            self.need(b, b.icmp("ne", tensor, NULL), refused)
            b.store(tensor, b.gep(PTR, lent, i))
            b.store(b.add(i, const(I64, 1)), made_)

        count_loop(b, count, take)
        b.br(whole)
        b.position_at_end(refused)
        b.call(settle, [lent, b.load(I64, made_)])
        self.python(b, "free", record)
        b.br(slow)
        b.position_at_end(slow)
        none = self.load_none(b)
        self.python(b, "Py_IncRef", none)
        b.ret(none)
        b.position_at_end(whole)
        self.run(b, known, record, (count, size), wrap_all, settle)

    def run(
        self,
        b: Builder,
        known: Value,
        record: Value,
        sizes: tuple[Value, Value],
        wrap_all: Callee,
        settle: Callee,
    ) -> None:
        """Run the graph on the lent tensors, and return its result."""
        count, size = sizes
        lent = place(b, record, py.RECORD_LENT)
        result_at = place(b, record, py.RECORD_RESULT)
        report = b.gep(PTR, lent, count)
        enter = b.load(PTR, place(b, known, py.FUNCTION_ENTER))
        called = b.load(PTR, place(b, known, py.FUNCTION_OBJECT))
        b.store(NULL, result_at)
        thread = self.python(b, "PyEval_SaveThread")
        passed = [called, lent, count, result_at, report, const(I64, 0)]
        status = b.call_pointer(enter, _ENTER, passed)
        self.python(b, "PyEval_RestoreThread", thread)
        rest = b.append("rest")
        self.need(b, b.icmp("eq", status, const(I32, 0)), rest)

        def require_only_reference(i: Value) -> None:
            tensor = b.load(PTR, b.gep(PTR, lent, i))
            references = b.load_atomic(I64, place(b, tensor, at.COUNT), "acquire")
            self.need(b, b.icmp("eq", references, const(I64, 1)), rest)

        count_loop(b, count, require_only_reference)
        result = b.call(wrap_all, [b.load(PTR, result_at)])
        self.need(b, b.icmp("ne", result, self.load_none(b)), rest)
        b.call(settle, [lent, count])
        self.python(b, "free", record)
        b.ret(result)
        # Python has to finish the call.
        b.position_at_end(rest)
        b.store(b.sext(status, I64), place(b, record, py.RECORD_STATUS))
        b.store(count, place(b, record, py.RECORD_COUNT))
        noted = self.python(b, "PyBytes_FromStringAndSize", record, size)
        self.python(b, "free", record)
        b.ret(noted)


def fast_call_module() -> Module:
    """Build the module."""
    module = Module("loomir.fast_call", attributes={"nounwind": None})
    made = _FastCallBuilder(module)
    by_word = made.find("by_word", 8, I64)
    lend = made.lend(made.find("by_object", 0, PTR))
    is_own = made.is_own(by_word)
    wrap_all = made.wrap_all(is_own, made.wrap(by_word, made.forget()))
    made.define_entry(lend, wrap_all, made.settle())
    return module
