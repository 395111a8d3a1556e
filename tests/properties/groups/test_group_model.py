"""Random lives of a group: never two owners, commits fenced, and everybody gets his share in the end (I14)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.groups.group import Draft, reconcile
from data_plane.groups.records import Member
from penstock.contract.errors import PenstockError
from penstock.contract.ids import TopicPartition
from tests.unit.groups.setup import GROUP, TENANT, Running, partition

MEMBERS = ("a", "b", "c", "d")


class Life:
    """One member as a client lives it: what it owns by its own knowledge."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = 0
        self.owned = tuple[TopicPartition, ...]()
        self.must_leave: set[TopicPartition] = set()


STEPS = ("beat", "beat", "beat", "lost", "give", "leave", "silence", "fail over", "commit", "grow")
step = st.tuples(st.sampled_from(STEPS), st.sampled_from(MEMBERS))


@given(st.lists(step, max_size=60), st.sampled_from(["sticky", "range"]))
@settings(max_examples=150)
def test_no_partition_ever_has_two_owners_and_all_end_with_their_share(
    steps: list[tuple[str, str]], assignor: str
) -> None:
    live(steps, assignor)


def owned_without_what_is_given_up(self: Draft) -> dict[TopicPartition, str]:
    return {where: member.member_id for member in self.members.values() for where in member.assigned}


def reconcile_without_waiting(
    member: Member, group_epoch: int, owned: Sequence[TopicPartition], held: Mapping[TopicPartition, str]
) -> Member:
    return reconcile(replace(member, revoking={}), group_epoch, (), held)


def target_without_release(
    member: Member, group_epoch: int, owned: Sequence[TopicPartition], held: Mapping[TopicPartition, str]
) -> Member:
    return reconcile(member, group_epoch, owned, {})


@pytest.mark.parametrize(
    ("where", "bug"),
    [
        ("data_plane.groups.group.Draft.owners", owned_without_what_is_given_up),
        ("data_plane.groups.group.reconcile", reconcile_without_waiting),
        ("data_plane.groups.group.reconcile", target_without_release),
    ],
)
@pytest.mark.pure
def test_the_model_finds_the_planted_bug(
    monkeypatch: pytest.MonkeyPatch, where: str, bug: Callable[..., object]
) -> None:
    monkeypatch.setattr(where, bug)
    draw = Random(84)
    for _ in range(300):
        steps = [(draw.choice(STEPS), draw.choice(MEMBERS)) for _ in range(40)]
        try:
            live(steps, "sticky")
        except AssertionError:
            return
    pytest.fail("300 lives did not find it")


def live(steps: list[tuple[str, str]], assignor: str) -> None:
    """Let the members live these steps, and then until nothing moves. `AssertionError` says what is wrong."""
    group = Running(orders=7)
    lives = {name: Life(name) for name in MEMBERS}
    committed: dict[TopicPartition, int] = {}

    def beat(life: Life, *, lost: bool = False) -> None:
        try:
            answer = group.beat(life.name, life.epoch, life.owned, assignor=assignor)
        except PenstockError:
            life.epoch, life.owned, life.must_leave = 0, (), set()
            return
        if lost:
            return
        life.epoch = answer.epoch
        life.must_leave = set(life.owned) - set(answer.assigned)
        gained = [where for where in answer.assigned if where not in life.owned]
        life.owned = tuple(sorted({*life.owned, *gained}))

    def give(life: Life) -> None:
        life.owned = tuple(where for where in life.owned if where not in life.must_leave)
        life.must_leave = set()

    def check() -> None:
        holders: dict[TopicPartition, str] = {}
        for member in group.core.group(TENANT, GROUP).members if group.log else ():
            for where in (*member.assigned, *member.revoking):
                assert holders.setdefault(where, member.member_id) == member.member_id
        known = {m.member_id: m for m in group.core.group(TENANT, GROUP).members} if group.log else {}
        for life in lives.values():
            mine = known.get(life.name)
            if life.epoch and mine is not None and life.epoch in (mine.epoch, mine.previous_epoch):
                assert set(life.owned) <= {*mine.assigned, *mine.revoking}

    for what, name in steps:
        life = lives[name]
        if what == "beat":
            beat(life)
        elif what == "lost":
            beat(life, lost=True)
        elif what == "give":
            give(life)
        elif what == "leave" and life.epoch:
            beat_out(group, life)
        elif what == "silence":
            for _ in range(11):
                for other in lives.values():
                    if other is not life and other.epoch:
                        beat(other)
                group.tick(1_000)
        elif what == "fail over":
            group.fail_over(later_ms=3_000)
        elif what == "grow":
            group.topics.counts["orders"] = min(12, group.topics.counts["orders"] + 1)
        elif what == "commit" and life.epoch and life.owned:
            where = life.owned[0]
            try:
                if not group.commit(name, life.epoch, {where: committed.get(where, 0) + 1}).refused:
                    committed[where] = committed.get(where, 0) + 1
            except PenstockError:
                pass
        check()
    for _ in range(8):
        for life in lives.values():
            beat(life)
            give(life)
        check()
    shares = [set(life.owned) for life in lives.values()]
    assert sorted(where for share in shares for where in share) == [
        partition("orders", number) for number in range(group.topics.counts["orders"])
    ]
    loads = [len(share) for share in shares]
    assert max(loads) - min(loads) <= 1
    assert group.core.group(TENANT, GROUP).state == "stable"
    assert group.offsets() == committed
    assert group.core.commits_back == 0


def beat_out(group: Running, life: Life) -> None:
    try:
        group.beat(life.name, -1)
    except PenstockError:
        pass
    life.epoch, life.owned, life.must_leave = 0, (), set()
