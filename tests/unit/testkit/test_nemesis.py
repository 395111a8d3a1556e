"""What the nemesis may do without leaving what is promised."""

import pytest

from data_plane.testkit.cluster import SimCluster
from data_plane.testkit.nemesis import Nemesis
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
        nemesis = Nemesis(cluster, self.watcher, self.reached)
        victim, other = cluster.broker(1), cluster.broker(2)
        if self.cut_off:
            cluster.isolate(other)
        self.heard = cluster.hears_all(other)
        nemesis._lying_sync(victim)
        nemesis._cut_liar(victim)
        self.lies_met = nemesis.lies_met


class LiarBesideOneThatMayLeave(Liar):
    """Both would leave the in-sync set before they come back."""

    cut_off = True


@pytest.mark.parametrize(("kind", "expected"), [(Liar, 1), (LiarBesideOneThatMayLeave, 0)])
def test_a_liar_loses_its_power_only_while_enough_others_stay(kind: type[Liar], expected: int) -> None:
    story = kind(plan_of(0, (), ()))
    story.run()
    assert story.heard is not story.cut_off
    assert story.lies_met == expected
