"""A round of reconciliation compares after a change on either side, and otherwise only now and then."""

from dataclasses import replace

import pytest
from django.db import transaction

from control_plane.brokers import client, view
from control_plane.outbox.actions import enqueue
from control_plane.outbox.models import Delivery
from control_plane.reconciliation import rounds
from control_plane.reconciliation.reconcile import Comparison, Finding
from penstock.contract.errors import BrokerUnavailable

pytestmark = pytest.mark.django_db

SEEN = view.ClusterView(cluster_id="c", controller=1, revision=7, brokers=())


class World:
    """The brokers, the clock, and the comparisons that were made."""

    def __init__(self) -> None:
        self.seen = SEEN
        self.now = 1_000.0
        self.compared = 0
        self.findings: list[Finding] = []
        self.away = False
        self.read: view.ClusterView | None = None
        """What the comparison reads, where another broker answers it."""
        self.rounds = rounds.Rounds(clock=lambda: self.now)

    def describe(self) -> view.ClusterView:
        return self.seen

    def reconcile(self) -> Comparison:
        if self.away:
            raise BrokerUnavailable("no broker answers")
        self.compared += 1
        read = self.read or self.seen
        return Comparison(cluster_id=read.cluster_id, revision=read.changed_at, findings=tuple(self.findings))

    def turns(self, count: int = 3) -> int:
        """Comparisons of so many rounds."""
        before = self.compared
        for _ in range(count):
            self.rounds.turn()
        return self.compared - before


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(client, "describe", made.describe)
    monkeypatch.setattr(rounds, "reconcile", made.reconcile)
    return made


def test_at_rest_one_round_compares_and_the_next_ones_do_not(world: World) -> None:
    assert world.turns() == 1
    assert world.turns() == 0


def test_a_change_at_the_brokers_is_compared_once(world: World) -> None:
    world.turns()
    world.seen = replace(SEEN, revision=6)  # restored from a backup
    assert world.turns() == 1
    world.seen = replace(world.seen, cluster_id="another")
    assert world.turns() == 1


def test_what_budgets_count_is_no_change(world: World) -> None:
    world.seen = replace(SEEN, objects_revision=7)
    world.turns()
    for revision in range(8, 12):
        world.seen = replace(SEEN, revision=revision, objects_revision=7)
        assert world.turns(1) == 0
    world.seen = replace(SEEN, revision=12, objects_revision=12)
    assert world.turns() == 1


def test_a_comparison_with_an_older_view_does_not_count_for_the_newer_one(world: World) -> None:
    world.read = replace(SEEN, revision=6)
    assert world.turns(1) == 1
    world.read = None
    assert world.turns(2) == 1
    world.read = replace(SEEN, cluster_id="another")
    world.seen = replace(SEEN, revision=8)
    assert world.turns(1) == 1
    world.read = None
    assert world.turns(2) == 1


def test_a_change_of_what_is_wanted_is_compared_once(world: World) -> None:
    world.turns()
    with transaction.atomic():
        enqueue(kind="topic", object_id="top_1", tenant="tn_1", generation=1)
    assert world.turns() == 1
    Delivery.objects.all().delete()
    assert world.turns() == 1


def test_what_was_found_is_looked_at_again_until_nothing_is_found(world: World) -> None:
    world.findings = [Finding(object_id="top_1", what="it was gone")]
    assert world.turns() == 3
    world.findings = []
    assert world.turns() == 1


def test_a_comparison_that_failed_is_made_again(world: World) -> None:
    world.turns()
    world.seen = replace(SEEN, revision=8)
    world.away = True
    with pytest.raises(BrokerUnavailable):
        world.rounds.turn()
    world.away, world.seen = False, SEEN
    assert world.turns() == 1


def test_an_old_comparison_is_made_again(world: World) -> None:
    world.turns()
    world.now += rounds.COMPARED_S - 1
    assert world.turns() == 0
    world.now += 1
    assert world.turns() == 1
