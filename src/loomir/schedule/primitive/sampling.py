"""Primitives that draw random decisions, which traces record and searches mutate."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Final

from loomir.schedule.refusal import Refusal, refuse
from loomir.schedule.table import Context, Int, Ints, Loop, Reals, Sample, query
from loomir.tir.expr import IntImm

__all__ = ["sample_categorical", "sample_partitioned_tile", "sample_perfect_tile"]

_MOST_FACTORS: Final = 1000
_MOST_PRIME: Final = 1 << 20
"""Larger primes are not looked for: a loop of 2**62 - 1 iterations is no reason to wait."""


@query
def sample_categorical(
    context: Context, candidates: Ints, probs: Reals, decision: Int | None = None
) -> Sample:
    """Sample one of several integers with given probabilities; the decision is its index.

    Errors: SCH0003.
    """
    if not candidates or len(probs) != len(candidates):
        refuse(
            Refusal(
                "SCH0003",
                "{} candidates have {} probabilities",
                (len(candidates), len(probs)),
                "give one probability for each candidate",
            )
        )
    if not all(0 <= p < math.inf for p in probs) or not any(probs):
        refuse(
            Refusal(
                "SCH0003",
                "{} are not probabilities",
                (list(probs),),
                "pass finite nonnegative numbers, not all of them 0",
            )
        )
    if decision is None:
        decision = context.rng.choices(range(len(candidates)), probs)[0]
    if not 0 <= decision < len(candidates):
        refuse(
            Refusal(
                "SCH0003",
                "decision {} is not among the {} candidates",
                (decision, len(candidates)),
                "a decision is the index of a candidate, from 0",
            )
        )
    return Sample(candidates[decision], decision)


@query
def sample_perfect_tile(
    context: Context,
    loop: Loop,
    n: Int,
    max_innermost_factor: Int = 16,
    decision: Ints | None = None,
) -> Sample:
    """Sample ``n`` factors whose product is a loop's extent; the decision is the factors.

    Errors: SCH0003, SCH0005 for an extent that is not a constant.
    """
    extent = _extent(loop)
    if not 1 <= n <= _MOST_FACTORS or max_innermost_factor < 1:
        refuse(
            Refusal(
                "SCH0003",
                "{} factors up to {}",
                (n, max_innermost_factor),
                f"use 1 to {_MOST_FACTORS} factors, each up to 1 or more",
            )
        )
    made = _check_decision(decision, n, extent)
    if made is None:
        made = _tile(context.rng, extent, n, max_innermost_factor)
    return Sample(made, made)


@query
def sample_partitioned_tile(
    context: Context,
    loop: Loop,
    n: Int,
    partition_pos: Int = 0,
    innerpart_factor: Int = 1,
    decision: Ints | None = None,
) -> Sample:
    """Sample ``n`` factors of a loop's extent; the inner ones multiply to a given multiple.

    The product of those from ``partition_pos`` on is a multiple of ``innerpart_factor``, if the
    extent is one.

    Errors: SCH0003, SCH0005 for an extent that is not a constant.
    """
    extent = _extent(loop)
    if not 0 <= partition_pos <= n or not 1 <= n <= _MOST_FACTORS or innerpart_factor < 1:
        refuse(
            Refusal(
                "SCH0003",
                "position {} of {} factors, the inner ones a multiple of {}",
                (partition_pos, n, innerpart_factor),
                f"use 1 to {_MOST_FACTORS} factors, a position up to their number, and a multiple "
                "of 1 or more",
            )
        )
    made = _check_decision(decision, n, extent)
    if made is None:
        inner = innerpart_factor if partition_pos < n else 1
        if extent % inner or partition_pos == 0:
            made = _tile(context.rng, extent, n, extent)
        else:
            outer = context.rng.choice(_divisors(extent // inner))
            made = [
                *_tile(context.rng, outer, partition_pos, outer),
                *_tile(context.rng, extent // outer, n - partition_pos, extent // outer),
            ]
    return Sample(made, made)


def _extent(loop: Loop) -> int:
    extent = loop.loop.extent
    if not isinstance(extent, IntImm) or extent.value < 1:
        refuse(
            Refusal(
                "SCH0005",
                "the extent of loop {!r} is {}, which has no factors to draw from",
                (loop.loop.loop_var.name_hint, extent),
                "draw from a loop of a constant extent of 1 or more",
                loop.stmt,
            )
        )
    return extent.value


def _check_decision(decision: Sequence[int] | None, n: int, extent: int) -> list[int] | None:
    if decision is None:
        return None
    made = list(decision)
    if len(made) != n or math.prod(made) != extent or min(made, default=1) < 1:
        refuse(
            Refusal(
                "SCH0003",
                "decision {} is not a product of {} factors that is {}",
                (made, n, extent),
                "give as many factors as are drawn, with the extent as their product",
            )
        )
    return made


def _divisors(number: int) -> list[int]:
    """List divisors in order; what is left without small primes counts as one prime."""
    found, rest, prime = [1], number, 2
    while rest > 1:
        if prime * prime > rest or prime > _MOST_PRIME:
            prime = rest
        powers = [1]
        while rest % prime == 0:
            rest //= prime
            powers.append(powers[-1] * prime)
        found = [d * power for power in powers for d in found]
        prime += 1 if prime == 2 else 2
    return sorted(found)


def _tile(rng: random.Random, extent: int, n: int, most: int) -> list[int]:
    """Draw factors from the innermost on; each prime power is distributed evenly."""
    if n == 0:
        return []
    factors: list[int] = []
    limit = most
    for _ in range(n - 1):
        factors.append(rng.choice([d for d in _divisors(extent) if d <= limit]))
        extent //= factors[-1]
        limit = extent
    return [extent, *reversed(factors)]
