"""Lower a syntax tree to TIR: names, types, ranges, and one function for each ``def``.

Calls of other functions are inlined, so that each function is one kernel.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Final, NamedTuple

from loomir.arith.analyzer import Analyzer
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.visit import trampoline
from loomir.support.diagnostics import Diagnostic, with_count
from loomir.support.dtype import HANDLE
from loomir.support.span import Span
from loomir.tc.mistakes import Mistakes, guess
from loomir.tc.preconditions import Preconditions
from loomir.tc.scope import BrokenName, Names, Size, Tensor
from loomir.tc.statements import FunctionScope, assign
from loomir.tc.syntax import Assignment, CallStatement, Def, Ident, Param, Program
from loomir.tc.to_te import Step
from loomir.tc.types import INDEX, SCALARS
from loomir.tir.buffer import decl_buffer
from loomir.tir.expr import NE, Eq, IntImm, PrimExpr, StringImm, Var
from loomir.tir.function import PrimFunc
from loomir.tir.stmt import TRUE, AssertStmt, Block, BlockRealize, SeqStmt, Stmt

__all__ = ["LoweredText", "Unit", "lower"]

_MOST_STATEMENTS: Final = 2_000
# Sizes are far below this: no array of so many elements fits an address space.
_SIZE_LIMIT: Final = 1 << 40


class Unit(NamedTuple):
    """A function of the text: the tensors that a call takes, those that it makes, and its TIR.

    Those that it changes in place are among the taken and the ``returned``. ``unchecked`` tells
    that all accesses are proved to stay inside.
    """

    name: str
    sizes: tuple[Var, ...]
    taken: tuple[Tensor, ...]
    made: tuple[Tensor, ...]
    returned: tuple[Tensor, ...]
    func: PrimFunc
    steps: tuple[Step, ...]
    unchecked: bool


class LoweredText(NamedTuple):
    """The functions of a text, and what may surprise in them."""

    units: tuple[Unit, ...]
    warnings: tuple[Diagnostic, ...]

    def module(self) -> IRModule:
        """Return the functions as a module."""
        functions: dict[GlobalVar, BaseFunc] = {GlobalVar(u.name): u.func for u in self.units}
        return IRModule(functions)


def lower(program: Program, sizes: Mapping[str, int] | None = None) -> LoweredText:
    """Return every function as TIR; ``sizes`` puts numbers for size variables.

    Errors: all mistakes of the text, in one ``CompileError``.
    """
    mistakes = Mistakes()
    lowering = _Lowering(program, sizes or {}, mistakes)
    for function in lowering.sort_by_calls():
        lowering.unit(function)
    mistakes.settle()
    units = tuple(lowering.units[f.name.name] for f in program.functions)
    return LoweredText(units, tuple(mistakes.warnings))


class _Lowering:
    def __init__(self, program: Program, sizes: Mapping[str, int], mistakes: Mistakes) -> None:
        self.sizes, self.mistakes = sizes, mistakes
        self.units: dict[str, Unit] = {}
        self.functions: dict[str, Def] = {}
        self.repeated: list[Def] = []
        for function in program.functions:
            earlier = self.functions.setdefault(function.name.name, function)
            if earlier is not function:
                self.repeated.append(function)
                _twice(mistakes, function.name, earlier.name.span)
            _check_name(mistakes, function.name)
        self.broken: set[str] = set()

    def sort_by_calls(self) -> list[Def]:
        """List the functions, each after those that it calls. Errors: TC0107."""
        done: list[Def] = []
        state: dict[str, int] = {}
        for root in self.functions:
            stack: list[tuple[str, bool]] = [(root, False)]
            while stack:
                name, leaving = stack.pop()
                function = self.functions[name]
                if leaving:
                    state[name] = 2
                    done.append(function)
                    continue
                if name in state:
                    continue
                state[name] = 1
                stack.append((name, True))
                for call in function.body:
                    if not isinstance(call, CallStatement):
                        continue
                    callee = call.callee.name
                    if state.get(callee) == 1:
                        self.broken |= {name, callee}
                        self.mistakes.add(
                            "TC0107",
                            f"{callee!r} calls itself",
                            call.callee.span,
                            "this call closes a cycle",
                            help="write out the statements: calls are inlined, so they must end",
                        )
                    elif callee in self.functions and callee not in state:
                        stack.append((callee, False))
        return [*done, *self.repeated]

    def unit(self, function: Def) -> None:
        """Lower one function, and keep what it became."""
        before = len(self.mistakes.found)
        body = _Body(self, function)
        made = body.run()
        name = function.name.name
        if made is None or len(self.mistakes.found) > before or name in self.broken:
            self.broken.add(name)
        else:
            self.units[name] = made


class _Body:
    """One function of the text on its way to TIR, with the calls in it."""

    def __init__(self, lowering: _Lowering, function: Def) -> None:
        self.lowering, self.function = lowering, function
        self.mistakes = lowering.mistakes
        self.plain = Analyzer()
        self.checks = Preconditions(self.plain, self.mistakes)
        self.statements: list[Stmt] = []
        self.steps: list[Step] = []
        self.locals: dict[int, Tensor] = {}
        self.block_names: dict[str, int] = {}
        self.count = 0

    def run(self) -> Unit | None:
        function, names = self.function, Names()
        sizes: list[Var] = []
        params: list[Tensor] = []
        returned = {ident.name for ident in function.returns}
        for param in function.params:
            tensor = self._param(param, names, sizes, returned)
            if tensor is not None:
                params.append(tensor)
        self._check_returns(function)
        outputs = {name: (name, True) for name in returned}
        frame = FunctionScope(names, outputs, self)
        trampoline(self.body(function, frame))
        results: list[Tensor] = []
        for ident in function.returns:
            entry = names.get(ident.name)
            if isinstance(entry, Tensor) and (entry.written or not entry.writable):
                results.append(entry)
            elif not isinstance(entry, BrokenName):
                self._report_undefined(ident, function)
        if len(results) < len(function.returns) or len(params) < len(function.params):
            return None
        made = [t for t in results if not any(t is p for p in params)]
        func = self._func(params, made)
        return Unit(
            function.name.name,
            tuple(sizes),
            tuple(params),
            tuple(made),
            tuple(results),
            func,
            tuple(self.steps),
            not self.checks.asserts and not self.checks.loops,
        )

    # -- parameters and results --------------------------------------------------------------------
    def _param(
        self, param: Param, names: Names, sizes: list[Var], returned: set[str]
    ) -> Tensor | None:
        dtype = SCALARS.get(param.type.name)
        if dtype is None:
            self.mistakes.add(
                "TC0004",
                f"{param.type.name!r} is not a scalar type",
                param.type.span,
                help=guess(param.type.name, SCALARS, "use float, double, int32, …"),
            )
        dims: list[PrimExpr] = []
        for size in param.sizes or ():
            entry = names.get(size.name)
            if entry is None:
                _check_name(self.mistakes, size)
                entry = names[size.name] = Size(self._size(size, sizes), size.span)
            if isinstance(entry, Size):
                dims.append(entry.value)
            else:
                _twice(self.mistakes, size, entry.span)
        earlier = names.get(param.name.name)
        if earlier is not None:
            _twice(self.mistakes, param.name, earlier.span)
            return None
        _check_name(self.mistakes, param.name)
        if dtype is None or len(dims) < len(param.sizes or ()):
            names[param.name.name] = BrokenName(param.name.span)
            return None
        buffer = decl_buffer(dims, dtype, param.name.name, span=param.span)
        made = Tensor(
            param.name.name, buffer, tuple(dims), param.name.span, param.name.name in returned
        )
        names[param.name.name] = made
        return made

    def _size(self, ident: Ident, sizes: list[Var]) -> PrimExpr:
        given = self.lowering.sizes.get(ident.name)
        if given is not None:
            return IntImm(given, INDEX)
        var = Var(ident.name, INDEX, span=ident.span)
        for analyzer in (self.plain, self.checks.analyzer):
            analyzer.assume_size(var, _SIZE_LIMIT)
        sizes.append(var)
        return var

    def _check_returns(self, function: Def) -> None:
        seen: dict[str, Ident] = {}
        for ident in function.returns:
            earlier = seen.setdefault(ident.name, ident)
            if earlier is not ident:
                _twice(self.mistakes, ident, earlier.span)

    def _report_undefined(self, ident: Ident, function: Def) -> None:
        defined = [
            target.name
            for s in function.body
            for target in ([s.target] if isinstance(s, Assignment) else s.targets)
        ]
        if ident.name in defined:
            return  # that statement has a mistake, which is reported there
        self.mistakes.add(
            "TC0108",
            f"{ident.name!r} is returned, and no statement defines it",
            ident.span,
            help=guess(ident.name, defined, f"assign it, as in {ident.name}(i) = …"),
        )

    def _func(self, params: list[Tensor], made: list[Tensor]) -> PrimFunc:
        tensors = [*params, *made]
        handles = {Var(f"{t.name}_handle", HANDLE, span=t.span): t.buffer for t in tensors}
        results = {id(t) for t in made}
        inner = tuple(t.buffer for t in self.locals.values() if id(t) not in results)
        parts = [*self.checks.loops, *self.statements]
        body: Stmt = parts[0] if len(parts) == 1 else SeqStmt(tuple(parts))
        for condition, text, span in reversed(self.checks.asserts):
            body = AssertStmt(condition, StringImm(text), body, span=span)
        root = BlockRealize((), TRUE, Block((), (), (), "root", body, None, inner))
        attrs = {"global_symbol": self.function.name.name}
        return PrimFunc(
            tuple(handles), root, buffer_map=handles, attrs=attrs, span=self.function.span
        )

    # -- statements and calls ----------------------------------------------------------------------
    def body(self, function: Def, frame: FunctionScope) -> Generator[Any, Any, None]:
        """Lower the statements of a function, one that is called included."""
        for statement in function.body:
            self.count += 1
            if self.count > _MOST_STATEMENTS:
                if self.count == _MOST_STATEMENTS + 1:
                    self._note_too_large(statement.span)
                return
            if isinstance(statement, Assignment):
                assign(statement, frame)
            else:
                yield self._call(statement, frame)

    def _note_too_large(self, span: Span) -> None:
        self.mistakes.add(
            "TC0117",
            f"{self.function.name.name!r} has more than {_MOST_STATEMENTS} statements, with those "
            "of the functions that it calls",
            self.function.name.span,
            secondary=((span, "this one is too much"),),
            help="call fewer functions, or split the program",
        )

    def block_name(self, name: str) -> str:
        """Return a name that no other block of the function has."""
        number = self.block_names.get(name, -1) + 1
        self.block_names[name] = number
        if number == 0:
            return name
        made = f"{name}_{number}"
        return self.block_name(made) if made in self.block_names else self._take_name(made)

    def _take_name(self, name: str) -> str:
        self.block_names[name] = 0
        return name

    def _call(self, call: CallStatement, frame: FunctionScope) -> Generator[Any, Any, None]:
        callee = self.lowering.functions.get(call.callee.name)
        results = self._arguments(call, callee, frame)
        if callee is None or results is None:
            for target in call.targets:
                if target.name not in frame.names:
                    frame.names[target.name] = BrokenName(target.span)
            return
        inner, changed = results
        outputs: dict[str, tuple[str, bool]] = {}
        for ident, target in zip(callee.returns, call.targets, strict=True):
            outputs[ident.name] = frame.outputs.get(target.name, (target.name, False))
        called = FunctionScope(inner, outputs, self, prefix=f"{callee.name.name}_")
        before = len(self.mistakes.found)
        yield self.body(callee, called)
        self._say_where(call, before)
        for ident, target in zip(callee.returns, call.targets, strict=True):
            entry = inner.get(ident.name)
            if ident.name in changed:
                changed[ident.name].written = True
            elif isinstance(entry, Tensor):
                made = Tensor(target.name, entry.buffer, entry.dims, target.span, True, True)
                frame.names[target.name] = made
                self.locals[id(made.buffer)] = made
            else:
                frame.names[target.name] = BrokenName(target.span)

    def _say_where(self, call: CallStatement, before: int) -> None:
        """Add the place of the call to mistakes that were found only through it."""
        for number in range(before, len(self.mistakes.found)):
            found = self.mistakes.found[number]
            if len(found.secondary) > 1:
                continue  # the innermost call says enough
            places = (*found.secondary, (call.span, "called here"))
            self.mistakes.found[number] = Diagnostic(
                found.code, found.message, found.span, found.label, places, found.notes, found.help
            )

    def _arguments(
        self, call: CallStatement, callee: Def | None, frame: FunctionScope
    ) -> tuple[Names, dict[str, Tensor]] | None:
        """Bind the names of the called function, and return those that it changes in place."""
        if callee is None:
            self.mistakes.add(
                "TC0106",
                f"the text has no function {call.callee.name!r}",
                call.callee.span,
                help=guess(
                    call.callee.name,
                    self.lowering.functions,
                    "functions on numbers stand on the right of B(i) = …",
                ),
            )
            return None
        if callee.name.name in self.lowering.broken:
            return None
        pairs = [
            (call.args, callee.params, "argument"),
            (call.targets, callee.returns, "result"),
        ]
        for given, wanted, what in pairs:
            if len(given) != len(wanted):
                self.mistakes.add(
                    "TC0104",
                    f"{callee.name.name!r} has {with_count(len(wanted), what)}, not {len(given)}",
                    call.span,
                    secondary=((callee.name.span, "defined here"),),
                    help=f"name {with_count(len(wanted), what)}",
                )
                return None
        tensors = [
            self._argument(arg, param, frame)
            for arg, param in zip(call.args, callee.params, strict=True)
        ]
        bound = [t for t in tensors if t is not None]
        if len(bound) < len(tensors):
            return None
        names, changed = self._bind(call, callee, bound)
        return (names, changed) if self._targets(call, callee, frame, changed) else None

    def _argument(self, arg: Ident, param: Param, frame: FunctionScope) -> Tensor | None:
        entry = frame.names.get(arg.name)
        if isinstance(entry, BrokenName):
            return None
        if not isinstance(entry, Tensor):
            tensors = [n for n, e in frame.names.items() if isinstance(e, Tensor)]
            self.mistakes.add(
                "TC0101",
                f"there is no tensor {arg.name!r} here",
                arg.span,
                help=guess(
                    arg.name, tensors, "pass a parameter, or what an earlier statement defines"
                ),
            )
            return None
        rank = len(param.sizes or ())
        wanted = SCALARS[param.type.name]
        if entry.buffer.dtype is not wanted or len(entry.dims) != rank:
            self.mistakes.add(
                "TC0202",
                f"{arg.name!r} is {entry.buffer.dtype} with "
                f"{with_count(len(entry.dims), 'axis', 'axes')}, where {wanted} with "
                f"{with_count(rank, 'axis', 'axes')} is taken",
                arg.span,
                secondary=((param.span, "taken here"),),
                help="assign it to a tensor of that type first, and pass that one",
            )
            return None
        return entry

    def _bind(
        self, call: CallStatement, callee: Def, tensors: list[Tensor]
    ) -> tuple[Names, dict[str, Tensor]]:
        names, changed = Names(), dict[str, Tensor]()
        returned = {ident.name for ident in callee.returns}
        for arg, param, tensor in zip(call.args, callee.params, tensors, strict=True):
            for axis, (size, dim) in enumerate(zip(param.sizes or (), tensor.dims, strict=True)):
                known = names.get(size.name)
                if isinstance(known, Size):
                    self._require_equal(arg, axis, size, known.value, dim)
                else:
                    names[size.name] = Size(dim, size.span)
            inside = param.name.name in returned
            names[param.name.name] = Tensor(
                param.name.name, tensor.buffer, tensor.dims, param.name.span, inside, tensor.written
            )
            if inside:
                changed[param.name.name] = tensor
        return names, changed

    def _require_equal(
        self, arg: Ident, axis: int, size: Ident, known: PrimExpr, dim: PrimExpr
    ) -> None:
        if self.checks.analyzer.can_prove_equal(known, dim):
            return
        if self.plain.can_prove(NE(known, dim)):
            self.mistakes.add(
                "TC0202",
                f"axis {axis} of {arg.name!r} never has the size {size.name!r} that an earlier "
                "argument has",
                arg.span,
                secondary=((size.span, "the sizes must be the same"),),
                help="pass tensors of equal sizes",
            )
            return
        text = f"axis {axis} of {arg.name} has another size than {size.name}"
        self.checks.require(Eq(known, dim), text, arg.span)

    def _targets(
        self, call: CallStatement, callee: Def, frame: FunctionScope, changed: dict[str, Tensor]
    ) -> bool:
        """Check the left side of a call: new names, but for what is changed in place."""
        right = True
        args = {p.name.name: a for p, a in zip(callee.params, call.args, strict=True)}
        seen: dict[str, Ident] = {}
        for ident, target in zip(callee.returns, call.targets, strict=True):
            twice = seen.setdefault(target.name, target)
            entry = frame.names.get(target.name)
            if twice is not target:
                _twice(self.mistakes, target, twice.span)
                right = False
            elif ident.name in changed:
                arg = args[ident.name]
                is_only = sum(a.name == arg.name for a in call.args) == 1
                if arg.name != target.name or not is_only:
                    self.mistakes.add(
                        "TC0202",
                        f"{callee.name.name!r} changes {arg.name!r} in place, and gives it back",
                        target.span,
                        secondary=((ident.span, f"{ident.name} is taken and returned"),),
                        help=f"name it {arg.name} on the left, and pass it once",
                    )
                    right = False
                elif not changed[ident.name].writable:
                    self.mistakes.add(
                        "TC0109",
                        f"{arg.name!r} is changed, and it is a parameter that is not returned",
                        arg.span,
                        secondary=((changed[ident.name].span, "defined here"),),
                        help=f"return {arg.name} too, or assign it to a new tensor first",
                    )
                    right = False
            elif entry is not None:
                _twice(self.mistakes, target, entry.span)
                right = False
            else:
                _check_name(self.mistakes, target)
        return right


def _twice(mistakes: Mistakes, ident: Ident, earlier: Span) -> None:
    mistakes.add(
        "TC0102",
        f"{ident.name!r} is defined already",
        ident.span,
        secondary=((earlier, "defined here"),),
        help="use another name: sizes, tensors and indices share one namespace",
    )


def _check_name(mistakes: Mistakes, ident: Ident) -> None:
    if ident.name in SCALARS:
        mistakes.add(
            "TC0003",
            f"{ident.name!r} is a type",
            ident.span,
            "cannot name anything else",
            help="use another name",
        )
