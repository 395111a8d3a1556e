"""Whatever happens to a replica in whatever order: a bad one takes no role before it was made whole."""

from hypothesis import given
from hypothesis import strategies as st

from data_plane.replication import health
from data_plane.replication.health import (
    Damaged,
    Health,
    LostTail,
    ReadOnly,
    Remedy,
    Retired,
    Sound,
    Standing,
)

EVENTS = st.one_of(
    st.tuples(st.just("damage"), st.sampled_from(Standing)),
    st.tuples(st.sampled_from(["give up", "retire", "declare", "look"]), st.none()),
)
STARTS = st.builds(health.at_boot, st.sampled_from(["", "lost"]), tail_lost=st.booleans(), only=st.booleans())


def _look(now: Health, *, declared: bool, counted_on: bool, led: bool, named: bool) -> tuple[Health, Remedy]:
    """Does what is due."""
    due = health.remedy(now, loss_declared=declared, counted_on=counted_on, led=led, damage_named=named)
    if due is Remedy.GIVE_UP:
        return health.gave_up(now), due
    return (now if due is Remedy.NONE else health.made_whole(now)), due


@given(STARTS, st.lists(EVENTS, max_size=12), st.data())
def test_a_bad_replica_comes_back_only_by_a_remedy(start: Health, events: list[tuple[str, Standing | None]],
                                                   data: st.DataObject) -> None:  # fmt: skip
    now, was_given_up = start, False
    for event, standing in events:
        before, due = now, Remedy.NONE
        if event == "damage" and standing is not None:
            now = health.damaged(now, "bad", standing)
            assert not (standing is Standing.REPLACEABLE and health.takes_role(now))
        elif event == "give up":
            now = health.gave_up(now)
        elif event == "retire":
            now = health.retired(now, "not wanted")
        else:
            facts = {name: data.draw(st.booleans(), label=name) for name in ("counted_on", "led", "named")}
            now, due = _look(now, declared=event == "declare", **facts)
            if due is Remedy.FETCH_AGAIN:
                assert was_given_up and facts["led"] and not facts["counted_on"]
        if isinstance(before, Retired):
            assert now == before
        if not health.takes_role(before) and health.takes_role(now):
            assert due in (Remedy.FETCH_AGAIN, Remedy.ACCEPT_LOSS)
        if isinstance(before, LostTail) or (isinstance(before, ReadOnly) and before.tail_lost):
            forgets = isinstance(now, Damaged) or (isinstance(now, ReadOnly) and not now.tail_lost)
            assert not forgets, "where a tail was lost is known as long as it is not made whole"
        assert bool(health.reason_of(now)) is not isinstance(now, Sound)
        was_given_up = isinstance(now, Damaged | LostTail) and now.given_up
