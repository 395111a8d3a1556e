"""The order of those who wait for a pace."""

from functools import partial

from data_plane.throttling.line import Line


def test_the_first_who_comes_goes_first_and_the_next_is_woken() -> None:
    line, woken = Line(), list[str]()

    def first() -> None:
        woken.append("first")

    def second() -> None:
        woken.append("second")

    line.join(first, 0.0)
    line.join(second, 1.0)
    line.join(first, 2.0)
    assert line.is_first(first) and not line.is_first(second) and len(line) == 2
    line.leave(first, 3.0)
    assert woken == ["second"] and line.is_first(second)
    line.join(first, 4.0)
    line.leave(first, 5.0)
    assert woken == ["second"], "who gives up behind others wakes no one"
    line.leave(second, 6.0)
    line.leave(second, 7.0)
    line.wake_first()
    assert not line and woken == ["second"]


def test_the_time_in_which_some_one_waited_is_counted_once() -> None:
    line = Line()

    def other() -> None:
        """Is woken."""

    line.join(print, 10.0)
    line.join(other, 12.0)
    assert line.waited_ms(15.0) == 5.0
    line.leave(print, 20.0)
    assert line.waited_ms(20.0) == 10.0
    line.leave(other, 30.0)
    assert line.waited_ms(99.0) == 20.0
    line.join(print, 100.0)
    assert line.waited_ms(101.0) == 21.0


def test_calls_and_streams_go_in_turn_and_each_kind_in_the_order_it_came() -> None:
    line, woken = Line(), list[str]()
    wakes = {name: partial(woken.append, name) for name in ("s1", "s2", "s3", "s4", "c1", "c2", "c3")}

    def join(name: str) -> None:
        line.join(wakes[name], 0.0, is_call=name.startswith("c"))

    def gone() -> str:
        (first,) = [name for name, wake in wakes.items() if line.is_first(wake)]
        line.used(1, 1, is_call=first.startswith("c"))
        line.leave(wakes[first], 0.0)
        return first

    for name in ("s1", "s2", "s3"):
        join(name)
    assert line.before_a_call == 0 and gone() == "s1", "none of the calls waits"
    for name in ("c1", "c2", "c3"):
        assert line.before_a_call == {"c1": 0, "c2": 2, "c3": 4}[name]
        join(name)
    join("s4")
    assert (len(line), line.calls) == (6, 3)
    assert [gone() for _ in range(2)] == ["c1", "c2"], "a stream went while no call waited"
    assert line.before_a_call == 3, "a stream is next"
    assert [gone() for _ in range(4)] == ["s2", "c3", "s3", "s4"] and not line
    assert woken == ["s2", "c2", "s2", "c3", "s3", "s4"], "each that became the first"


def test_the_kind_goes_first_that_has_used_less_and_is_woken_when_it_becomes_the_first() -> None:
    line, woken = Line(), list[str]()
    stream, call = (partial(woken.append, name) for name in ("stream", "call"))
    line.join(stream, 0.0)
    line.join(call, 0.0, is_call=True)
    for amount, is_call, first in (
        (5, True, stream),
        (3, False, stream),
        (2, False, call),
        (50, False, call),
        (10, True, call),
        (1, True, stream),
    ):
        line.used(amount, 10, is_call=is_call)
        assert line.is_first(first)
    assert woken == ["stream", "call", "stream"]


def test_who_gives_up_its_first_turn_takes_it_from_no_other_of_its_kind() -> None:
    line, woken = Line(), list[str]()
    stream, call, other = (partial(woken.append, name) for name in ("stream", "call", "other"))
    line.join(stream, 0.0)
    line.join(call, 0.0, is_call=True)
    line.join(other, 0.0, is_call=True)
    line.leave(call, 0.0)
    assert line.is_first(other) and woken == ["other"]
    line.leave(other, 0.0)
    assert line.is_first(stream) and woken == ["other", "stream"]
