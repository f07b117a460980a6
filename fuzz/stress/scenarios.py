"""What processes are put through, each scenario to be run in a process of its own.

python -m fuzz.stress.scenarios NAME SEED SIZE
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import numpy as np

import loomir
from fuzz.stress.tuning import killed_searches, killed_workers
from loomir.ir.module import IRModule
from loomir.ir.serialize import from_json, to_json
from loomir.script import from_source

__all__ = ["SCENARIOS"]

_EYE = np.eye(64, dtype="float32")


def _text(layers: int) -> str:
    lines = "".join(
        f"        v{i + 1} = R.nn.relu(R.matmul(v{i}, w{i % 3}))\n" for i in range(layers)
    )
    weights = ", ".join(f'w{i}: R.Tensor((64, 64), "float32")' for i in range(3))
    return f"""
@I.ir_module
class Module:
    @R.function
    def main(v0: R.Tensor(("n", 64), "float32"), {weights}):
{lines}        return v{layers}
"""


def _graph(layers: int) -> IRModule:
    """Read a graph of so many layers, which gives what it is given where that is positive."""
    made = from_source(_text(layers))
    assert isinstance(made, IRModule)
    return made


def _rows(count: int, value: float = 1.0) -> Any:
    return np.full((count, 64), value, "float32")


def _hold(run: Callable[..., Any], rows: int = 3, value: float = 1.0) -> None:
    """Check the result of a graph."""
    made = run(_rows(rows, value), _EYE, _EYE, _EYE)
    assert made.shape == (rows, 64), made.shape
    assert (made == value).all(), made


def _compiled(layers: int, **options: Any) -> Callable[..., Any]:
    run: Callable[..., Any] = loomir.compile(_graph(layers), cache=False, **options)["main"]
    return run


def _interpreted(*arguments: Any) -> Any:
    return loomir.interpret(_graph(3), "main", *arguments)


def _join(work: Iterable[Callable[[], None]]) -> None:
    """Run each in a thread; the first error is raised."""
    wrong: list[BaseException] = []

    def guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller raises it
            wrong.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]


def interrupts(choices: random.Random, size: int) -> None:
    """Press Ctrl-C at any moment of reading, compiling, interpreting and calling."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    text, run, many = _text(60), _compiled(20), _rows(20_000)
    work: list[tuple[float, Callable[[], object]]] = [
        (0.3, lambda: from_source(text)),
        (0.8, lambda: _compiled(3)),
        (0.3, lambda: _hold(_interpreted)),
        (0.1, lambda: run(many, _EYE, _EYE, _EYE)),
    ]
    for _ in range(8 * size):
        longest, call = choices.choice(work)
        after = choices.uniform(0, longest)
        ready, pressed = threading.Event(), threading.Event()

        def press(ready: Any = ready, after: float = after, pressed: Any = pressed) -> None:
            ready.wait()
            time.sleep(after)
            pressed.set()
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=press)
        thread.start()
        try:
            ready.set()
            call()
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            assert pressed.is_set()
        thread.join()
    _hold(run)
    _hold(_compiled(3))
    _hold(_interpreted)


def callers(choices: random.Random, size: int) -> None:
    """Call one graph from many threads while others compile."""
    run = _compiled(5)

    def call(value: int, rows: list[int]) -> None:
        for count in rows:
            _hold(run, count, value)

    def compiles(layers: list[int]) -> None:
        for count in layers:
            _hold(_compiled(count))

    calls = [[choices.randrange(60) for _ in range(30 * size)] for _ in range(12)]
    compiled = [[choices.randint(1, 5) for _ in range(2 * size)] for _ in range(3)]
    work = [lambda v=v, rows=rows: call(v, rows) for v, rows in enumerate(calls)]
    _join([*work, *[lambda layers=layers: compiles(layers) for layers in compiled]])


def forks(choices: random.Random, size: int) -> None:
    """Fork while other threads call and compile; children call and compile too."""
    run, many, ended = _compiled(5), _rows(20_000), threading.Event()

    def until_ended(call: Callable[[], object]) -> None:
        while not ended.is_set():
            call()

    def fork() -> None:
        try:
            for _ in range(5 * size):
                time.sleep(choices.uniform(0, 0.1))
                child = os.fork()
                if child == 0:
                    faulthandler.dump_traceback_later(120, exit=True)
                    try:
                        _hold(run, 20_000)
                        _hold(_compiled(2))
                        os._exit(0)
                    except BaseException as error:  # noqa: BLE001 - a child says it and ends
                        sys.stderr.write(f"{error!r}\n")
                        os._exit(1)
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                assert status == 0, f"a child ended with {status}"
        finally:
            ended.set()

    busy: list[Callable[[], object]] = [lambda: run(many, _EYE, _EYE, _EYE), lambda: _compiled(1)]
    _join([fork, *[lambda call=call: until_ended(call) for call in busy]])


def stacks(choices: random.Random, size: int) -> None:
    """Read, print, compile, interpret and call in threads of small stacks."""
    run, text = _compiled(30), _text(100)
    work: list[Callable[[], object]] = [
        lambda: _hold(run),
        lambda: from_source(text),
        lambda: str(_graph(30)),
        lambda: from_json(to_json(_graph(30))),
        lambda: _hold(_compiled(4)),
        lambda: _hold(_interpreted),
    ]
    for call in work:
        call()

    def tried(call: Callable[[], object]) -> None:
        with contextlib.suppress(RecursionError):  # Loomir's or Python's: there was no room
            call()

    for _ in range(6 * size):
        threading.stack_size(choices.choice([32, 40, 48, 64, 100, 128, 256, 1024]) << 10)
        _join([lambda: tried(choices.choice(work))])
    threading.stack_size(0)
    _hold(run)


def memory(choices: random.Random, size: int) -> None:
    """Compile, call and drop: after a while, no more memory is taken."""

    def once() -> None:
        _hold(_compiled(choices.randint(1, 2), opt_level=choices.choice([0, 1, 2])))

    def used() -> int:
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for _ in range(60):
        once()
    before, count = used(), 60 * size
    for _ in range(count):
        once()
    grown = used() - before
    # LLVM's allocator takes whole pages; llvmlite 0.50 itself leaves 1.5 KB behind with each run of
    # LLVM's passes.
    assert grown < (8 << 20) + count * (8 << 10), f"{grown} bytes more after {count} compiles"


def refused(choices: random.Random, size: int) -> None:
    """Call and compile where little memory is granted, and go on once there is more."""
    run = _compiled(5)
    _hold(_compiled(3))
    _hold(_interpreted)
    work: list[Callable[[], object]] = [
        lambda: run(_rows(100_000), _EYE, _EYE, _EYE),
        lambda: _hold(run),
        lambda: _hold(_compiled(choices.randint(1, 6))),
        lambda: _hold(_interpreted),
    ]
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    for _ in range(10 * size):
        with open("/proc/self/statm") as file:
            whole = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        limit = whole + int(choices.uniform(0, 1) ** 3 * (64 << 20))
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
        try:
            with contextlib.suppress(MemoryError):  # Loomir's, NumPy's or Python's
                choices.choice(work)()
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    for call in work:
        call()


def _changed(data: bytes, choices: random.Random) -> bytes:
    """Change some bytes, cut some out, put some in, or cut the end off."""
    made = bytearray(data)
    at = choices.randrange(len(made))
    way = choices.randrange(5)
    if way == 0:
        made[at] ^= 1 << choices.randrange(8)
    elif way == 1:
        for _ in range(choices.randint(1, 8)):
            made[choices.randrange(len(made))] = choices.randrange(256)
    elif way == 2:
        del made[at : at + choices.randint(1, 64)]
    elif way == 3:
        made[at:at] = choices.randbytes(choices.randint(1, 64))
    else:
        del made[at:]
    return bytes(made)


def files(choices: random.Random, size: int) -> None:
    """Load executables of which bytes were changed: none of them loads."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.loom"
        loomir.compile(_graph(2), cache=False).save(path)
        data = path.read_bytes()
        for _ in range(100 * size):
            changed = _changed(data, choices)
            if changed == data:
                continue
            path.write_bytes(changed)
            try:
                loomir.load(path, trusted=True)
            except loomir.RunError:
                continue
            raise AssertionError("a changed file was loaded")
        path.write_bytes(data)
        _hold(loomir.load(path, trusted=True)["main"])


Scenario = Callable[[random.Random, int], None]

SCENARIOS: Final[dict[str, Scenario]] = {
    call.__name__: call
    for call in (
        interrupts,
        callers,
        forks,
        stacks,
        memory,
        refused,
        files,
        killed_searches,
        killed_workers,
    )
}


if __name__ == "__main__":
    SCENARIOS[sys.argv[1]](random.Random(int(sys.argv[2])), int(sys.argv[3]))
