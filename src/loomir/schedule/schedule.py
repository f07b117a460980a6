"""The schedule: a program, and the primitives that transform it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from loomir.arith.iterators.index_map import IndexMap
from loomir.check.tir.verify import verify
from loomir.ir.module import GlobalVar, IRModule
from loomir.schedule import primitive as _primitives
from loomir.schedule.arguments import Arguments, as_list, bad_argument, gone_error
from loomir.schedule.primitive import layout as _layout
from loomir.schedule.primitive.padding import cannot_decompose_padding
from loomir.schedule.refusal import Refusal, RefusalError, diagnostic_of
from loomir.schedule.state import FunctionState, Ref, State
from loomir.schedule.table import MISSING, PRIMITIVES, Context, Kind, Parameter, Primitive, Sample
from loomir.schedule.trace import Instruction, Trace
from loomir.schedule.unknown_names import NamedPrimitives, explain_misfits, refuse_program
from loomir.schedule.variables import BlockRV, ExprRV, LoopRV
from loomir.support.diagnostics import (
    CompileError,
    Diagnostic,
    InternalError,
    ScheduleError,
    nearest,
)
from loomir.support.displaying import HtmlDisplay
from loomir.support.dtype import DataType
from loomir.support.runtime_types import quote_name, show_value
from loomir.tir.buffer import Buffer
from loomir.tir.expr import ExprLike, PrimExpr, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import Block, For

__all__ = ["Schedule"]

_BLOCK = Parameter("block", Kind.BLOCK, MISSING)
_SEED = Parameter("seed", Kind.INT, MISSING)
_FAMILIES = _primitives.__all__  # imported for the table that they fill
_INT32 = DataType("int32")
_S = TypeVar("_S", bound="Schedule")


class Schedule(HtmlDisplay, NamedPrimitives):
    """A program under schedule, and the primitives that edit it.

    Each primitive is checked before it changes anything: what would change the meaning of the
    program is refused with a ``ScheduleError`` that says why, and the schedule is as before.
    Loops and blocks are named by random variables; one stays good until what it names is gone.
    ``seed`` makes drawings repeatable. ``debug_mask="all"`` verifies the function after each edit.
    """

    def __init__(
        self, mod: IRModule | PrimFunc, *, seed: int | None = None, debug_mask: str = "none"
    ) -> None:
        if isinstance(mod, PrimFunc):
            mod = IRModule({GlobalVar(mod.name): mod})
        if not isinstance(cast("object", mod), IRModule):
            raise refuse_program(mod)
        self._state = State(mod)
        self._arguments = Arguments()
        self._trace = Trace()
        self._rng = random.Random()
        if seed is not None:
            self.seed(seed)
        self._debug = debug_mask == "all"
        names = self._state.names()
        self._working = "main" if "main" in names or not names else names[0]
        if len(names) > 1 and "main" not in names:
            self._working = ""

    # -- what there is -------------------------------------------------------------------------
    @property
    def mod(self) -> IRModule:
        """The module as it is now."""
        return self._state.mod

    @property
    def state(self) -> State:
        """The program as it is now, with what refers into it."""
        return self._state

    @property
    def trace(self) -> Trace:
        """The primitives applied so far."""
        return self._trace

    @property
    def func_working_on(self) -> str | None:
        """The name of the function in which blocks are looked up."""
        return self._working or None

    def work_on(self, func_name: str) -> None:
        """Look up blocks in another function of the module.

        Errors: SCH0001.
        """
        names = self._state.names()
        if not isinstance(cast("object", func_name), str) or func_name not in names:
            guess = nearest(func_name, names)
            raise ScheduleError(
                Diagnostic(
                    "SCH0001",
                    f"there is no loop-level function {quote_name(func_name)}",
                    notes=(f"there are: {', '.join(names) or 'none'}",),
                    help=f"did you mean {guess!r}?" if guess else "use one of the module's names",
                )
            )
        self._working = func_name

    def show(self, style: str | None = None) -> None:
        """Display the module as TVMScript, in colour on a terminal and in a notebook."""
        self.mod.show(style)

    def copy(self: _S) -> _S:
        """Return an independent schedule in the same state; random variables are valid in both."""
        made = type(self).__new__(type(self))
        made._state, refs = self._state.copy()
        made._arguments = self._arguments.copy(refs)
        made._trace = Trace(self._trace.insts)
        made._rng = random.Random(self.fork_seed())
        made._debug = self._debug
        made._working = self._working
        return made

    def seed(self, seed: int) -> None:
        """Seed the random choices.

        Errors: SCH0003.
        """
        self._rng.seed(self._arguments.read(_SEED, seed, "seed"))

    def fork_seed(self) -> int:
        """Draw a seed for another schedule."""
        return self._rng.randrange(1, 2**31 - 1)

    # -- random variables ----------------------------------------------------------------------
    def get(self, rv: BlockRV | LoopRV | ExprLike) -> Any:
        """Return what a random variable stands for: a block, a loop, a number.

        Errors: SCH0002 for one that is gone, or of another schedule.
        """
        if isinstance(rv, (BlockRV, LoopRV)):
            ref = self._arguments.ref(rv, "get")
            return ref.loop if ref.is_loop else ref.block
        return self._arguments.number(rv, "get")

    def get_sref(self, rv_or_stmt: BlockRV | LoopRV | Block | For) -> Ref:
        """Return the reference of a random variable, or of a block or loop of the program.

        Errors: SCH0002.
        """
        if isinstance(rv_or_stmt, (BlockRV, LoopRV)):
            return self._arguments.ref(rv_or_stmt, "get_sref")
        for ref in self._function().refs():
            if ref.stmt is rv_or_stmt or (not ref.is_loop and ref.block is rv_or_stmt):
                return ref
        raise gone_error("get_sref")

    def remove_rv(self, rv: BlockRV | LoopRV | ExprRV) -> None:
        """Forget a random variable.

        Errors: SCH0003 for any other argument.
        """
        self._arguments.forget(rv)

    def _function(self) -> FunctionState:
        found = self._state.function(self._working) if self._working else None
        if found is None:
            names = ", ".join(self._state.names()) or "none"
            raise ScheduleError(
                Diagnostic(
                    "SCH0001",
                    "no function is selected",
                    notes=(f"there are: {names}",),
                    help="choose one with work_on",
                )
            )
        return found

    # -- doing primitives ----------------------------------------------------------------------
    def perform(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Apply a primitive by its name; a parameter that takes several takes a list.

        Errors: SCH0001 to SCH0003, and those of the primitive.
        """
        row = _row(name, arguments)
        given = dict(arguments)
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for param in row.params.values():
            if param.name not in given:
                if param.required and param.kind is not Kind.LOOPS:
                    raise bad_argument(name, f"{param.name} is missing", "give it")
                continue
            if param.kind in (Kind.BLOCK, Kind.PLACE):
                given[param.name] = self._find_block(given[param.name])
            elif param.kind is Kind.BLOCKS and isinstance(given[param.name], (list, tuple)):
                given[param.name] = [self._find_block(block) for block in given[param.name]]
            made = self._arguments.read(param, given[param.name], name)
            if param.kind is Kind.LOOPS:
                positional += made
            else:
                named[param.name] = made
        context = Context(self._state, self._function(), self._rng)
        before = self._state.mod if self._debug else None
        try:
            result = row.function(context, *positional, **named)
        except RefusalError as refused:
            raise self._error(name, refused.refusal, [*positional, *named.values()]) from None
        if before is not None and self._state.mod is not before:
            self._verify(name)
        decision = None
        if isinstance(result, Sample):
            result, decision = result
        outputs = self._output(result)
        given.pop("decision", None)
        # Lists are copied: those that users hold are theirs to change.
        kept = {k: _copy_plain(v) for k, v in given.items()}
        self._trace.append(Instruction(row, kept, _copy_plain(outputs), decision))
        return outputs

    def _find_block(self, block: Any) -> Any:
        """Find a block that is given by its name."""
        return self.get_sblock(block) if isinstance(block, str) else block

    def _output(self, result: Any) -> Any:
        """Wrap the results of a primitive in random variables."""
        if isinstance(result, list):
            return [self._output(item) for item in cast("list[Any]", result)]
        if isinstance(result, Ref):
            describe = self._arguments.describer
            rv = LoopRV(describe) if result.is_loop else BlockRV(describe)
            self._arguments.refs[rv] = result
            return rv
        if isinstance(result, int):
            number = Var("v", _INT32)
            self._arguments.numbers[number] = result
            return number
        return None

    def _error(self, name: str, refusal: Refusal, arguments: Sequence[Any]) -> ScheduleError:
        home = next((a.home for a in arguments if isinstance(a, Ref)), None)
        func = None if home is None else home.func
        if home is None and refusal.at is not None:
            func = self._function().func
        return ScheduleError.defer(lambda: diagnostic_of(name, refusal, func))

    def _verify(self, name: str) -> None:
        mistakes = verify(self._state.mod)
        if mistakes:
            raise InternalError(f"{name} made an ill-formed program: {mistakes[0]}")

    # -- finding -------------------------------------------------------------------------------
    def get_sblock(self, name: str, func_name: str | None = None) -> BlockRV:
        """Find a block by its name, in the current function or in another one."""
        given = {"name": name} if func_name is None else {"name": name, "func_name": func_name}
        return self.perform("get_sblock", given)

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """Find a block by its name: an older name of ``get_sblock``."""
        return self.get_sblock(name, func_name)

    def get_loops(self, block: BlockRV | str) -> list[LoopRV]:
        """List the loops between a block and the enclosing block, outermost first."""
        return self.perform("get_loops", {"block": block})

    def get_child_blocks(self, block_or_loop: BlockRV | LoopRV) -> list[BlockRV]:
        """List the outermost blocks in a block or loop, in program order."""
        return self.perform("get_child_blocks", {"block_or_loop": block_or_loop})

    def get_producers(self, block: BlockRV | str) -> list[BlockRV]:
        """List the blocks of the same scope that write what a block reads, in program order."""
        return self.perform("get_producers", {"block": block})

    def get_consumers(self, block: BlockRV | str) -> list[BlockRV]:
        """List the blocks of the same scope that read what a block writes, in program order."""
        return self.perform("get_consumers", {"block": block})

    def get_output_blocks(self, scope_block: BlockRV | str) -> list[BlockRV]:
        """List the blocks of a scope that write its outputs: buffers that live on after it."""
        return self.perform("get_output_blocks", {"scope_block": scope_block})

    # -- drawing -------------------------------------------------------------------------------
    def sample_categorical(
        self,
        candidates: Sequence[int],
        probs: Sequence[float],
        decision: int | None = None,
    ) -> ExprRV:
        """Sample one of several integers with given probabilities; the decision is its index."""
        return self.perform(
            "sample_categorical",
            {"candidates": as_list(candidates), "probs": as_list(probs), "decision": decision},
        )

    def sample_perfect_tile(
        self,
        loop: LoopRV,
        n: int,
        max_innermost_factor: int = 16,
        decision: Sequence[int] | None = None,
    ) -> list[ExprRV]:
        """Sample ``n`` factors whose product is a loop's extent; the decision is the factors."""
        return self.perform(
            "sample_perfect_tile",
            {
                "loop": loop,
                "n": n,
                "max_innermost_factor": max_innermost_factor,
                "decision": decision,
            },
        )

    def sample_partitioned_tile(
        self,
        loop: LoopRV,
        n: int,
        partition_pos: int = 0,
        innerpart_factor: int = 1,
        decision: Sequence[int] | None = None,
    ) -> list[ExprRV]:
        """Sample ``n`` factors of a loop's extent; the inner ones multiply to a given multiple."""
        return self.perform(
            "sample_partitioned_tile",
            {
                "loop": loop,
                "n": n,
                "partition_pos": partition_pos,
                "innerpart_factor": innerpart_factor,
                "decision": decision,
            },
        )

    def sample_compute_location(self, block: BlockRV | str, decision: int | None = None) -> LoopRV:
        """Sample a loop for ``compute_at``; the decision is its index among the possible loops."""
        return self.perform("sample_compute_location", {"block": block, "decision": decision})

    # -- loops ---------------------------------------------------------------------------------
    def split(
        self,
        loop: LoopRV,
        factors: Sequence[ExprLike | None],
        preserve_unit_iters: bool = True,
    ) -> list[LoopRV]:
        """Split a loop into a nest, outermost first; one factor may be None, to be inferred."""
        return self.perform(
            "split",
            {"loop": loop, "factors": factors, "preserve_unit_iters": preserve_unit_iters},
        )

    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Fuse perfectly nested loops into one."""
        return self.perform(
            "fuse", {"loops": list(loops), "preserve_unit_iters": preserve_unit_iters}
        )

    def merge(self, *loops: LoopRV) -> LoopRV:
        """Merge consecutive loops into one that runs all their bodies."""
        return self.perform("merge", {"loops": list(loops)})

    def loop_partition(
        self,
        loop: LoopRV,
        factors: Sequence[ExprLike | None],
        preserve_unit_iters: bool = True,
    ) -> list[LoopRV]:
        """Partition a loop into consecutive loops with given numbers of iterations."""
        return self.perform(
            "loop_partition",
            {"loop": loop, "factors": factors, "preserve_unit_iters": preserve_unit_iters},
        )

    def reorder(self, *ordered_loops: LoopRV) -> None:
        """Reorder loops of a nest; other loops in between keep their positions."""
        self.perform("reorder", {"ordered_loops": list(ordered_loops)})

    def reorder_block_iter_var(self, block: BlockRV | str, new_order: Sequence[int]) -> None:
        """Reorder the iterators of a block; ``new_order`` lists their old positions."""
        self.perform("reorder_block_iter_var", {"block": block, "new_order": as_list(new_order)})

    def add_unit_loop(self, block_or_loop: BlockRV | LoopRV) -> LoopRV:
        """Wrap a block or loop in a loop of one iteration."""
        return self.perform("add_unit_loop", {"block_or_loop": block_or_loop})

    # -- how loops run -------------------------------------------------------------------------
    def parallel(self, loop: LoopRV) -> None:
        """Run the iterations of a loop in parallel, on several threads."""
        self.perform("parallel", {"loop": loop})

    def vectorize(self, loop: LoopRV) -> None:
        """Vectorise a loop: run its iterations as the lanes of vectors."""
        self.perform("vectorize", {"loop": loop})

    def unroll(self, loop: LoopRV) -> None:
        """Unroll a loop: write out its iterations."""
        self.perform("unroll", {"loop": loop})

    def bind(self, loop: LoopRV, thread_axis: str) -> None:
        """Bind a loop to a GPU thread axis, which no target here has."""
        self.perform("bind", {"loop": loop, "thread_axis": thread_axis})

    def annotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str, ann_val: Any) -> None:
        """Annotate a block or loop, replacing any annotation with the same key."""
        self.perform(
            "annotate",
            {"block_or_loop": block_or_loop, "ann_key": ann_key, "ann_val": ann_val},
        )

    def unannotate(self, block_or_loop: BlockRV | LoopRV, ann_key: str) -> None:
        """Remove an annotation from a block or loop."""
        self.perform("unannotate", {"block_or_loop": block_or_loop, "ann_key": ann_key})

    # -- where blocks are computed -------------------------------------------------------------
    def compute_at(
        self,
        block: BlockRV | str,
        loop: LoopRV,
        preserve_unit_loops: bool = False,
        index: int = -1,
    ) -> None:
        """Move a block into a loop, to compute in each iteration the elements that it consumes."""
        self.perform(
            "compute_at",
            {
                "block": block,
                "loop": loop,
                "preserve_unit_loops": preserve_unit_loops,
                "index": index,
            },
        )

    def reverse_compute_at(
        self,
        block: BlockRV | str,
        loop: LoopRV,
        preserve_unit_loops: bool = False,
        index: int = -1,
    ) -> None:
        """Move a block into a loop of its producer; each iteration consumes what it produces."""
        self.perform(
            "reverse_compute_at",
            {
                "block": block,
                "loop": loop,
                "preserve_unit_loops": preserve_unit_loops,
                "index": index,
            },
        )

    def compute_inline(self, block: BlockRV | str) -> None:
        """Inline a block into its consumers, and remove it."""
        self.perform("compute_inline", {"block": block})

    def reverse_compute_inline(self, block: BlockRV | str) -> None:
        """Inline a block into its producer, and remove it."""
        self.perform("reverse_compute_inline", {"block": block})

    # -- buffers -------------------------------------------------------------------------------
    def cache_read(
        self,
        block: BlockRV | str,
        read_buffer_index: int | str | Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None = None,
    ) -> BlockRV:
        """Copy what blocks read of a buffer to a new buffer, from which they then read."""
        return self.perform(
            "cache_read",
            {
                "block": block,
                "read_buffer_index": _name_of(read_buffer_index),
                "storage_scope": storage_scope,
                "consumer_blocks": consumer_blocks,
            },
        )

    def cache_write(
        self,
        block: BlockRV | str,
        write_buffer_index: int | str | Buffer,
        storage_scope: str,
        consumer_blocks: Sequence[BlockRV | str] | None = None,
    ) -> BlockRV:
        """Let a block write to a new buffer, which is then copied to the original."""
        return self.perform(
            "cache_write",
            {
                "block": block,
                "write_buffer_index": _name_of(write_buffer_index),
                "storage_scope": storage_scope,
                "consumer_blocks": consumer_blocks,
            },
        )

    def read_at(
        self,
        loop: LoopRV,
        block: BlockRV | str,
        read_buffer_index: int | str | Buffer,
        storage_scope: str,
    ) -> BlockRV:
        """In each iteration of a loop, copy what it reads of a buffer to a new buffer."""
        given = {"loop": loop, "block": block, "storage_scope": storage_scope}
        return self.perform("read_at", {**given, "read_buffer_index": _name_of(read_buffer_index)})

    def write_at(
        self,
        loop: LoopRV,
        block: BlockRV | str,
        write_buffer_index: int | str | Buffer,
        storage_scope: str,
    ) -> BlockRV:
        """Let a block write to a new buffer, which each iteration of a loop copies back."""
        given = {"loop": loop, "block": block, "storage_scope": storage_scope}
        return self.perform(
            "write_at", {**given, "write_buffer_index": _name_of(write_buffer_index)}
        )

    def cache_inplace(
        self, block: BlockRV | str, read_buffer_index: int | str | Buffer, storage_scope: str
    ) -> list[BlockRV]:
        """Let a block update a copy of a buffer, which is then copied back."""
        given = {"block": block, "storage_scope": storage_scope}
        named = {"read_buffer_index": _name_of(read_buffer_index)}
        return self.perform("cache_inplace", {**given, **named})

    def reindex(self, block: BlockRV | str, buffer: tuple[str, int] | str | Buffer) -> BlockRV:
        """Insert a stage between a block and a buffer, whose axes are the block's iterators."""
        return self.perform("reindex", {"block": block, "buffer": _name_of(buffer)})

    def reindex_cache_read(
        self,
        block: BlockRV | str,
        read_buffer_index: int | str | Buffer,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Copy what a block reads to a new buffer, with indices given by a map of the iterators."""
        found = self._find_block(block)
        made = self._map(
            "reindex_cache_read", index_map, lambda: self._iterators(found, "reindex_cache_read")
        )
        given = {"block": found, "storage_scope": storage_scope, "index_map": made}
        return self.perform(
            "reindex_cache_read", {**given, "read_buffer_index": _name_of(read_buffer_index)}
        )

    def reindex_cache_write(
        self,
        block: BlockRV | str,
        write_buffer_index: int | str | Buffer,
        storage_scope: str,
        index_map: IndexMap | Callable[..., Any],
    ) -> BlockRV:
        """Let a block write to a new buffer, with indices given by a map of the iterators."""
        found = self._find_block(block)
        made = self._map(
            "reindex_cache_write", index_map, lambda: self._iterators(found, "reindex_cache_write")
        )
        given = {"block": found, "storage_scope": storage_scope, "index_map": made}
        return self.perform(
            "reindex_cache_write", {**given, "write_buffer_index": _name_of(write_buffer_index)}
        )

    def set_scope(
        self, block: BlockRV | str, buffer_index: int | str | Buffer, storage_scope: str
    ) -> None:
        """Change the storage scope of a buffer that a block writes."""
        given = {"buffer_index": _name_of(buffer_index), "storage_scope": storage_scope}
        self.perform("set_scope", {"block": block, **given})

    def storage_align(
        self,
        block: BlockRV | str,
        buffer_index: int | str | Buffer,
        axis: int,
        factor: int,
        offset: int,
    ) -> None:
        """Align the stride of an axis of a buffer that a block writes, by padding."""
        given = {"axis": axis, "factor": factor, "offset": offset}
        named = {"block": block, "buffer_index": _name_of(buffer_index)}
        self.perform("storage_align", {**named, **given})

    def unsafe_set_dtype(
        self, block: BlockRV | str, buffer_index: int | str | Buffer, dtype: str
    ) -> None:
        """Change the dtype of a buffer that a block writes; results may change."""
        given = {"buffer_index": _name_of(buffer_index), "dtype": str(dtype)}
        self.perform("unsafe_set_dtype", {"block": block, **given})

    def transform_layout(
        self,
        block: BlockRV | str,
        buffer: tuple[str, int] | str | Buffer,
        index_map: IndexMap | Callable[..., Any],
        pad_value: ExprLike | IndexMap | Callable[..., Any] | None = None,
        assume_injective_transform: bool = False,
    ) -> None:
        """Transform the layout of a buffer by an index map."""
        block = self._find_block(block)
        made = self._map(
            "transform_layout", index_map, lambda: self._buffer(block, _name_of(buffer)).shape
        )
        if callable(pad_value):
            pad_value = self._map("transform_layout", pad_value, lambda: made.final_indices)
        self.perform(
            "transform_layout",
            {
                "block": block,
                "buffer": _name_of(buffer),
                "index_map": made,
                "pad_value": pad_value,
                "assume_injective_transform": assume_injective_transform,
            },
        )

    def _iterators(self, block: Any, name: str) -> list[Var]:
        ref = self._arguments.read(_BLOCK, block, name)
        return [it.var for it in ref.block.iter_vars]

    def _buffer(self, block: Any, buffer: Any) -> Buffer:
        ref = self._arguments.read(_BLOCK, block, "transform_layout")
        try:
            return _layout.resolve_buffer(ref, buffer)
        except RefusalError as refused:
            raise self._error("transform_layout", refused.refusal, [ref]) from None

    def _map(
        self,
        name: str,
        function: IndexMap | Callable[..., Any],
        axes: Callable[[], Sequence[PrimExpr]],
    ) -> IndexMap:
        """Make a map of a function of indices; it has as many as there are ``axes``."""
        if isinstance(function, IndexMap):
            return function
        if not callable(function):
            raise bad_argument(
                name, f"{show_value(function)} is not a function", "give a function of indices"
            )
        found = axes()
        dtype = str(found[0].dtype) if found else "int32"
        try:
            return IndexMap.from_func(function, len(found), dtype)
        except CompileError as error:
            told = error.diagnostics[0]
            raise bad_argument(name, told.message, told.help) from None

    # -- reductions ----------------------------------------------------------------------------
    def decompose_reduction(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Split off the init of a reduction as a block of its own, before a loop."""
        return self.perform("decompose_reduction", {"block": block, "loop": loop})

    def rfactor(self, loop: LoopRV, factor_axis: int = 0) -> BlockRV:
        """Factor a reduction: each iteration of a loop computes a partial result, reduced later."""
        return self.perform("rfactor", {"loop": loop, "factor_axis": factor_axis})

    def fuse_reduction_epilogue(
        self, reduction_block: BlockRV | str, epilogue_block: BlockRV | str
    ) -> None:
        """Fuse an addition after a sum into the sum, as its initial value."""
        self.perform(
            "fuse_reduction_epilogue",
            {"reduction_block": reduction_block, "epilogue_block": epilogue_block},
        )

    # -- tensor instructions ---------------------------------------------------------------------
    def blockize(self, target: LoopRV | BlockRV, preserve_unit_iters: bool = True) -> BlockRV:
        """Turn a nest into a block, so that code outside sees tiles instead of elements."""
        return self.perform(
            "blockize", {"target": target, "preserve_unit_iters": preserve_unit_iters}
        )

    def tensorize(
        self, block_or_loop: BlockRV | LoopRV, tensor_intrin: str, preserve_unit_iters: bool = True
    ) -> None:
        """Replace a block, or the nest of a loop, by an equivalent tensor intrinsic."""
        self.perform(
            "tensorize",
            {
                "block_or_loop": block_or_loop,
                "tensor_intrin": tensor_intrin,
                "preserve_unit_iters": preserve_unit_iters,
            },
        )

    def transform_block_layout(
        self, block: BlockRV | str, index_map: IndexMap | Callable[..., Any]
    ) -> None:
        """Transform a block's iterators by an index map."""
        found = self._find_block(block)
        made = self._map(
            "transform_block_layout",
            index_map,
            lambda: self._iterators(found, "transform_block_layout"),
        )
        self.perform("transform_block_layout", {"block": found, "index_map": made})

    # -- padding ---------------------------------------------------------------------------------
    def can_decompose_padding(self, block: BlockRV | str, loop: LoopRV) -> bool:
        """Tell whether ``decompose_padding`` takes a block and a loop."""
        params = PRIMITIVES["decompose_padding"].params
        read, name = self._arguments.read, "can_decompose_padding"
        ref = read(params["block"], self._find_block(block), name)
        return cannot_decompose_padding(ref, read(params["loop"], loop, name)) is None

    def decompose_padding(self, block: BlockRV | str, loop: LoopRV) -> BlockRV:
        """Store the padding of a buffer first, in a block of its own before a loop."""
        return self.perform("decompose_padding", {"block": block, "loop": loop})

    def pad_einsum(self, block: BlockRV | str, padding: Sequence[int]) -> None:
        """Round up the iteration domain of a sum of products, and pad its operands with zeros."""
        self.perform("pad_einsum", {"block": block, "padding": as_list(padding)})


def _row(name: Any, arguments: Mapping[str, Any]) -> Primitive:
    """Find a primitive and see that it takes arguments of these names."""
    if not isinstance(name, str) or name not in PRIMITIVES:
        guess = nearest(name, PRIMITIVES)
        raise bad_argument(
            "perform",
            f"there is no primitive {quote_name(name)}",
            f"did you mean {guess!r}?" if guess else "see the list of primitives",
        )
    row = PRIMITIVES[name]
    if not isinstance(cast("object", arguments), Mapping):
        raise bad_argument(name, "arguments are no mapping", "give a dict: values by names")
    for given in arguments:
        if given not in row.params:
            takes = ", ".join(row.params)
            raise bad_argument(name, f"it takes no {quote_name(given)}", f"it takes: {takes}")
    return row


def _name_of(buffer: Any) -> Any:
    """Return the name of a buffer, which is what a trace keeps."""
    return buffer.name if isinstance(buffer, Buffer) else buffer


def _copy_plain(value: Any) -> Any:
    """Copy lists and tables in plain data."""
    if isinstance(value, (list, tuple)):
        return [_copy_plain(item) for item in cast("Sequence[Any]", value)]
    if isinstance(value, Mapping):
        return {k: _copy_plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    return value


def _document(table: Mapping[str, Any], method: Callable[[str], Any]) -> None:
    """Set the docstring of each method to the documentation of its primitive."""
    for name, row in table.items():
        method(name).__doc__ = row.doc


_document(PRIMITIVES, lambda name: getattr(Schedule, name))
explain_misfits(Schedule)
