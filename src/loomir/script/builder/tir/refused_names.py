"""Names of ``T`` that other implementations have and Loomir does not, each with a replacement.

They are of four kinds: accesses to another runtime's structures, GPU features, constructs that need
the text to be run, and operations that would endanger memory.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["REFUSED", "UnsupportedName"]


class UnsupportedName(NamedTuple):
    """Why a name is missing, and what to use."""

    why: str
    instead: str


_STRUCT: Final = UnsupportedName(
    "arguments are arrays and numbers, not structures of a run-time library",
    "bind an array's shape, strides and offset to variables in T.match_buffer",
)
_STACK: Final = UnsupportedName(
    "calls build their argument lists themselves",
    "call the function directly, and allocate arrays with T.alloc_buffer",
)
_WORKSPACE: Final = UnsupportedName(
    "memory that is freed by hand can be freed too early, or never",
    "allocate with T.alloc_buffer, which is always freed",
)
_SCALABLE: Final = UnsupportedName(
    "vectors have a fixed number of lanes, also on machines with scalable ones",
    "write T.vectorized loops, for which the compiler chooses the lanes",
)
_TRACE: Final = UnsupportedName(
    "printing and tracing are not built in",
    "call a Python function: loomir.register_func(name, f), then T.call_packed(name, A)",
)
_THREADS: Final = UnsupportedName(
    "there are no GPU threads; loops bound to threads run as parallel loops",
    "guard statements with `if`, and return after the loop",
)
_PROFILE: Final = UnsupportedName(
    "compiled code has no hooks for a profiler",
    "time whole calls from Python, or use a profiler of the system on the process",
)

REFUSED: Final[dict[str, UnsupportedName]] = {
    "tvm_struct_get": _STRUCT,
    "tvm_struct_set": _STRUCT,
    "lookup_param": UnsupportedName(
        "a function has no parameters other than those it declares",
        "make the array a parameter of the function, and pass it in the call",
    ),
    "tvm_stack_alloca": _STACK,
    "TVMBackendAllocWorkspace": _WORKSPACE,
    "TVMBackendFreeWorkspace": _WORKSPACE,
    "print_buffer": _TRACE,
    "trace": _TRACE,
    "vscale": _SCALABLE,
    "get_vscale_expr": _SCALABLE,
    "filter": _THREADS,
    "selector": _THREADS,
    "thread_return": _THREADS,
    "start_profile_intrinsic": _PROFILE,
    "end_profile_intrinsic": _PROFILE,
}
"""By name; the reference lists them."""
