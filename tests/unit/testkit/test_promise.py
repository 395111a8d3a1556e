"""What may be done to a cluster without leaving what is promised."""

import random

import pytest

from data_plane.testkit.cluster import SimBroker, SimCluster
from data_plane.testkit.faults import FaultKind
from data_plane.testkit.promise import Promise
from data_plane.testkit.strikes import Strikes
from penstock.contract.ids import TopicPartition
from tests.simulation.plans import plan_of

from .test_watcher import Rested


class Liar(Rested):
    """One broker's disk lies, and another broker may be cut off."""

    cut_off = False
    heard: bool | None = None
    lies_met = -1

    def spoil(self, cluster: SimCluster, where: TopicPartition) -> None:
        assert self.watcher is not None
        promise = Promise(cluster, self.watcher)
        strikes = Strikes(cluster, promise, random.Random(0))
        victim, other = cluster.broker(1), cluster.broker(2)
        if self.cut_off:
            self.part(cluster, other)
        self.heard = cluster.hears_all(other)
        strikes.strike(FaultKind.LYING_SYNC, victim)
        strikes.cut_liar(victim)
        self.lies_met = strikes.lies_met

    def part(self, cluster: SimCluster, broker: SimBroker) -> None:
        cluster.isolate(broker)


class LiarBesideOneThatMayLeave(Liar):
    """Both would leave the in-sync set before they come back."""

    cut_off = True


class LiarBesideOneWithoutAStore(LiarBesideOneThatMayLeave):
    """The other broker hears all brokers, and will be fenced: its session is not kept alive."""

    def part(self, cluster: SimCluster, broker: SimBroker) -> None:
        cluster.store.cut(broker.host)


@pytest.mark.parametrize(
    ("kind", "expected"), [(Liar, 1), (LiarBesideOneThatMayLeave, 0), (LiarBesideOneWithoutAStore, 0)]
)
def test_a_liar_loses_its_power_only_while_enough_others_stay(kind: type[Liar], expected: int) -> None:
    story = kind(plan_of(0, (), ()))
    story.run()
    assert story.heard is not story.cut_off
    assert story.lies_met == expected
