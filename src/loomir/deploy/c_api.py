"""The C interface of an exported library: names, types, and the header."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from loomir.codegen.llvm.assembler.types import PTR
from loomir.codegen.llvm.generated_module import GeneratedModule
from loomir.codegen.llvm.tir.entry.c_entry import c_type
from loomir.relax.node import StructInfo
from loomir.support.dtype import DataType
from loomir.tir.signature import Parameter, Signature

__all__ = ["API_NAMES", "CFunction", "CParameter", "functions_for_c", "header"]

API_NAMES: Final[tuple[str, ...]] = (
    "last_error",
    "borrow",
    "scalar",
    "shape",
    "tuple",
    "string",
    "null",
    "kind",
    "count",
    "field",
    "tensor",
    "extents",
    "number",
    "text",
    "retain",
    "release",
    "set_threads",
)
"""The names of the functions of every library, after ``loomir_``."""

_C_TYPES: Final = {
    "float": "float",
    "double": "double",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "ptr": "void *",
}
_WORDS: Final = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const
constexpr const_cast continue decltype default delete do double dynamic_cast else enum explicit
export extern false float for friend goto if inline int long mutable namespace new noexcept not
not_eq nullptr operator or or_eq private protected public register reinterpret_cast restrict
return short signed sizeof static static_assert static_cast struct switch template this
thread_local throw true try typedef typeid typename typeof union unsigned using virtual void
volatile wchar_t while xor xor_eq result linux unix
"""
"""Keywords of C and C++, and the names of parameters in the header."""
_KEYWORDS: Final = frozenset(_WORDS.split())


@dataclass(frozen=True, slots=True)
class CParameter:
    """A parameter: its name in C, its types in C and LLVM IR, and its requirements."""

    name: str
    type: str
    ir: str
    what: str


@dataclass(frozen=True, slots=True)
class CFunction:
    """A function of a library: a kernel has an ``entry``, a graph function a number."""

    name: str
    symbol: str
    parameters: tuple[CParameter, ...]
    result: str
    entry: str = ""
    number: int = -1


def _identifier(name: str, taken: set[str]) -> str:
    """Make a unique C identifier that resembles a name."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name) or "_"
    if plain[0].isdigit():
        plain = f"_{plain}"
    made, number = plain, 1
    while made in taken or made in _KEYWORDS:
        number += 1
        made = f"{plain}_{number}"
    taken.add(made)
    return made


def functions_for_c(
    generated: GeneratedModule, signatures: dict[str, Signature]
) -> list[CFunction]:
    """List the public functions."""
    taken: set[str] = set(API_NAMES)
    made: list[CFunction] = []
    for name, entry in generated.entries.items():
        signature = signatures[name]
        names: set[str] = set()
        parameters = tuple(_parameter(p, names) for p in signature.parameters)
        returns = signature.returns
        result = "" if returns is None else f"{_type_in_memory(returns)} *"
        symbol = f"loomir_{_identifier(name, taken)}"
        made.append(CFunction(name, symbol, parameters, result, entry=entry))
    graph = generated.graph
    if graph is not None:
        for number, name in enumerate(graph.entries):
            known = graph.infos[graph.numbers[name]]
            names = set[str]()
            infos: Iterable[StructInfo] = known.info.params or ()
            parameters = tuple(
                CParameter(_identifier(n, names), "loomir_value *", "ptr", str(info))
                for n, info in zip(known.names, infos, strict=True)
            )
            symbol = f"loomir_{_identifier(name, taken)}"
            made.append(CFunction(name, symbol, parameters, "loomir_value **", number=number))
    return made


def _parameter(p: Parameter, names: set[str]) -> CParameter:
    t = c_type(p)
    name = _identifier(p.name, names)
    if p.buffer is not None:
        shape = ", ".join(map(str, p.buffer.shape))
        const = "" if p.written else ", only read"
        return CParameter(name, "const DLTensor *", "ptr", f"{p.dtype}[{shape}]{const}")
    text = _C_TYPES[t.text]
    if p.dtype.is_uint and t is not PTR:
        text = f"u{text}"
    return CParameter(name, text, t.text, str(p.dtype))


def _type_in_memory(dtype: DataType) -> str:
    """Return the C type of a number in memory; small floats are integers with their bits."""
    if dtype.is_handle:
        return "void *"
    if dtype.is_bool:
        return "uint8_t"
    if dtype.is_float:
        return {32: "float", 64: "double"}.get(dtype.bits, f"uint{dtype.bits}_t")
    return f"{'u' if dtype.is_uint else ''}int{dtype.bits}_t"


# -- the header --------------------------------------------------------------------------------
def header(name: str, functions: list[CFunction], externs: Iterable[str]) -> str:
    """Write the header."""
    guard = f"LOOMIR_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}_H"
    needed = sorted(set(externs))
    notes = [
        f" * The program must define, or link with: {', '.join(map(_quote_in_comment, needed))}.\n"
    ]
    declared = "\n".join(map(_declaration, functions))
    return _HEADER.format(guard=guard, needs="".join(notes) if needed else "", functions=declared)


def _quote_in_comment(text: str) -> str:
    """Escape a text of the program for a comment."""
    plain = "".join(c if c.isprintable() and c.isascii() else "?" for c in text)
    return plain.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")


def _declaration(f: CFunction) -> str:
    params = [f"{_declare(p.type, p.name)}" for p in f.parameters]
    if f.result:
        params.append(_declare(f.result, "result"))
    said = [f"/* {_quote_in_comment(f.name)}"]
    said += [f" *   {p.name}: {_quote_in_comment(p.what)}" for p in f.parameters]
    return "\n".join([*said, " */", f"int32_t {f.symbol}({', '.join(params) or 'void'});", ""])


def _declare(kind: str, name: str) -> str:
    return f"{kind}{name}" if kind.endswith("*") else f"{kind} {name}"


_HEADER: Final = """\
/* Made by Loomir. Link with -lpthread.
{needs} *
 * Every function of the program gives 0, or else loomir_last_error() says in words what is wrong:
 * 1 where the program stopped, 2 where the arguments do not fit, 3 where Linux refuses the unit
 * for matrices (AMX) that the program needs; nothing was done in the last two.
 * All functions may be called from several threads at once.
 */
#ifndef {guard}
#define {guard}
#include <stdint.h>

#ifdef __cplusplus
extern "C" {{
#endif

#if !defined(DLPACK_DLPACK_H_) && !defined(LOOMIR_DLTENSOR)
#define LOOMIR_DLTENSOR
/* As in DLPack's dlpack.h, which may be included before. */
typedef struct {{ int32_t device_type; int32_t device_id; }} DLDevice;
typedef struct {{ uint8_t code; uint8_t bits; uint16_t lanes; }} DLDataType;
typedef struct {{
  void *data;
  DLDevice device; /* {{1, 0}}: the CPU */
  int32_t ndim;
  DLDataType dtype; /* code 0: int, 1: unsigned, 2: float, 4: bfloat, 6: bool; lanes 1 */
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: row-major */
  uint64_t byte_offset;
}} DLTensor;
#endif

#ifndef LOOMIR_VALUES
#define LOOMIR_VALUES
/* Values of graphs. Who gets one from a function below owns a reference, and gives it back with
 * loomir_release; NULL means that there is none, and loomir_last_error() says why. */
typedef struct loomir_value loomir_value;

/* What went wrong last in this thread. */
const char *loomir_last_error(void);
/* How many threads parallel loops may use; 0: as many as there are cores. Gives what it was. */
int32_t loomir_set_threads(int32_t count);

/* A tensor of your memory, row-major: it must last as long as any value that came of this one. */
loomir_value *loomir_borrow(const DLTensor *tensor);
/* A number: code and bits as in DLDataType. */
loomir_value *loomir_scalar(int32_t code, int32_t bits, const void *number);
loomir_value *loomir_shape(int64_t count, const int64_t *extents);
loomir_value *loomir_tuple(int64_t count, loomir_value *const *fields);
loomir_value *loomir_string(const char *text);
loomir_value *loomir_null(void);

/* 0: tensor, 1: tuple, 2: shape, 3: number, 4: function, 6: string, 7: dtype, 8: null. */
int32_t loomir_kind(const loomir_value *value);
/* How many fields, extents or bytes a tuple, shape or string has; -1 for others. */
int64_t loomir_count(const loomir_value *value);
/* A field of a tuple, with a reference of its own. */
loomir_value *loomir_field(const loomir_value *tuple, int64_t index);
/* What follows looks into a value, for as long as it lives; NULL where it is another kind. */
const DLTensor *loomir_tensor(const loomir_value *value);
const int64_t *loomir_extents(const loomir_value *value);
const char *loomir_text(const loomir_value *value);
/* Copies a number of that dtype; gives 1 where the value is none. */
int32_t loomir_number(const loomir_value *value, int32_t code, int32_t bits, void *number);

void loomir_retain(loomir_value *value);
void loomir_release(loomir_value *value);
#endif

{functions}
#ifdef __cplusplus
}}
#endif
#endif
"""
