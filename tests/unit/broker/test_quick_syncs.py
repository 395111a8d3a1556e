"""Which syncs are done on the event loop."""

from data_plane.broker.quick_syncs import (
    HANDED_OVER_MAX,
    HANDED_OVER_MIN,
    QUICK_MS,
    STALL_MS,
    QuickSyncs,
)


def handed_over_until_tried(syncs: QuickSyncs, ms: float = QUICK_MS) -> int:
    """How many syncs threads do, each in `ms`, before one is to be done at once again."""
    for count in range(HANDED_OVER_MAX + 1):
        if syncs.at_once:
            return count
        syncs.took_in_thread(ms)
    raise AssertionError(f"no sync at once after {HANDED_OVER_MAX} in threads")


def test_a_quick_disk_is_never_handed_over() -> None:
    syncs = QuickSyncs()
    for _ in range(1_000):
        assert syncs.at_once
        syncs.took_at_once(QUICK_MS)


def test_one_stall_hands_the_next_syncs_over() -> None:
    syncs = QuickSyncs()
    syncs.took_at_once(STALL_MS)
    assert not syncs.at_once
    assert handed_over_until_tried(syncs) == HANDED_OVER_MIN


def test_a_disk_that_is_always_a_little_slow_is_tried_twice_and_then_handed_over() -> None:
    syncs = QuickSyncs()
    tries = 0
    while syncs.at_once:
        syncs.took_at_once(3.0)
        tries += 1
    assert tries == 2


def test_one_slow_sync_among_quick_ones_hands_nothing_over() -> None:
    syncs = QuickSyncs()
    for _ in range(50):
        for _ in range(30):
            syncs.took_at_once(0.1)
        syncs.took_at_once(1.5)
        assert syncs.at_once


def test_each_failed_try_doubles_what_threads_do_up_to_a_bound() -> None:
    syncs = QuickSyncs()
    counts = []
    for _ in range(10):
        syncs.took_at_once(STALL_MS)
        counts.append(handed_over_until_tried(syncs))
    assert counts == [64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 16_384]


def test_a_disk_that_has_become_quick_again_is_tried_sooner_after_its_next_stall() -> None:
    syncs = QuickSyncs()
    for _ in range(3):
        syncs.took_at_once(STALL_MS)
        handed_over_until_tried(syncs)
    for _ in range(8 * HANDED_OVER_MIN + 4 * HANDED_OVER_MIN):
        syncs.took_at_once(0.1)
    syncs.took_at_once(STALL_MS)
    assert handed_over_until_tried(syncs) == 2 * HANDED_OVER_MIN


def test_nothing_is_tried_at_once_while_threads_meet_stalls() -> None:
    syncs = QuickSyncs()
    syncs.took_at_once(STALL_MS)
    for _ in range(10 * HANDED_OVER_MIN):
        syncs.took_in_thread(STALL_MS)
        assert not syncs.at_once
    assert handed_over_until_tried(syncs) == HANDED_OVER_MIN


def test_stalls_in_threads_end_syncs_at_once_too() -> None:
    """A larger commit in between met them."""
    syncs = QuickSyncs()
    syncs.took_in_thread(STALL_MS)
    assert not syncs.at_once
