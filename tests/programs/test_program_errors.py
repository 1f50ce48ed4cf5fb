"""Programs that choose and are refused: what the messages say, and what ends."""

from __future__ import annotations

import threading
import time

import pytest

import dolphin as dl
from dolphin.symbolic import endless

# -- refused ---------------------------------------------------------------------------------------


def test_errors_name_the_choices():
    @dl.program
    def invert(d, e):
        return (dl.choose(e), 1 / dl.choose(d))

    d, e = dl.Distribution([0.5, 0.5], [1, 0]), dl.Distribution([1.0], ["x"])
    with pytest.raises(
        dl.FunctionError, match=r"invert.*ZeroDivisionError.*choosing 'x', 0"
    ) as raised:
        invert(d, e)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_what_cannot_be_meant():
    d = dl.Distribution([0.5, 0.5], [0, 1])
    with pytest.raises(dl.InputError, match="only a program can choose"):
        dl.choose(d)
    for returned, message in [
        (lambda: d, "return dolphin.choose"),
        (lambda: dl.weighted({1: 0.5}), "choose"),
        (lambda: [1], "unhashable"),
        (lambda: dl.choose(3), "A plain symbol needs no choice"),
    ]:
        with pytest.raises(dl.DolphinError, match=message):
            dl.program(returned)()
    with pytest.raises(dl.InputError, match="keep must be"):
        dl.program(keep=0)
    with pytest.raises(dl.InputError, match="expected a function"):
        dl.program(d)  # type: ignore[call-overload]


def test_a_loop_without_a_choice_is_noticed():
    @dl.program
    def stuck(coin):
        side = dl.choose(coin)
        while side == "tail":
            try:
                side = "tail"
            except Exception:
                side = "head"
        return side

    with (
        dl.settings(max_seconds=1),
        pytest.raises(dl.SizeError, match=r"stuck: .* 1 seconds .*choosing 'tail'.*max_seconds"),
    ):
        stuck(dl.Distribution([0.5, 0.5], ["head", "tail"]))


def test_a_program_is_stopped_in_its_own_code_only(monkeypatch):
    monkeypatch.setattr(endless, "_PERIOD", 0.01)
    inside_of_a_library = threading.Event()  # as inside of Dolphin: locks may be held there
    with endless.watched(0.01):
        inside_of_a_library.wait(0.2)
    with pytest.raises(endless.EndlessError), endless.watched(0.01):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            pass
    assert not endless._watchman._watched


def test_a_long_program_that_chooses_is_not_endless():
    @dl.program
    def inner(coin):
        time.sleep(0.6)
        return dl.choose(coin)

    @dl.program
    def outer(coin):
        return [dl.choose(inner(coin)) for _ in range(2)] == [0, 0]

    with dl.settings(max_seconds=1):
        found = outer(dl.Distribution([0.5, 0.5], [0, 1]))
    assert found.row(0) == [(True, 0.5), (False, 0.5)]


def test_recursion_without_end_is_an_error_that_says_so():
    @dl.program
    def down(coin):
        return 1 + down(coin)

    with pytest.raises(dl.DolphinError, match=r"down: .*RecursionError"):
        down(dl.Distribution([0.5, 0.5], [0, 1]))


def test_programs_without_end():
    coin = dl.Distribution([0.5, 0.5], [0, 1])

    @dl.program(max_choices=100)
    def forever():
        while dl.choose(dl.weighted({True: 0.5, False: 0.5})):
            pass
        return 1

    with pytest.raises(dl.SizeError, match=r"made 100 choices.*max_choices"):
        forever()

    @dl.program
    def again():
        while dl.choose(coin) in (0, 1):
            pass

    with pytest.raises(dl.SizeError, match="symbols without returning after choosing 0"):
        again()


def test_too_many_executions():
    @dl.program
    def word(letters):
        return tuple(dl.choose(letter) for letter in letters)

    letters = [dl.Distribution([0.5, 0.5], "ab") for _ in range(8)]
    with dl.settings(max_combinations=100), pytest.raises(dl.SizeError, match="keep=k"):
        word(letters)
    assert len(word(letters)) == 256


def test_a_program_that_changes_its_mind():
    state = []

    @dl.program
    def fickle(d, e):
        state.append(1)
        return dl.choose(d if len(state) == 1 else e)

    with pytest.raises(dl.FunctionError, match="something different"):
        fickle(dl.Distribution([0.5, 0.5], "ab"), dl.Distribution([0.5, 0.5], "cd"))


def test_bare_except_is_noticed():
    @dl.program(keep=2)
    def stubborn(d):
        try:
            return dl.choose(d)
        except BaseException:
            return 0

    with pytest.raises(dl.FunctionError, match="Catch Exception"):
        stubborn(dl.Distribution([0.5, 0.5], [1, 2]))
