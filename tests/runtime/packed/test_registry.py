from __future__ import annotations

import threading
from typing import Any

import pytest

from loomir.runtime import get_func, list_funcs, register_func, remove_func
from loomir.support.diagnostics import RunError


@pytest.fixture(autouse=True)
def _clean():
    before = list_funcs()
    yield
    for name in set(list_funcs()) - set(before):
        remove_func(name)


def test_register_get_list_remove():
    f = register_func("test.f", lambda x: x + 1)
    assert get_func("test.f") is f
    assert get_func("test.f")(2) == 3
    assert "test.f" in list_funcs()
    remove_func("test.f")
    assert "test.f" not in list_funcs()


def test_as_a_decorator():
    @register_func("test.g")
    def g(x: int) -> int:
        return x * 2

    assert g(3) == 6
    assert get_func("test.g") is g


def test_names_are_listed_in_order():
    for last in "cab":
        register_func(f"test.listed.{last}", abs)
    found = [n for n in list_funcs() if n.startswith("test.listed.")]
    assert found == ["test.listed.a", "test.listed.b", "test.listed.c"]


def test_a_taken_name_needs_override():
    register_func("test.f", abs)
    with pytest.raises(RunError) as caught:
        register_func("test.f", max)
    assert caught.value.diagnostic.code == "RUN0301"
    assert isinstance(caught.value, ValueError)
    assert get_func("test.f") is abs
    register_func("test.f", max, override=True)
    assert get_func("test.f") is max


@pytest.mark.parametrize("name", ["", 3, None, b"f"])
def test_a_name_is_a_text(name: Any):
    for use in (
        lambda: register_func(name, abs),
        lambda: get_func(name),
        lambda: remove_func(name),
    ):
        with pytest.raises(RunError) as caught:
            use()
        assert caught.value.diagnostic.code == "RUN0302"
        assert isinstance(caught.value, TypeError)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(RunError) as caught:
        register_func("test.f", 3)  # type: ignore[call-overload]
    assert caught.value.diagnostic.code == "RUN0303"
    assert "test.f" not in list_funcs()


def test_an_unknown_name_gets_a_guess():
    register_func("test.softmax", abs)
    for use in (get_func, remove_func):
        with pytest.raises(RunError) as caught:
            use("test.sotfmax")
        assert caught.value.diagnostic.code == "RUN0304"
        assert isinstance(caught.value, KeyError)
        assert caught.value.diagnostic.help == "did you mean 'test.softmax'?"
    with pytest.raises(RunError) as caught:
        get_func("zzzzzz")
    assert caught.value.diagnostic.help == "register it with loomir.register_func('zzzzzz', f)"


def test_one_of_many_threads_gets_a_name():
    won: list[int] = []
    start = threading.Barrier(8)

    def claim(k: int) -> None:
        start.wait()
        try:
            register_func("test.race", lambda: k)
        except RunError:
            return
        won.append(k)

    threads = [threading.Thread(target=claim, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert get_func("test.race")() == won[0]
