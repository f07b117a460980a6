"""Programs with a mistake are refused, by a code that fits; never by an internal error."""

from __future__ import annotations

import contextlib
from collections import Counter

import pytest

from fuzz.choices import SeedChoices
from fuzz.tir.generate import program_of_seed
from fuzz.tir.ill_typed import MISTAKES, Mistake, accepted_mistake, with_mistake
from loomir.check.tir.verify import verify
from loomir.support.diagnostics import CompileError
from loomir.tir import BufferStore


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_mistakes_are_refused(first: int) -> None:
    for seed in range(first, first + 20):
        said = accepted_mistake(program_of_seed(seed).module, seed)
        assert not said, f"seed {seed}: {said}"


def test_every_kind_of_mistake_is_made() -> None:
    made: Counter[str] = Counter()
    for seed in range(150):
        choices = SeedChoices(seed)
        module = program_of_seed(seed).module
        for _ in range(12):
            drawn = with_mistake(module, choices)
            if drawn is not None:
                kind, make = drawn
                made[kind] += 1
                with contextlib.suppress(CompileError):
                    assert verify(make())
    assert set(made) == set(MISTAKES)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda store: BufferStore(store.buffer, store.value, store.indices), "accepted"),
        (lambda store: BufferStore(store.buffer, store.value, ()), "answered by TIR0107"),
    ],
)
def test_what_is_accepted_or_answered_wrongly_is_told(
    change: object, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fits(node: object) -> bool:
        return isinstance(node, BufferStore) and bool(node.indices)

    mistake = Mistake(fits, change, ("TIR9999",))  # type: ignore[arg-type]
    monkeypatch.setattr("fuzz.tir.ill_typed.MISTAKES", {"none": mistake})
    answers = [accepted_mistake(program_of_seed(seed).module, seed) for seed in range(5)]
    assert any(answers)
    assert all(answer.startswith(f"none: {said}") for answer in answers if answer)
