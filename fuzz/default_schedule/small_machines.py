"""Machines so small that small programs fill their registers, caches and panels.

Schedules depend on sizes: panels of hundreds of steps, blocks of hundreds of columns, rows from
which a copy pays. Within ``small``, these thresholds are drawn at random, so that a few elements
make several panels and blocks. A schedule must be correct for all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, Final
from unittest import mock

import loomir.autoschedule.driver  # noqa: F401 - loads all  # pyright: ignore[reportUnusedImport]
from fuzz.choices import Choices
from loomir.target import Target

__all__ = ["LEVELS", "draw_size", "small"]

LEVELS: Final = ((1.0, 1), (4.0, 2), (1.0, 3))
"""Levels of optimising, with how often each is drawn."""
_SMALL: Final = 0.8
"""The share of programs that are scheduled as if caches and panels were small."""

_PACKAGE: Final = "loomir.autoschedule."

_NUMBERS: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "rules.matmul.tile_sizes": {
        "_DEEP": (8, 16, 32),
        "_STREAMED_ROWS": (4, 8),
        "_NEAR_ROWS": (8, 16),
        "_STREAMED_COLUMNS": ((32, 64), (512, 1024)),
        "_SHALLOW": (4, 64),
        "_PAGES": (64, 128),
        "_block_rows": (lambda *_: 8, lambda *_: 24),
    },
    "rules.matmul.amx": {
        "_DEEPEST": (16, 32),
        "_BLOCK": (32, 64),
        "_LEAST_WORK": (0,),
        "_LEAST_DEPTH": (0,),
        "_FEWEST": (16, 3),
    },
    "rules.matmul.dot_groups": {"_FEWEST_ROWS": (8, 1)},
    "rules.matmul.dot_products": {"_CHUNK": (32, 64), "_FEWEST_COLUMNS": (256, 4)},
    "rules.product": {"_DEEP": (128, 4), "_MANY": (4, 1)},
    "rules.matmul.few_rows": {"_ROWS": ((1, 4, 64), (1, 2, 3)), "_PACKED_ROWS": (128, 8)},
    "rules.matmul.strips": {
        "_STEPS": (8, 16),
        "_BLOCKS": (16, 1),
        "_WASTED": (0.1, 1.0),
        "_FAR": (8, 1000),
        "_FEWEST_ROWS": (48, 4),
    },
    "rules.convolution.panel_packing": {"_STEPS": (64, 8), "_ROWS": (64, 4), "_BLOCKS": (16, 2)},
    "rules.convolution.channel_vectors": {"_LEAST_STEPS": (256, 4, 4)},
    "rules.convolution.channel_tiles": {
        "_PANELS": (0.88, 0.01),
        "_LEFT_OVER": (0.95, 0.01),
        "_TILES": (16, 2),
    },
    "rules.reduction.arg_reduction": {"_PIECES": (64, 3), "_STEPS": (4096, 16)},
    "rules.reduction.column_reduction": {
        "_STEPS": (4096, 16),
        "_ROWS": (64, 4),
        "_PIECES": (64, 3),
    },
    "rules.reduction.row_fusion": {"_STEPS": (4096, 16), "_LEAST_FETCHED": (2048, 0)},
    "rules.fallback": {"_STEPS": (64, 4)},
    "rules.elementwise.elementwise": {"_SHORT": (4096, 16)},
    "builders.thread_partition": {"WORTH": (20_000.0, 0.0), "TASK": (8_000.0, 20.0)},
}
"""What numbers may be in modules, by their names."""

_CACHES: Final = (
    (1 << 10, 1 << 12, 0),
    (1 << 9, 1 << 11, 1 << 13),
    (1 << 11, 0, 0),
    (1 << 12, 1 << 14, 1 << 16),
    (1 << 13, 1 << 17, 0),
    (1 << 14, 1 << 18, 1 << 20),
)


@contextmanager
def small(choices: Choices, name: str) -> Generator[Target, None, None]:
    """Draw numbers for the rules of schedules; return the target of a name, with small caches."""
    target = Target(name)
    if choices.chance(0.7):
        target.caches = choices.pick(_CACHES)
    with ExitStack() as stack:

        def patch(module: Any, name: str, value: Any) -> None:
            stack.enter_context(mock.patch.object(module, name, value))

        for module, numbers in _NUMBERS.items():
            if choices.chance(0.7):
                for number, values in numbers.items():
                    patch(sys.modules[_PACKAGE + module], number, choices.pick(values))
        if choices.chance(0.4):
            for name, module in list(sys.modules.items()):
                if name.startswith(_PACKAGE) and hasattr(module, "WORTH_THREADS"):
                    patch(module, "WORTH_THREADS", 1)
        yield target


def draw_size(choices: Choices, name: str) -> AbstractContextManager[Target]:
    """Return a context in which machines of a name are small, or as they are."""
    return small(choices, name) if choices.chance(_SMALL) else nullcontext(Target(name))
