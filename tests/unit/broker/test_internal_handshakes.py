"""Handshakes of the internal listener that no call follows are counted once, and no other is."""

from data_plane.broker.internal_handshakes import InternalHandshakes


def test_a_handshake_that_no_call_follows_in_time_counts_once() -> None:
    clock = [0.0]
    handshakes = InternalHandshakes(lambda: clock[0])
    handshakes.began()
    handshakes.began()
    handshakes.called("ipv4:127.0.0.1:1")
    handshakes.called("ipv4:127.0.0.1:1")
    assert handshakes.take_failed() == 0
    clock[0] = 14.0
    handshakes.began()
    assert handshakes.take_failed() == 0
    clock[0] = 16.0
    assert handshakes.take_failed() == 1
    assert handshakes.take_failed() == 0
    clock[0] = 30.0
    assert handshakes.take_failed() == 1


def test_calls_on_connections_that_are_known_excuse_no_other_handshake() -> None:
    clock = [0.0]
    handshakes = InternalHandshakes(lambda: clock[0])
    handshakes.began()
    handshakes.called("ipv4:127.0.0.1:1")
    handshakes.began()
    for _ in range(100):
        handshakes.called("ipv4:127.0.0.1:1")
    clock[0] = 16.0
    assert handshakes.take_failed() == 1


def test_a_port_that_another_connection_had_before_is_one_of_its_own() -> None:
    clock = [0.0]
    handshakes = InternalHandshakes(lambda: clock[0])
    for _ in range(3):
        handshakes.began()
        handshakes.called("ipv4:127.0.0.1:1")
        clock[0] += 61.0
        assert handshakes.take_failed() == 0


def test_a_connection_that_calls_now_and_then_excuses_no_other_handshake() -> None:
    clock = [0.0]
    handshakes = InternalHandshakes(lambda: clock[0])
    handshakes.began()
    handshakes.called("ipv4:127.0.0.1:1")
    for _ in range(10):
        clock[0] += 59.0
        handshakes.began()
        handshakes.called("ipv4:127.0.0.1:1")
        clock[0] += 0.5
    clock[0] += 16.0
    assert handshakes.take_failed() == 10
