"""The order of those who wait for a pace."""

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
