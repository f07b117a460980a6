"""Changed texts are refused, or compile and run."""

from __future__ import annotations

from fuzz.textworker import answer


def test_changed_texts_end_in_programs_or_in_mistakes() -> None:
    kinds: set[str] = set()
    for seed in range(120):
        reply = answer(seed, ["text"])
        assert not reply["found"], reply
        kinds |= set(reply["kinds"])
    assert {"read", "ran", "SCR0001"} <= kinds
