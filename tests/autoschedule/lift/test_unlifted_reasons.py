"""What runs as written is named, with the reason and the form that would be scheduled."""

from __future__ import annotations

import pytest

from loomir.autoschedule.driver import schedule_function
from loomir.autoschedule.lift.unlifted_reasons import explain_unlifted
from loomir.script import from_source
from loomir.target import Target
from loomir.tir.function import PrimFunc

UNREAD = {
    "a triangle": (
        "o[i] = 0\n        for j in range(i + 1):\n            o[i] += a[i, j]",
        "how far j runs depends on i",
        "j over the whole range, and `if` around the term",
    ),
    "a recurrence": (
        "r[i + 1] = r[i] * 3 + a[i, 0] // (r[i] * r[i] + 1)",
        "dividing by r[i] * r[i] + 1 fails where that is 0, at the first such iteration",
        "a division by a number that is not 0, or of floats",
    ),
    "a bound from memory": (
        "for j in range(a[0, 1]):\n            o[j] = o[j] * o[j + 1]",
        "how far j runs is looked up in memory",
        "j over a range that is known before the loops",
    ),
    "a checked place": (
        'o[T.checked_index(a[i, 0], 64, "o", 0)] = i',
        "it checks an index, and fails at the first that is outside",
        "a nest with one store, `o[i, j] = table[index[i], j]`",
    ),
    "a histogram": (
        "r[a[i, 0]] += 1",
        "where r is written is looked up in memory",
        "a nest over the places of the result, which looks up what it reads",
    ),
    "a while loop": (
        "n = T.int32(0)\n        while n < a[i, 0]:\n            n += 1\n        o[i] = n",
        "only its condition knows how often a `while` loop runs",
        "a loop over a range, with a condition on the values in it",
    ),
    "a condition": (
        "if a[i, 0] > 3:\n            o[i] = a[i, 0]",
        "a condition decides whether an element is written",
        "a choice between values, `o[i] = T.if_then_else(condition, new, o[i])`",
    ),
}


@pytest.mark.parametrize("name", UNREAD)
def test_the_reason_and_the_form_are_named(name: str):
    body, why, form = UNREAD[name]
    func = from_source(f"""
from loomir.script import tir as T
@T.prim_func
def f(a: T.Buffer((64, 64), "int32"), o: T.Buffer((64,), "int32"), r: T.Buffer((65,), "int32")):
    for i in range(64):
        {body}
""")
    assert isinstance(func, PrimFunc)
    made = schedule_function(func, Target("haswell"))
    assert not made.plans
    (found,) = [explain_unlifted(stmt) for stmt in made.unplanned]
    assert (found.why, found.form) == (why, form)
    assert found.what.startswith("loops over i")
    assert ", writing " in found.what
    assert found.what.endswith(", line 5")
