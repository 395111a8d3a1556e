"""Suspicion by silence, and the order in which brokers take over."""

from data_plane.controller.registration import takeover_changes
from data_plane.controller.suspicion import Suspicion, takeover_delay_ms
from penstock.contract.ids import BrokerId

from .setup import Store

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


def test_a_peer_is_due_after_its_silence_and_no_earlier() -> None:
    suspicion = Suspicion(1_200)
    suspicion.heard(TWO, 100)
    assert suspicion.due(1_299) == ()
    assert suspicion.due(1_300) == (TWO,)


def test_a_lost_connection_is_due_at_once_and_a_beat_ends_it() -> None:
    suspicion = Suspicion(1_200)
    suspicion.heard(TWO, 100)
    suspicion.lost(TWO, 150)
    assert suspicion.due(150) == (TWO,)
    suspicion.heard(TWO, 160)
    assert suspicion.due(1_359) == ()


def test_peers_are_due_lowest_id_first_until_forgotten() -> None:
    suspicion = Suspicion(1_200)
    for peer in (THREE, ONE):
        suspicion.heard(peer, 0)
    suspicion.lost(TWO, 5)
    assert suspicion.due(1_200) == (ONE, TWO, THREE)
    suspicion.forget(TWO)
    suspicion.forget(TWO)
    assert suspicion.due(1_200) == (ONE, THREE)


def test_a_late_report_of_an_earlier_beat_does_not_make_a_peer_due() -> None:
    suspicion = Suspicion(1_200)
    suspicion.heard(TWO, 1_000)
    suspicion.heard(TWO, 500)
    assert suspicion.due(2_100) == ()


def test_nobody_watched_is_nobody_due() -> None:
    suspicion = Suspicion()
    assert suspicion.due(10**9) == ()


def test_the_lowest_active_broker_besides_the_controller_takes_over_first() -> None:
    store = Store((1, 2, 3, 4))
    changes = takeover_changes(store.image, ONE, "i1", 1, suspected=False)
    assert changes is not None
    store.txn(*changes)
    store.broker(2, draining=True)
    delays = [takeover_delay_ms(store.image, BrokerId(number)) for number in (2, 3, 4)]
    assert delays == [None, 0, 100]


def test_all_active_brokers_are_in_line_for_a_free_key() -> None:
    store = Store((1, 2, 3))
    assert [takeover_delay_ms(store.image, b) for b in (ONE, TWO, THREE)] == [0, 100, 200]
