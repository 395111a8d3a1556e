"""The brokers in the configuration may all be replaced: those that joined later are learnt and remembered."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from control_plane.brokers import actions, queries
from control_plane.brokers import client as brokers
from control_plane.brokers.models import KnownBroker
from control_plane.brokers.view import BrokerSeen
from control_plane.reconciliation.reconcile import reconcile
from data_plane.contract.admin_client import AdminClient
from data_plane.contract.broker_addresses import BrokerAddresses
from penstock.contract.errors import BrokerUnavailable
from tests.integration.brokers import Brokers
from tests.integration.brokers import brokers as started

ONE = BrokerSeen(
    id=1, state="active", client_address="c:1", internal_address="i:1", zone="a", leaders=0, replicas=0
)
TWO = replace(ONE, id=2, internal_address="i:2")


@pytest.mark.django_db
def test_where_brokers_were_seen_is_remembered_until_the_cluster_forgets_them() -> None:
    actions.remember_brokers([ONE, TWO])
    assert queries.broker_addresses() == ["i:1", "i:2"]
    before = list(KnownBroker.objects.values_list("broker", "changed_at"))
    actions.remember_brokers([TWO, ONE])
    assert list(KnownBroker.objects.values_list("broker", "changed_at")) == before
    actions.remember_brokers([replace(TWO, internal_address="i:9", state="fenced")])
    assert queries.broker_addresses() == ["i:9"]
    actions.remember_brokers([])
    assert queries.broker_addresses() == ["i:9"], "an empty answer says nothing"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with started(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.mark.processes
@pytest.mark.django_db
def test_brokers_that_are_not_configured_are_found_when_those_that_are_have_gone(
    cluster: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = {broker.id: broker.internal_address for broker in cluster.spec.brokers}
    configured = [addresses[1]]

    def client() -> AdminClient:
        """As a process makes it that has just begun."""
        return AdminClient(configured, cluster.operator, queries.broker_addresses)

    first = client()
    # Each learns of the others by itself; those that it has not seen are not remembered.
    cluster.wait_until(
        "the first one knows the others",
        lambda: [one.state for one in first.describe_cluster().brokers] == ["active"] * 3,
    )
    monkeypatch.setattr(brokers, "client", lambda: first)
    reconcile()
    assert queries.broker_addresses() == [addresses[1], addresses[2], addresses[3]]
    cluster.kill(1)
    with pytest.raises(BrokerUnavailable, match=addresses[1]):
        AdminClient(configured, cluster.operator).describe_cluster(timeout_s=0.5)
    later = client()
    for asked in (first, later):
        assert {b.id: b.internal_address for b in asked.describe_cluster().brokers} == addresses
        asked.put_tenant(
            "tn_known", generation=1, produce_bytes_per_s=1_000_000, partitions_max=10, suspended=False
        )
        asked.close()


def test_whoever_answered_is_asked_first_and_whoever_is_gone_last() -> None:
    remembered = ["d"]
    addresses = BrokerAddresses(["a", "b"], lambda: remembered)
    assert list(addresses.in_turn()) == ["a", "d", "b"]
    addresses.lost("a")
    assert list(addresses.in_turn()) == ["d", "b", "a"]
    addresses.answered("b")
    addresses.learn(["b", "c"])
    assert list(addresses.in_turn()) == ["b", "c", "a"], "d is no longer there"
    remembered[:] = ["c", "e"]
    assert list(addresses.in_turn()) == ["b", "c", "a"]
    addresses.remember()
    assert list(addresses.in_turn()) == ["b", "e", "c", "a"]
    assert str(addresses) == "b, e, c, a"
