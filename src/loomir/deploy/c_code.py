"""The wrapper of an exported library as LLVM IR: entry points for C, and messages of faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loomir.codegen.llvm.generated_module import GeneratedModule
from loomir.deploy.c_api import CFunction
from loomir.deploy.values_ir import TEXT_SIZE, bytes_constant, text_constant
from loomir.runtime.fault import Fault, Value

__all__ = ["START_IR", "functions_ir"]

START_IR: Final = """
@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }]
  [{ i32, ptr, ptr } { i32 65535, ptr @start, ptr null }]
declare i32 @pthread_atfork(ptr, ptr, ptr)
declare void @loomir_pool_after_fork()
define internal void @start() {
  %failed = call i32 @pthread_atfork(ptr null, ptr null, ptr @loomir_pool_after_fork)
  ret void
}
"""
"""Tells the pool in a forked child that its threads do not exist."""

_REFUSED: Final = (
    "the program multiplies matrices by a unit of the CPU (AMX) that this process may not use: "
    "Linux refuses it, as it does before version 5.16, on other CPUs, and where a thread's stack "
    "for signals is too small\n  help: compile the program for a target without the unit, such as "
    "icelake-server"
)


def _call(name: str, text: str) -> str:
    return (
        f"%n.{name} = call i32 (ptr, i64, ptr, ...) @snprintf("
        f'ptr @loomir_error_text, i64 {TEXT_SIZE}, ptr @"{text}"'
    )


_TILES_IR: Final = f"""
@tiles_given = internal global i32 0
declare i64 @syscall(i64, ...)
{text_constant("tiles.refused", _REFUSED)}
define internal i1 @has_tiles() {{
  %known = load atomic i32, ptr @tiles_given monotonic, align 4
  %given = icmp ne i32 %known, 0
  br i1 %given, label %yes, label %ask
ask:
  %answer = call i64 (i64, ...) @syscall(i64 158, i64 4131, i64 18)
  %granted = icmp eq i64 %answer, 0
  br i1 %granted, label %keep, label %no
keep:
  store atomic i32 1, ptr @tiles_given monotonic, align 4
  br label %yes
yes:
  ret i1 true
no:
  {_call("tiles", "format")}, ptr @"tiles.refused")
  ret i1 false
}}
"""
"""Asks Linux for room to save tiles, as ``target.host`` does for a process of Python.

What was granted stays so for the whole process. What was refused is asked for again: a thread may
have had too small a stack for signals.
"""


def _uses_tiles(generated: GeneratedModule) -> bool:
    """Tell whether code uses the matrix unit (AMX)."""
    return "@llvm.x86.tdp" in generated.text


def functions_ir(generated: GeneratedModule, functions: Sequence[CFunction], values: int) -> str:
    """Write the functions of the program; ``values`` is the most values of a fault."""
    lines = [
        f"@loomir_error_text = external thread_local global [{TEXT_SIZE} x i8]",
        "declare i32 @snprintf(ptr, i64, ptr, ...)",
    ]
    tiles = _uses_tiles(generated)
    if tiles:
        lines.append(_TILES_IR)
    for number, function in enumerate(functions):
        lines += _function(number, function, values, tiles)
    lines += _faults(generated.faults)
    if generated.graph is not None:
        lines += [
            "declare i32 @loomir_enter(ptr, ptr, i64, ptr, ptr, i64)",
            "declare ptr @loomir_function(i64)",
            # A library has no Python functions that could be called.
            "define i32 @loomir_call_object(i64 %t, ptr %f, ptr %a, i64 %n, ptr %r) {",
            "  ret i32 3",
            "}",
        ]
        for symbol, content in generated.graph.data.items():
            lines.append(bytes_constant(symbol, content.to_bytes(), 64, ""))
    return "\n".join(lines)


def _function(number: int, f: CFunction, values: int, tiles: bool) -> list[str]:
    listed = ", ".join(f"{p.name}: {p.what}" for p in f.parameters)
    misfit = f"misfit.{number}"
    params = [f"{p.ir} %a{i}" for i, p in enumerate(f.parameters)]
    passed = ", ".join(params)
    if f.result:
        params.append("ptr %result")
    lines = [text_constant(misfit, f"the arguments do not fit {f.name}({listed})")]
    lines += [
        f"define i32 @{f.symbol}({', '.join(params)}) {{",
        f"  %report = alloca [{2 + values} x i64]",
    ]
    if tiles:
        lines += [
            "  %tiles = call i1 @has_tiles()",
            "  br i1 %tiles, label %ready, label %unready",
            "unready:",
            "  ret i32 3",
            "ready:",
        ]
    if f.entry:
        result = "ptr %result" if f.result else "ptr null"
        if f.result:
            lines += _require(["%result"])
        lines.append(
            f'  %status = call i32 @"{f.entry}"'
            f"({', '.join([*([passed] if passed else []), result])}, ptr %report)"
        )
    else:
        lines += _require([*[f"%a{i}" for i in range(len(f.parameters))], "%result"])
        count = len(f.parameters)
        lines.append(f"  %args = alloca [{max(count, 1)} x ptr]")
        for i in range(count):
            lines.append(f"  %at{i} = getelementptr ptr, ptr %args, i64 {i}")
            lines.append(f"  store ptr %a{i}, ptr %at{i}")
        lines += [
            "  store ptr null, ptr %result",
            f"  %function = call ptr @loomir_function(i64 {f.number})",
            "  %status = call i32 @loomir_enter(ptr %function, ptr %args,",
            f"    i64 {count}, ptr %result, ptr %report, i64 0)",
        ]
    checked = bool(f.result)
    lines += [
        "  %fine = icmp eq i32 %status, 0",
        "  br i1 %fine, label %done, label %failed",
        "done:",
        "  ret i32 0",
        "failed:",
        f"  %said = call i32 @failed(i32 %status, ptr %report, ptr @{misfit})",
        "  ret i32 %said",
    ]
    if checked:
        lines += [
            "bad:",
            f"  %refused = call i32 @failed(i32 2, ptr %report, ptr @{misfit})",
            "  ret i32 2",
        ]
    entry = [f'declare i32 @"{f.entry}"({_types(f)}ptr, ptr)'] if f.entry else []
    return [*entry, *lines, "}"]


def _types(f: CFunction) -> str:
    return "".join(f"{p.ir}, " for p in f.parameters)


def _require(values: Sequence[str]) -> list[str]:
    """Refuse NULL."""
    lines: list[str] = []
    for i, value in enumerate(values):
        lines += [
            f"  %given{i} = icmp ne ptr {value}, null",
            f"  br i1 %given{i}, label %next{i}, label %bad",
            f"next{i}:",
        ]
    return lines


# -- messages of faults ------------------------------------------------------------------------
def _faults(faults: Sequence[Fault]) -> list[str]:
    """Write ``i32 failed(status, report, misfit)``: it sets the message, and returns 1 or 2."""
    texts = [text_constant("format", "%s"), text_constant("unknown", "the program stopped")]
    names: dict[tuple[str, ...], str] = {}
    cases: list[str] = []
    blocks: list[str] = []
    for site, fault in enumerate(faults):
        form, args = _form(fault)
        texts.append(text_constant(f"fault.{site}", form))
        cases.append(f"i32 {site}, label %f{site}")
        blocks.append(f"f{site}:")
        passed: list[str] = []
        for number, arg in enumerate(args):
            value = f"%v{site}.{number}"
            blocks.append(
                f"  {value}.at = getelementptr i64, ptr %report, i64 {2 + arg.index}\n"
                f"  {value} = load i64, ptr {value}.at"
            )
            if not arg.names:
                passed.append(f"i64 {value}")
                continue
            table = names.setdefault(arg.names, f"names.{len(names)}")
            last = len(arg.names) - 1
            blocks.append(
                f"  {value}.in = call i64 @llvm.umin.i64(i64 {value}, i64 {last})\n"
                f"  {value}.name = getelementptr ptr, ptr @{table}, i64 {value}.in\n"
                f"  {value}.text = load ptr, ptr {value}.name"
            )
            passed.append(f"ptr {value}.text")
        listed = "".join(f", {p}" for p in passed)
        blocks.append(f"  {_call(f'f{site}', f'fault.{site}')}{listed})\n  ret i32 1")
    for listed_names, table in names.items():
        for i, name in enumerate(listed_names):
            texts.append(text_constant(f"{table}.{i}", name))
        items = ", ".join(f'ptr @"{table}.{i}"' for i in range(len(listed_names)))
        texts.append(f"@{table} = private constant [{len(listed_names)} x ptr] [{items}]")
    return [
        *texts,
        "declare i64 @llvm.umin.i64(i64, i64)",
        "define internal i32 @failed(i32 %status, ptr %report, ptr %misfit)",
        "  cold noinline optnone {",
        "  %unfit = icmp eq i32 %status, 2",
        "  br i1 %unfit, label %misfits, label %stopped",
        "misfits:",
        f"  {_call('misfits', 'format')}, ptr %misfit)",
        "  ret i32 2",
        "stopped:",
        "  %site = load i32, ptr %report",
        f"  switch i32 %site, label %unknown [ {' '.join(cases)} ]",
        "unknown:",
        f"  {_call('unknown', 'unknown')})",
        "  ret i32 1",
        *blocks,
        "}",
    ]


def _form(fault: Fault) -> tuple[str, list[Value]]:
    """Return the format for ``snprintf``, and the values for it."""
    said = [f"{fault.code or fault.kind.value}: "]
    args: list[Value] = []
    for part in fault.message:
        if isinstance(part, str):
            said.append(part.replace("%", "%%"))
            continue
        value = part if isinstance(part, Value) else Value(part)
        args.append(value)
        said.append("%s" if value.names else "%llu" if value.unsigned else "%lld")
    rest: list[str] = []
    if fault.span is not None:
        rest.append(f"\n  at {fault.span}")
    rest += [f"\n  note: {note}" for note in fault.notes]
    if fault.help:
        rest.append(f"\n  help: {fault.help}")
    return "".join([*said, *(r.replace("%", "%%") for r in rest)]), args
