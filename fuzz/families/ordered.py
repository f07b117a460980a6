"""Steps of loops and of reductions of which each depends on the ones before it.

They are no sums, and no schedule may do them in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from fuzz.choices import Choices
from fuzz.families.as_python import float_like

__all__ = ["NAMES", "ordered_step"]

Step: TypeAlias = Callable[[str, str], str]

NAMES: Final = (
    "horner",
    "difference",
    "decay",
    "last",
    "clipped",
    "until",
    "climb",
    "replaced",
    "both",
)


def ordered_step(name: str, dtype: str, c: Choices, to: Callable[[str], str]) -> Step:
    """Return how to write a step from the value before and an element, which ``to`` converts."""

    def number(value: int) -> str:
        return f"T.{dtype}({value})"

    def half(text: str) -> str:
        return f"{text} * T.{dtype}(0.5)" if float_like(dtype) else f"{text} // {number(2)}"

    least = number(0 if dtype.startswith("u") else -90)
    choose = c.pick(["T.Select", "T.if_then_else"])
    steps: dict[str, Step] = {
        "horner": lambda s, x: f"{s} * {number(2)} + {to(x)}",
        "difference": lambda s, x: f"{to(x)} - {s}",
        "decay": lambda s, x: f"{half(s)} + {to(x)}",
        "last": lambda s, x: f"{choose}({to(x)} > {number(2)}, {to(x)}, {s})",
        "clipped": lambda s, x: f"T.max(T.min({s} + {to(x)}, {number(90)}), {least})",
        "until": lambda s, x: f"{s} + {choose}({s} < {number(20)}, {to(x)}, {number(1)})",
        "climb": lambda s, x: f"T.max({s}, {to(x)}) + {number(1)}",
        "replaced": lambda s, x: f"{choose}({s} == {to(x)}, {number(0)}, {to(x)})",
        "both": lambda s, x: f"{s} + {to(x)} * ({s} - {to(x)})",
    }
    return steps[name]
