"""Compiled graph functions, called from Python, and their calls back into Python."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn, Protocol, cast
from weakref import WeakValueDictionary

import numpy as np

from loomir.runtime.dlpack import is_array, plain_array
from loomir.runtime.errors import RunAssertionError, RunTypeError, refuse_pickle
from loomir.runtime.fault import Fault, FaultKind
from loomir.runtime.graph import object_layout as at
from loomir.runtime.graph.callback import begin, end
from loomir.runtime.graph.fast_call import EndedCall, fast_entry_for, read_ended
from loomir.runtime.graph.objects import (
    Reference,
    flags_of,
    foreign,
    functions,
    handle_of,
    kind_of,
    new_holding,
    pointers,
    tensor_at,
    word,
)
from loomir.runtime.graph.values import (
    ArgumentConverter,
    ExpectedDTypes,
    array_of,
    origin_of,
    python_of,
    reference_to,
    retype,
    scalar_of,
    to_torch,
)
from loomir.runtime.interrupts import interrupt_of
from loomir.runtime.packed.callback import interruption, take
from loomir.runtime.packed.packed_call import find_function, mark_own, with_place
from loomir.support.diagnostics import (
    Diagnostic,
    InternalError,
    LoomirError,
    RunError,
    nearest,
    with_count,
)
from loomir.support.fork_safe import ForkSafeLock
from loomir.support.uncompiled_call import is_callable

__all__ = ["GraphFunction", "GraphProgram", "Signature"]


class Signature(NamedTuple):
    """What Python needs to know of a function: its name, its parameters, and their scalar dtypes.

    ``sizes`` are the indices of captured numbers that its structural information depends on.
    """

    name: str
    names: tuple[str, ...]
    wanted: tuple[ExpectedDTypes, ...]
    sizes: tuple[int, ...]


class Code(Protocol):
    """Machine code that is loaded on demand."""

    def symbol(self, symbol: str) -> int:
        """Return the address of a symbol."""
        ...


class _LoadedCode(NamedTuple):
    address: int
    enter: Callable[..., int]
    function: Callable[[int], int]
    packed: int


_VOID: Final = ctypes.c_void_p
_INT: Final = ctypes.c_int64
_ENTER: Final = ctypes.CFUNCTYPE(ctypes.c_int32, _VOID, _VOID, _INT, _VOID, _VOID, _INT)
_FUNCTION: Final = ctypes.CFUNCTYPE(_VOID, _INT)


class GraphProgram:
    """The graph functions of a compiled module; it lives as long as any of their results.

    - ``signatures`` are those of all functions that can be values, by number.
    - ``describe`` returns the structural information of one, given its number and captured numbers.
    - ``compare`` raises the ``RunError`` of a function value without the required signature, given
      the number of the check, the function, and the numbers that the signature depends on.
    - ``never_calls_python``: calls with arrays run no Python code.
    - ``entries`` maps sites of faults about arguments to functions; ``explain`` raises an error
      that lists everything wrong with the arguments of such a function.
    """

    def __init__(
        self,
        code: Code,
        faults: Sequence[Fault],
        values: int,
        signatures: Sequence[Signature],
        describe: Callable[[int, tuple[Any, ...]], object],
        compare: Callable[[int, object, tuple[Any, ...]], None],
        entries: Mapping[int, str],
        explain: Callable[[str, tuple[object, ...]], None],
        *,
        never_calls_python: bool = False,
    ) -> None:
        self.never_calls_python = never_calls_python
        self.faults = tuple(faults)
        self.values = values
        self.signatures = tuple(signatures)
        self.describe = describe
        self.compare = compare
        self.entries = dict(entries)
        self.explain = explain
        self._code = code
        self._lock = ForkSafeLock()
        self._loaded: _LoadedCode | None = None
        self._constant: WeakValueDictionary[int, GraphFunction] = WeakValueDictionary()

    def load(self) -> _LoadedCode:
        """Load the code, once."""
        found = self._loaded
        if found is None:
            with self._lock:
                found = self._loaded
                if found is None:
                    enter = self._code.symbol("loomir_enter")
                    function = self._code.symbol("loomir_function")
                    packed = self._code.symbol("loomir_packed")
                    found = _LoadedCode(enter, _ENTER(enter), _FUNCTION(function), packed)
                    self._loaded = found
        return found

    def function(
        self, number: int, signature: int, kind: type[GraphFunction] | None = None
    ) -> GraphFunction:
        """Return a public function by its number."""
        return (kind or GraphFunction)(self, self.signatures[signature], number=number)

    def find_function(self, address: int) -> GraphFunction:
        """Return the function of a function object of this program."""
        number = word(word(address, at.INFO), at.INFO_NUMBER)
        known = self.signatures[number]
        if word(address, at.COUNT) > 0:
            return GraphFunction(self, known, reference=reference_to(address, self))
        found = self._constant.get(address)
        if found is None:
            found = GraphFunction(self, known, address=address)
            self._constant[address] = found
        return found


class GraphFunction:
    """A compiled graph function: takes values in order or by name, and returns a value.

    Arrays are shared, never copied; results own their memory. Several threads may call at once.
    ``info`` is its structural information.

    Errors: RUN0101 and RUN0102 for too few, too many or unknown arguments, RUN0105 to RUN0111 for
    wrong ones, and those of the program.
    """

    __slots__ = (
        "__weakref__",
        "_address",
        "_fast_entry",
        "_number",
        "_reference",
        "_signature",
        "_slow",
        "_words",
        "name",
        "program",
    )

    def __init__(
        self,
        program: GraphProgram,
        signature: Signature,
        *,
        number: int = -1,
        address: int = 0,
        reference: Reference | None = None,
    ) -> None:
        self.program = program
        self.name = signature.name
        self._signature = signature
        self._number = number
        self._address = address if reference is None else reference.address
        self._reference = reference
        self._fast_entry: Callable[..., Any] = _refuse_all
        self._words: object = None
        self._slow = 0

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return self._signature.names

    @property
    def address(self) -> int:
        """The address of the function object."""
        if not self._address:
            self._address = self.program.load().function(self._number)
        return self._address

    @property
    def info(self) -> object:
        """The description of the function."""
        address = self.address
        number = word(word(address, at.INFO), at.INFO_NUMBER)
        sizes = tuple(scalar_of(word(address, at.CAPTURED + 8 * i)) for i in self._signature.sizes)
        return self.program.describe(number, sizes)

    def __repr__(self) -> str:
        return f"<compiled {self.name}({', '.join(self.parameters)})>"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled. Errors: RUN0468."""
        raise refuse_pickle(self.name)

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        """Run the function; see the class."""
        if kwargs:
            return self._call_slow(self._arrange_by_position(args, kwargs))
        made = self._fast_entry(*args)
        kind = made.__class__
        if kind is np.ndarray or kind is tuple:
            return made
        if made is None:
            self._slow = calls = self._slow + 1
            # Most programs call once, and should not wait for the preparation of fast calls.
            if calls == 2:
                self._prepare_fast_entry()
            return self._call_slow(args)
        return _Call(self.program).resume(read_ended(made), args, self._signature)

    def _call_slow(self, args: tuple[object, ...]) -> Any:
        if len(args) != len(self._signature.names):
            args = self._arrange_by_position(args, {})
        return _Call(self.program).run(self.address, args, self._signature)

    def _prepare_fast_entry(self) -> None:
        program = self.program
        # A closure may have captured Python functions.
        if program.never_calls_python and self._number >= 0:
            enter = program.load().address
            made = fast_entry_for(enter, self.address, len(self.parameters), program.values)
            if made is not None:
                # In this order: another thread may call it at once.
                self._words = made.words
                self._fast_entry = made.call

    def _arrange_by_position(
        self, args: tuple[object, ...], kwargs: Mapping[str, object]
    ) -> tuple[object, ...]:
        names = self._signature.names
        rest = names[len(args) :]
        for name in kwargs:
            if name not in rest:
                raise self._keyword_error(name, names)
        missing = [name for name in rest if name not in kwargs]
        if len(args) > len(names) or missing:
            count = len(args) + len(kwargs)
            lacks = f"; missing: {', '.join(missing)}" if missing else ""
            verb = "was" if count == 1 else "were"
            raise RunTypeError(
                Diagnostic(
                    "RUN0101",
                    f"{self.name} takes {with_count(len(names), 'argument')}, {count} {verb} given"
                    + lacks,
                    help="give one argument for each parameter",
                )
            )
        return (*args, *(kwargs[name] for name in rest))

    def _keyword_error(self, name: str, names: Sequence[str]) -> RunError:
        if name in names:
            what, remedy = f"got {name!r} both by position and by name", "pass it once"
        else:
            guess = nearest(name, names)
            what = f"has no parameter {name!r}"
            remedy = (
                f"did you mean {guess!r}?" if guess else f"its parameters are {', '.join(names)}"
            )
        return RunTypeError(Diagnostic("RUN0102", f"{self.name} {what}", help=remedy))


def _refuse_all(*_: object) -> None:
    """Leave all arguments to the slow path."""


_infos: Final[dict[int, Any]] = {}


def _info_at(parameters: int) -> int:
    """Return the address of the description of a Python function, its number of arguments."""
    if parameters not in _infos:
        _infos[parameters] = (_INT * 3)(parameters, -1, 0)
    return ctypes.addressof(_infos[parameters])


class _Call:
    """One call of a graph from Python, until it has returned."""

    __slots__ = ("_given", "error", "program")

    def __init__(self, program: GraphProgram) -> None:
        self.program = program
        self.error: BaseException | None = None
        self._given = ArgumentConverter(self._callable, lend=True)

    def run(self, function: int, args: Sequence[object], signature: Signature) -> Any:
        """Call a function object."""
        enter = self.program.load().enter
        given, count = self._given, len(args)
        objects: list[int] = []
        try:
            for value, name, wanted in zip(args, signature.names, signature.wanted, strict=True):
                objects.append(given.object_of(value, name, wanted))
            result = _INT(0)
            report = (_INT * (2 + self.program.values))()
            passed = (_INT * (count or 1))(*objects)
            token = begin(self)
            try:
                status = enter(function, passed, count, ctypes.addressof(result), report, token)
            finally:
                end(token)
            if status == 0:
                return self._give(result.value)
        finally:
            given.settle(objects)
        self._raise(bytes(report), signature, tuple(args))

    def resume(self, call: EndedCall, args: tuple[Any, ...], signature: Signature) -> Any:
        """Finish a call that ended with a fault, or with results that Python has to convert."""
        given = self._given
        given.lent.update((made, (x, x)) for made, x in zip(call.lent, args, strict=True))
        try:
            if call.status == 0:
                return self._give(call.result)
        finally:
            given.settle(call.lent)
        self._raise(call.report, signature, args)

    def _raise(self, report: bytes, signature: Signature, args: tuple[object, ...]) -> NoReturn:
        failure = self._failure(report, signature, args)
        try:
            if isinstance(failure, LoomirError):
                # The frames in which the message was built would not help the reader.
                raise failure.with_traceback(None)
            raise failure  # from the user's own function, whose frames say where
        finally:
            # Its traceback refers to this frame, which must not refer to it.
            self.error = None
            del failure

    # -- results ---------------------------------------------------------------------------------
    def _give(self, result: int) -> Any:
        """Convert the result to a Python value, and consume its reference."""
        known: dict[int, Any] = {}
        lent = self._given.lent
        torch = self._given.torch
        taken: list[int] = [result]

        def leaf(kind: int, address: int) -> Any:
            if kind != at.TENSOR:
                return self._function_at(kind, address)
            if address in lent:
                return lent[address][1]
            if address not in known:
                tensor = tensor_at(address)
                found = origin_of(tensor)
                if found is not None:
                    made = found
                elif tensor.references < 0:
                    made = np.array(array_of(tensor, None))
                elif address == result:
                    # The result's reference is passed on.
                    made = array_of(tensor, Reference(address, self.program))
                    taken.clear()
                else:
                    made = array_of(tensor, reference_to(address, self.program))
                known[address] = to_torch(made) if torch else made
            return known[address]

        try:
            return python_of(result, leaf)
        finally:
            for address in taken:
                functions().release(address)

    def _function_at(self, kind: int, address: int) -> Any:
        if flags_of(address) & at.TRAMPOLINE:
            return handle_of(word(address, at.CAPTURED))
        if kind == at.PACKED:
            return find_function(_name_of(address))
        return self.program.find_function(address)

    def _failure(
        self, report: bytes, signature: Signature, args: tuple[object, ...]
    ) -> BaseException:
        words: tuple[int, ...] = struct.unpack(f"=iiq{self.program.values}q", report)
        site, root, values = words[0], words[2], words[3:]
        faults = self.program.faults
        raised = take(root, values[0])
        stopped = interrupt_of(root)
        if stopped is not None:
            return stopped
        if not 0 <= site < len(faults):
            return InternalError(f"a graph reported fault {site} of {len(faults)}")
        fault = faults[site]
        if fault.kind is not FaultKind.CALLEE:
            if self.program.entries.get(site) == signature.name:
                try:
                    self.program.explain(signature.name, args)
                except RunError as error:
                    return error
            return fault.error(values)
        raised = raised or self.error
        return interruption() if raised is None else with_place(raised, fault.span)

    # -- Python functions ------------------------------------------------------------------------
    def _callable(self, value: Any) -> int:
        """Make an object of a callable."""
        if isinstance(value, GraphFunction):
            if value.program is self.program:
                functions().retain(value.address)
                return value.address
            return self._trampoline(at.CLOSURE, len(value.parameters), value)
        return self._trampoline(at.PACKED, -1, value)

    def _trampoline(self, kind: int, parameters: int, value: object) -> int:
        head = [1, self.program.load().packed, _info_at(parameters)]
        return new_holding(kind, head, [foreign(value)], at.TRAMPOLINE)

    def answer(self, function: int, args: int, count: int) -> int:
        """Call the Python function of an object; return its result, an owned reference."""
        objects = pointers(args, count)
        if flags_of(function) & at.TRAMPOLINE:
            called: Any = handle_of(word(function, at.CAPTURED))
        else:
            name = _name_of(function)
            builtin = _BUILTINS.get(name)
            if builtin is not None:
                return builtin(self, objects)
            called = find_function(name)
        values = [self.value_of(a) for a in objects]
        result = called(*values)
        del values
        return self.object_of(result)

    def value_of(self, address: int) -> Any:
        """Convert an object to the value that a Python function gets."""
        return python_of(address, self._lend)

    def _lend(self, kind: int, address: int) -> Any:
        if kind != at.TENSOR:
            return self._function_at(kind, address)
        lent = self._given.lent.get(address)
        if lent is not None:
            return lent[0]
        tensor = tensor_at(address)
        found = origin_of(tensor)
        if found is not None:
            return found
        if tensor.references < 0:
            return array_of(tensor, self.program)
        return array_of(tensor, reference_to(address, self.program))

    def object_of(self, value: Any) -> int:
        """Convert the result of a Python function to an object."""
        if type(value) is np.ndarray:
            for address, (array, _) in self._given.lent.items():
                if array is value:
                    functions().retain(address)
                    return address
        return ArgumentConverter(self._callable, lend=False).object_of(value, "the result")


def _name_of(address: int) -> str:
    """Return the name of a packed function."""
    name: str = python_of(word(address, at.CAPTURED), _refuse_leaf)
    return name


def _refuse_leaf(kind: int, address: int) -> Any:
    raise InternalError(f"a packed function's name is an object of kind {kind}")


# -- functions of the language that Python runs ------------------------------------------------
def _match_function(call: _Call, args: Sequence[int]) -> int:
    """Compare a function value with a required signature; the result is null."""
    function, check, *sizes = args
    given: Any = call.value_of(function)
    numbers = tuple(scalar_of(s) for s in sizes)
    call.program.compare(int(scalar_of(check)), given, numbers)
    return call.object_of(None)


def _number(call: _Call, args: Sequence[int]) -> int:
    """Convert a Python number to the dtype that the program needs, if that is allowed."""
    value, dtype, where = args
    try:
        fits = retype(value, call.value_of(dtype), call.value_of(where))
    except RunError as error:
        raise mark_own(error) from None
    return call.object_of(np.bool_(fits))


def _print(call: _Call, args: Sequence[int]) -> int:
    form, *values = map(call.value_of, args)
    sys.stdout.write(_format(form, values) + "\n")
    return call.object_of(())


def _assert(call: _Call, args: Sequence[int]) -> int:
    form, *values = map(call.value_of, args)
    text = _format(form, values) or "the condition of R.assert_op is false"
    raise RunAssertionError(Diagnostic("RUN0202", text, label="this does not hold"))


def _format(form: str, values: Sequence[Any]) -> str:
    shown: list[Any] = [v.item() if isinstance(v, np.generic) else v for v in values]
    return form.format(*shown) if form else " ".join(map(str, shown))


def _copy(call: _Call, args: Sequence[int]) -> int:
    return call.object_of(_copy_value(call.value_of(args[0])))


def _copy_value(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(map(_copy_value, cast("tuple[Any, ...]", value)))
    return np.array(plain_array(value)) if is_array(value) else value


def _partial(call: _Call, args: Sequence[int]) -> int:
    function, *bound = map(call.value_of, args)
    if not is_callable(function):
        kind = kind_of(args[0])
        raise RunTypeError(
            Diagnostic(
                "RUN0401",
                f"R.make_closure: argument 1 must be a function, not an object of kind {kind}",
                help="give a function of the program",
            )
        )

    def partial(*rest: object) -> object:
        return function(*rest, *bound)

    return call.object_of(partial)


_BUILTINS: Final[dict[str, Callable[[_Call, Sequence[int]], int]]] = {
    "loomir.match_function": _match_function,
    "loomir.number": _number,
    "loomir.print": _print,
    "loomir.assert": _assert,
    "loomir.copy": _copy,
    "loomir.partial": _partial,
}
