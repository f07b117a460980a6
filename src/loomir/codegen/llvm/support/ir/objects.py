"""Values of graphs as generated IR: how objects are created, counted and freed.

``objects`` compiles and loads it; ``runtime.graph.object_layout`` defines the memory layout.
Reference counts change atomically, except for the last reference, which only its owner can see.
Freeing does not recurse: objects without references form a list, linked through their counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from loomir.codegen.llvm.assembler.builder import Builder
from loomir.codegen.llvm.assembler.text import Block, Callee, Function, Module
from loomir.codegen.llvm.assembler.types import I1, I8, I32, I64, PTR, VOID, Type, function, struct
from loomir.codegen.llvm.assembler.values import NULL, Value, const
from loomir.codegen.llvm.support.ir.tensor_memory_cache import TensorMemoryCache, place
from loomir.relax.faults import DTYPES
from loomir.runtime import layout as dl
from loomir.runtime.graph import object_layout as at
from loomir.support.dtype import DataType

__all__ = ["OBJECT_FUNCTIONS", "RELEASER", "count_loop", "objects_module", "place"]

OBJECT_FUNCTIONS: Final[dict[str, Type]] = {
    "loomir_retain": function(VOID, [PTR]),
    "loomir_release": function(VOID, [PTR]),
    "loomir_release_unshared": function(I32, [PTR]),
    "loomir_release_slots": function(VOID, [PTR, I64]),
    "loomir_new": function(PTR, [I64, I32, I32]),
    "loomir_tensor_bytes": function(I64, [I64, PTR, I64]),
    "loomir_tensor_new": function(PTR, [I64, PTR, I64]),
    "loomir_tensor_lend": function(PTR, [I64, PTR, PTR, I32, PTR, I64]),
    "loomir_tensor_inside": function(PTR, [PTR, I64, I64, PTR, I64]),
    "loomir_tensor_place": function(I32, [PTR, PTR, I64, I64, PTR, I64]),
    "loomir_tensor_copy": function(PTR, [PTR]),
    "loomir_dtype_place": function(I64, [I64]),
    "loomir_count_objects": function(VOID, [I32]),
    "loomir_live_objects": function(I64, []),
}
"""The functions that programs are linked with, and that Python calls:

- ``retain`` and ``release`` take and drop one reference; NULL is ignored. ``release_unshared``
  drops it only if it is the last one, and tells whether it was not. ``release_slots`` drops all
  references of an array, and clears it.
- ``new`` makes an object with a size in bytes, a kind and flags, and one reference; NULL if there
  is no memory.
- ``tensor_bytes`` computes a size from ndim and dtype in one word, extents, and the bytes of an
  element: -1 if an extent is negative or the size is 2**63 or more. ``tensor_new`` makes such a
  tensor, or returns NULL.
- ``tensor_lend`` makes a tensor of existing memory: extents, data, flags, the object that owns the
  memory or NULL, and its size in bytes.
- ``tensor_inside`` makes a tensor in the memory of another: that, a byte offset, ndim and dtype,
  extents, bytes of an element; NULL if it does not fit, or begins within an element.
  ``tensor_place`` does the same, but writes the tensor to memory of the caller, and tells whether
  it fits: such a tensor is never counted or freed.
- ``tensor_copy`` makes a tensor with the same contents.
- ``dtype_place`` finds a dtype, as the upper half of such a word, in ``DTYPES``.
- ``live_objects`` counts the objects created and not freed since ``count_objects(1)``.
"""

RELEASER: Final = function(VOID, [I64])
_LARGEST: Final = 2**62


class _Objects:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.live = module.define_global("live", const(I64, 0), align=64)
        self.counting = module.define_global("counting", const(I32, 0), align=64)
        self.malloc = module.declare("malloc", PTR, [I64])
        self.free = module.declare("free", VOID, [PTR])
        self.kept = TensorMemoryCache(module, self.malloc, self.free)

    def open(self, name: str) -> tuple[Function, Builder]:
        """Start a function of ``OBJECT_FUNCTIONS``."""
        t = OBJECT_FUNCTIONS[name]
        params = [(f"p{i}", p) for i, p in enumerate(t.fields)]
        made = self.module.define(name, t.result, params)
        return made, Builder(made)

    def count(self, b: Builder, change: int) -> None:
        """Count an object if counting is on; the builder goes on in a new block."""
        some, on = b.append("count"), b.append("counted")
        wanted = b.load_atomic(I32, self.counting, "monotonic")
        b.condbr(b.icmp("ne", wanted, const(I32, 0)), some, on)
        b.position_at_end(some)
        b.atomicrmw("add", self.live, const(I64, change), "monotonic")
        b.br(on)
        b.position_at_end(on)

    # -- references ------------------------------------------------------------------------------
    def retain(self) -> Callee:
        """Define the function."""
        made, b = self.open("loomir_retain")
        mortal, done = b.append("mortal"), b.append("done")
        count = place(b, made.params[0], at.COUNT)
        b.condbr(b.icmp("sgt", b.load_atomic(I64, count, "monotonic"), const(I64, 0)), mortal, done)
        b.position_at_end(mortal)
        b.atomicrmw("add", count, const(I64, 1), "monotonic")
        b.br(done)
        b.position_at_end(done)
        b.ret()
        return made

    def release(self, destroy: Callee) -> Callee:
        """Define the function."""
        made, b = self.open("loomir_release")
        some, last, done = b.append("some"), b.append("last"), b.append("done")
        given = made.params[0]
        b.condbr(b.icmp("ne", given, NULL), some, done)
        b.position_at_end(some)
        _drop(b, given, last, done)
        b.position_at_end(last)
        b.call(destroy, [given])
        b.br(done)
        b.position_at_end(done)
        b.ret()
        return made

    def release_unshared(self, destroy: Callee) -> None:
        """Define the function."""
        made, b = self.open("loomir_release_unshared")
        (given,) = made.params
        only, several = b.append("only"), b.append("several")
        now = b.load_atomic(I64, place(b, given, at.COUNT), "acquire")
        b.condbr(b.icmp("eq", now, const(I64, 1)), only, several)
        b.position_at_end(only)
        b.call(destroy, [given])
        b.ret(const(I32, 0))
        b.position_at_end(several)
        b.ret(const(I32, 1))

    def release_slots(self, release: Callee) -> None:
        """Define the function."""
        made, b = self.open("loomir_release_slots")
        slots, count = made.params

        def body(i: Value) -> None:
            slot = b.gep(PTR, slots, i)
            referenced = b.load(PTR, slot)
            b.store(NULL, slot)
            b.call(release, [referenced])

        count_loop(b, count, body)
        b.ret()

    def destroy(self) -> Callee:
        """Define the function that frees an object, and all that lose their last reference by it.

        The objects to free form a list, linked through their reference counts.
        """
        made = self.module.define("destroy", VOID, [("object", PTR)], linkage="internal")
        b = Builder(made)
        first = made.params[0]
        b.store(NULL, place(b, first, at.COUNT))
        head = b.alloca(PTR, hint="head")
        b.store(first, head)
        look, one, done = b.append("look"), b.append("one"), b.append("done")
        b.br(look)
        b.position_at_end(look)
        current = b.load(PTR, head)
        b.condbr(b.icmp("ne", current, NULL), one, done)
        b.position_at_end(one)
        b.store(b.load(PTR, place(b, current, at.COUNT)), head)
        tensor, items, callee, foreign, gone, counted = (
            b.append(n) for n in ("tensor", "items", "callee", "foreign", "gone", "counted")
        )
        b.switch(
            b.load(I32, place(b, current, at.KIND)),
            gone,
            [
                (at.TENSOR, tensor),
                (at.TUPLE, items),
                (at.CLOSURE, callee),
                (at.PACKED, callee),
                (at.FOREIGN, foreign),
            ],
        )
        b.position_at_end(tensor)
        owner = b.load(PTR, place(b, current, at.TENSOR_OWNER))
        self.push(b, owner, head)
        self.kept.give(b, current, owner, gone, counted)
        for block, offset in ((items, at.ITEMS), (callee, at.CAPTURED)):
            b.position_at_end(block)
            self.push_items(b, current, offset, head)
            b.br(gone)
        b.position_at_end(foreign)
        give_back = b.load(PTR, place(b, current, at.RELEASE))
        b.call_pointer(give_back, RELEASER, [b.load(I64, place(b, current, at.HANDLE))])
        b.br(gone)
        b.position_at_end(gone)
        b.call(self.free, [current])
        b.br(counted)
        b.position_at_end(counted)
        self.count(b, -1)
        b.br(look)
        b.position_at_end(done)
        b.ret()
        return made

    def push_items(self, b: Builder, owner: Value, offset: int, head: Value) -> None:
        """Drop the references of an object; the builder goes on in a new block."""
        start = place(b, owner, offset)
        count = b.load(I64, place(b, owner, at.LENGTH))
        count_loop(b, count, lambda i: self.push(b, b.load(PTR, b.gep(PTR, start, i)), head))

    def push(self, b: Builder, child: Value, head: Value) -> None:
        """Drop a reference, and put the object on the list if it was the last."""
        some, last, done = b.append("some"), b.append("last"), b.append("done")
        b.condbr(b.icmp("ne", child, NULL), some, done)
        b.position_at_end(some)
        _drop(b, child, last, done)
        b.position_at_end(last)
        b.store(b.load(PTR, head), place(b, child, at.COUNT))
        b.store(child, head)
        b.br(done)
        b.position_at_end(done)

    # -- making ----------------------------------------------------------------------------------
    def new(self) -> Callee:
        """Define the function."""
        made, b = self.open("loomir_new")
        size, kind, flags = made.params
        block = b.call(self.malloc, [size])
        self.give(b, block, kind, flags)
        b.ret(block)
        return made

    def give(self, b: Builder, block: Value, kind: Value, flags: Value) -> None:
        """Return NULL if there is no memory, else write the header and go on."""
        some, none = b.append("some"), b.append("none")
        b.condbr(b.icmp("ne", block, NULL), some, none)
        b.position_at_end(none)
        b.ret(NULL)
        b.position_at_end(some)
        b.store(const(I64, 1), place(b, block, at.COUNT))
        b.store(kind, place(b, block, at.KIND))
        b.store(flags, place(b, block, at.FLAGS))
        self.count(b, 1)

    def tensor_bytes(self) -> Callee:
        """Define the function."""
        made, b = self.open("loomir_tensor_bytes")
        word, extents, size = made.params
        total, bad, empty = (b.alloca(t, hint="x") for t in (I64, I8, I8))
        b.store(size, total)
        b.store(const(I8, 0), bad)
        b.store(const(I8, 0), empty)
        negative = b.append("negative")

        def body(i: Value) -> None:
            extent = b.load(I64, b.gep(I64, extents, i))
            fine = b.append("fine")
            b.condbr(b.icmp("slt", extent, const(I64, 0)), negative, fine)
            b.position_at_end(fine)
            pair = b.intrinsic(
                "llvm.smul.with.overflow",
                [b.load(I64, total), extent],
                result=struct([I64, I1]),
                overloads=[I64],
            )
            b.store(b.extractvalue(pair, 0), total)
            b.store(b.or_(b.load(I8, bad), b.zext(b.extractvalue(pair, 1), I8)), bad)
            none = b.icmp("eq", extent, const(I64, 0))
            b.store(b.or_(b.load(I8, empty), b.zext(none, I8)), empty)

        count_loop(b, _rank(b, word), body)
        large = b.icmp("ne", b.load(I8, bad), const(I8, 0))
        known = b.select(large, const(I64, -1), b.load(I64, total))
        b.ret(b.select(b.icmp("ne", b.load(I8, empty), const(I8, 0)), const(I64, 0), known))
        b.position_at_end(negative)
        b.ret(const(I64, -1))
        return made

    def tensor_new(self, measure: Callee) -> Callee:
        """Define the function."""
        made, b = self.open("loomir_tensor_new")
        word, extents, size = made.params
        count = b.call(measure, [word, extents, size])
        fine, bad = b.append("fine"), b.append("bad")
        b.condbr(b.icmp("ult", count, const(I64, _LARGEST)), fine, bad)
        b.position_at_end(bad)
        b.ret(NULL)
        b.position_at_end(fine)
        rank = _rank(b, word)
        start = b.add(const(I64, at.TENSOR_EXTENTS), b.shl(rank, const(I64, 3)))
        room = b.add(start, const(I64, at.DATA_ALIGNMENT - 1))
        block = b.call(self.kept.take, [b.add(room, count)])
        self.give(b, block, const(I32, at.TENSOR), const(I32, 0))
        end = b.gep(I8, block, start)
        step = b.and_(b.neg(b.ptrtoint(end, I64)), const(I64, at.DATA_ALIGNMENT - 1))
        data = b.gep(I8, end, step)
        _fill(b, block, word, extents, data, NULL, count)
        b.ret(block)
        return made

    def tensor_inside(self, measure: Callee, lend: Callee) -> None:
        """Define the function."""
        made, b = self.open("loomir_tensor_inside")
        storage, _, word, extents, _ = made.params
        bad = b.append("bad")
        data, flags, left = self.find_inside(b, measure, made.params, bad)
        b.ret(b.call(lend, [word, extents, data, flags, storage, left]))
        b.position_at_end(bad)
        b.ret(NULL)

    def tensor_place(self, measure: Callee) -> None:
        """Define the function."""
        made, b = self.open("loomir_tensor_place")
        block, storage, _, word, extents, _ = made.params
        bad = b.append("bad")
        data, flags, left = self.find_inside(b, measure, made.params[1:], bad)
        b.store(const(I64, at.IMMORTAL), place(b, block, at.COUNT))
        b.store(const(I32, at.TENSOR), place(b, block, at.KIND))
        b.store(flags, place(b, block, at.FLAGS))
        _fill(b, block, word, extents, data, storage, left)
        b.ret(const(I32, 1))
        b.position_at_end(bad)
        b.ret(const(I32, 0))

    @staticmethod
    def find_inside(
        b: Builder, measure: Callee, given: Sequence[Value], bad: Block
    ) -> tuple[Value, Value, Value]:
        """Return the address of a tensor's data in storage, its flags, and the remaining bytes."""
        storage, offset, word, extents, item = given
        size = b.call(measure, [word, extents, item])
        room = b.load(I64, place(b, storage, at.TENSOR_CAPACITY))
        left = b.sub(room, offset)
        fits = b.and_(b.icmp("ule", offset, room), b.icmp("ule", size, left))
        # The size of an element is a power of two.
        rest = b.and_(offset, b.sub(item, const(I64, 1)))
        fits = b.and_(fits, b.icmp("eq", rest, const(I64, 0)))
        fits = b.and_(fits, b.icmp("sge", size, const(I64, 0)))
        fine = b.append("fine")
        b.condbr(fits, fine, bad)
        b.position_at_end(fine)
        tensor = place(b, storage, at.TENSOR_DLTENSOR)
        begin = b.load(I64, place(b, tensor, dl.DLTENSOR_BYTE_OFFSET))
        data = b.gep(I8, b.load(PTR, place(b, tensor, dl.DLTENSOR_DATA)), b.add(begin, offset))
        flags = b.and_(b.load(I32, place(b, storage, at.FLAGS)), const(I32, at.READ_ONLY))
        return data, flags, left

    def tensor_lend(self, retain: Callee) -> Callee:
        """Define the function."""
        made, b = self.open("loomir_tensor_lend")
        word, extents, data, flags, owner, capacity = made.params
        start = b.add(const(I64, at.TENSOR_EXTENTS), b.shl(_rank(b, word), const(I64, 3)))
        block = b.call(self.malloc, [start])
        lent = b.select(b.icmp("eq", owner, NULL), const(I32, at.LENT), const(I32, 0))
        self.give(b, block, const(I32, at.TENSOR), b.or_(flags, lent))
        owned, on = b.append("owned"), b.append("on")
        b.condbr(b.icmp("ne", owner, NULL), owned, on)
        b.position_at_end(owned)
        b.call(retain, [owner])
        b.br(on)
        b.position_at_end(on)
        _fill(b, block, word, extents, data, owner, capacity)
        b.ret(block)
        return made

    def tensor_copy(self, new: Callee, measure: Callee) -> None:
        """Define the function."""
        made, b = self.open("loomir_tensor_copy")
        (source,) = made.params
        tensor = place(b, source, at.TENSOR_DLTENSOR)
        word = b.load(I64, place(b, tensor, dl.DLTENSOR_NDIM))
        extents = b.load(PTR, place(b, tensor, dl.DLTENSOR_SHAPE))
        bits = b.and_(b.lshr(word, const(I64, 40)), const(I64, 0xFF))
        size = b.lshr(bits, const(I64, 3))
        block = b.call(new, [word, extents, size])
        some, none = b.append("some"), b.append("none")
        b.condbr(b.icmp("ne", block, NULL), some, none)
        b.position_at_end(none)
        b.ret(NULL)
        b.position_at_end(some)
        offset = b.load(I64, place(b, tensor, dl.DLTENSOR_BYTE_OFFSET))
        data = b.gep(I8, b.load(PTR, place(b, tensor, dl.DLTENSOR_DATA)), offset)
        target = b.load(PTR, place(b, block, at.TENSOR_DLTENSOR + dl.DLTENSOR_DATA))
        copy = self.module.declare("memcpy", PTR, [PTR, PTR, I64])
        b.call(copy, [target, data, b.call(measure, [word, extents, size])])
        b.ret(block)

    # -- questions -------------------------------------------------------------------------------
    def dtype_place(self) -> None:
        """Define the function."""
        made, b = self.open("loomir_dtype_place")
        blocks: list[tuple[int, Block]] = []
        other = b.append("other")
        for name in DTYPES:
            dtype = DataType(name)
            bits = 8 if dtype.is_bool else dtype.bits
            blocks.append((int(dtype.code) | bits << 8 | 1 << 16, b.append(name)))
        b.switch(made.params[0], other, blocks)
        for number, (_, block) in enumerate(blocks):
            b.position_at_end(block)
            b.ret(const(I64, number))
        b.position_at_end(other)
        b.ret(const(I64, 0))

    def counters(self) -> None:
        """Define the functions."""
        made, b = self.open("loomir_count_objects")
        b.store_atomic(const(I64, 0), self.live, "seq_cst")
        b.store_atomic(made.params[0], self.counting, "seq_cst")
        b.ret()
        made, b = self.open("loomir_live_objects")
        b.ret(b.load_atomic(I64, self.live, "seq_cst"))


def _rank(b: Builder, word: Value) -> Value:
    return b.and_(word, const(I64, 0xFFFFFFFF))


def _drop(b: Builder, given: Value, last: Block, done: Block) -> None:
    """Drop one reference; go to ``last`` if none is left, else to ``done``."""
    only, several, mortal = b.append("only"), b.append("several"), b.append("mortal")
    count = place(b, given, at.COUNT)
    now = b.load_atomic(I64, count, "acquire")
    # Only the holder of the single reference could add another.
    b.condbr(b.icmp("eq", now, const(I64, 1)), only, several)
    b.position_at_end(only)
    b.br(last)
    b.position_at_end(several)
    b.condbr(b.icmp("sgt", now, const(I64, 0)), mortal, done)
    b.position_at_end(mortal)
    before = b.atomicrmw("sub", count, const(I64, 1), "acq_rel")
    b.condbr(b.icmp("eq", before, const(I64, 1)), last, done)


def count_loop(b: Builder, count: Value, body: Callable[[Value], None]) -> None:
    """Run ``body`` for each number below ``count``; the builder goes on in a new block."""
    head, one, done = b.append("head"), b.append("one"), b.append("done")
    start = b.block
    b.br(head)
    b.position_at_end(head)
    i = b.phi(I64, "i")
    i.add(const(I64, 0), start)
    b.condbr(b.icmp("slt", i, count), one, done)
    b.position_at_end(one)
    body(i)
    following = b.add(i, const(I64, 1))
    i.add(following, b.block)
    b.br(head)
    b.position_at_end(done)


def _fill(
    b: Builder,
    block: Value,
    word: Value,
    extents: Value,
    data: Value,
    owner: Value,
    capacity: Value,
) -> None:
    """Write a tensor after its header; its extents are copied."""
    tensor = place(b, block, at.TENSOR_DLTENSOR)
    own = place(b, block, at.TENSOR_EXTENTS)
    fields = (
        (dl.DLTENSOR_DATA, data),
        (dl.DLTENSOR_DEVICE_TYPE, const(I64, dl.DEVICE_CPU)),
        (dl.DLTENSOR_NDIM, word),
        (dl.DLTENSOR_SHAPE, own),
        (dl.DLTENSOR_STRIDES, NULL),
        (dl.DLTENSOR_BYTE_OFFSET, const(I64, 0)),
    )
    for offset, value in fields:
        b.store(value, place(b, tensor, offset))
    b.store(owner, place(b, block, at.TENSOR_OWNER))
    b.store(capacity, place(b, block, at.TENSOR_CAPACITY))
    count_loop(
        b,
        _rank(b, word),
        lambda i: b.store(b.load(I64, b.gep(I64, extents, i)), b.gep(I64, own, i)),
    )


def objects_module() -> Module:
    """Build the module."""
    module = Module("loomir.objects", attributes={"nounwind": None})
    made = _Objects(module)
    retain = made.retain()
    destroy = made.destroy()
    release = made.release(destroy)
    made.release_unshared(destroy)
    made.release_slots(release)
    made.new()
    measure = made.tensor_bytes()
    new = made.tensor_new(measure)
    made.tensor_inside(measure, made.tensor_lend(retain))
    made.tensor_place(measure)
    made.tensor_copy(new, measure)
    made.dtype_place()
    made.counters()
    return module
