"""Hot keys over REST: what leaders say of a topic, and who may see it."""

import json
from typing import Any

import pytest
from prometheus_client import generate_latest

from control_plane.access import list_actions
from control_plane.api.metrics import registry
from control_plane.audit.models import AuditEntry
from control_plane.brokers import answers
from control_plane.brokers import client as brokers
from control_plane.brokers.view import BrokerSeen, ClusterView, HotKeySeen, HotKeysSeen
from control_plane.outbox import in_request
from control_plane.placement import metrics
from control_plane.placement.models import LoadReport
from control_plane.topics.actions import create_topic
from data_plane.contract import admin_pb2 as pb
from data_plane.contract.broker_calls import NotSupported
from penstock.contract.errors import BrokerUnavailable
from penstock.rules.access import CONSUME, DENY, EVERYONE, TOPIC, Acl
from tenants.roles import Standing
from tests.control_plane.api.lists import Cluster
from tests.control_plane.api.lists import hot_partitions as fill_hot_partitions
from tests.control_plane.world import ACTOR, House, call, make_house

pytestmark = pytest.mark.django_db
CANARY = "customer-4711@canary.example"
PATH = "/v1/topics/orders/hot-keys"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))


@pytest.fixture
def house() -> House:
    made = make_house("acme")
    create_topic(ACTOR, made.tenant, name="orders", partitions=2, settings={"replication": 1})
    return made


def key(text: bytes, messages: int, size: int = 0) -> HotKeySeen:
    return HotKeySeen(key=text, size=size or len(text), messages=messages)


def leaders_say(monkeypatch: pytest.MonkeyPatch, *keys: HotKeySeen) -> None:
    part = HotKeysSeen(partition=1, messages=1_000, keys=keys)
    monkeypatch.setattr(brokers, "hot_keys", lambda topic_id, timeout_s: ([part], [3]))


def test_keys_are_shown_as_text_or_marked_as_base64_with_their_share(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = ("ä" * 200).encode()[:255]
    leaders_say(
        monkeypatch,
        key(CANARY.encode(), 600),
        key(b"\xff\x00", 200),
        key(cut, 100, size=400),
        key("turned\u202egnp".encode(), 50),
        key(b"lie", 2**64),
    )
    found = call("GET", PATH, token=house.credentials[Standing.DEVELOPER])
    assert found.status == 200, found.body
    assert (found.body["name"], found.body["silent_brokers"]) == ("orders", [3])
    (part,) = found.body["partitions"]
    assert (part["partition"], part["messages"]) == (1, 1_000)
    assert [(k["key"], k["encoding"], k["cut"], k["size"], k["share_percent"]) for k in part["keys"]] == [
        (CANARY, "utf-8", False, 28, 60),
        ("/wA=", "base64", False, 2, 20),
        ("ä" * 127, "utf-8", True, 400, 10),
        ("dHVybmVk4oCuZ25w", "base64", False, 12, 5),
        ("lie", "utf-8", False, 3, 100),
    ]


def test_keys_are_for_those_who_may_read_messages(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    leaders_say(monkeypatch, key(CANARY.encode(), 600))
    other = make_house("other")
    for standing, token in house.credentials.items():
        answer = call("GET", PATH, token=token, tenant=house.tenant.public_id)
        may = standing in (Standing.OWNER, Standing.ADMIN, Standing.DEVELOPER, Standing.KEY)
        assert answer.status == (200 if may else 403), standing
        assert (CANARY in json.dumps(answer.body)) is may, standing
    stranger = call("GET", "/v1/topics/none/hot-keys", token=other.credentials[Standing.OWNER])
    assert stranger.status == 404
    assert CANARY not in "".join(map(str, AuditEntry.objects.values_list("after", flat=True)))


def test_an_access_list_that_denies_the_topic_denies_its_keys_to_people_and_keys(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaders_say(monkeypatch, key(CANARY.encode(), 600))
    entry = Acl(effect=DENY, principal=EVERYONE, resource=TOPIC, name="ord", operations=(CONSUME,))
    list_actions.add_acls(ACTOR, house.tenant, [entry])
    owner = house.credentials[Standing.OWNER]
    key_of_owner = call("POST", "/v1/keys", {"name": "app"}, token=owner).body["key"]
    for token in (owner, key_of_owner):
        answer = call("GET", PATH, token=token)
        assert answer.status == 403 and CANARY not in json.dumps(answer.body)


def test_without_brokers_it_says_so(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(topic_id: str, timeout_s: float) -> Any:
        raise BrokerUnavailable("no broker answers")

    monkeypatch.setattr(brokers, "hot_keys", gone)
    assert call("GET", PATH, token=house.credentials[Standing.OWNER]).status == 503


def test_brokers_of_a_release_before_and_silent_ones_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Admin:
        def hot_keys(self, address: str, topic_id: bytes, timeout_s: float) -> list[pb.DescribedHotKeys]:
            if address == "b2":
                raise NotSupported("DescribeHotKeys")
            if address == "b3":
                raise BrokerUnavailable("b3: no answer")
            found = pb.DescribedHotKeys(partition=4, messages=10)
            found.keys.add(key=b"k", size=1, messages=9)
            return [found]

    seen = [
        answers.broker_seen(pb.DescribedBroker(id=n, state="active", internal_address=f"b{n}"))
        for n in (1, 2, 3)
    ]
    fenced = BrokerSeen(**{**{f: getattr(seen[0], f) for f in seen[0].__slots__}, "id": 4, "state": "fenced"})
    view = ClusterView(cluster_id="c", controller=1, revision=1, brokers=(*seen, fenced))
    monkeypatch.setattr(brokers, "describe", lambda timeout_s: view)
    monkeypatch.setattr(brokers, "client", Admin)
    found, silent = brokers.hot_keys("00" * 16)
    assert found == [HotKeysSeen(partition=4, messages=10, keys=(key(b"k", 9),))]
    assert silent == [2, 3]
    assert "b'k'" not in repr(found), "a log line of it has no key"


def test_the_metric_counts_hot_partitions_with_a_hot_key_and_names_none(house: House) -> None:
    fill_hot_partitions(house, Cluster(), range(1, 4))
    for row, percent in zip(LoadReport.objects.order_by("broker"), (24, 25, 100), strict=True):
        first, *_ = row.partitions
        row.partitions = [[*first[:7], 0.0, percent]]
        row.save()
    metrics.refresh()
    assert "penstock_placement_hot_keys 2.0" in generate_latest(registry).decode()


def test_a_load_of_a_release_before_has_no_hot_key(house: House) -> None:
    fill_hot_partitions(house, Cluster(), range(1, 2))
    own = call("GET", "/v1/hot-partitions", token=house.credentials[Standing.OWNER])
    assert [one["hot_key_percent"] for one in own.body["items"]] == [0]
