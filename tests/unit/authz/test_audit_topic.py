"""The topic with a tenant's audit log: no right that does not name it shows it, and the service alone writes."""

from dataclasses import replace

import pytest

from data_plane.authz.access import Operation
from data_plane.metadata import model
from data_plane.metadata.access_lists import AccessListRecord, access_list_key
from data_plane.metadata.model import Binding, TopicRecord
from penstock.contract.errors import Forbidden, NotFound
from penstock.contract.ids import SYSTEM_TENANT, TopicId
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.access import AccessList, Acl
from penstock.rules.names import AUDIT_TOPIC

from .setup import ACME, Tenants, key_number

ONE, TWO = key_number(1), key_number(2)
TOPIC = TopicRecord(
    topic_id=TopicId(b"a" * 16), tenant=ACME, name=AUDIT_TOPIC, partitions=1, settings=TopicSettings()
)
READS = Binding(topic_prefix=AUDIT_TOPIC, literal=True, resource="topic", operations=("describe", "consume"))
WRITES = Binding(topic_prefix=AUDIT_TOPIC, literal=True, resource="topic", operations=("describe", "produce"))


@pytest.fixture
def tenants() -> Tenants:
    made = Tenants()
    made.put(model.topic_key(TOPIC.topic_id), TOPIC.encode())
    made.put(model.name_key(ACME, AUDIT_TOPIC), TOPIC.topic_id.hex().encode())
    return made


@pytest.mark.parametrize(
    "bindings",
    [
        (),
        (Binding(topic_prefix=""),),
        (Binding(topic_prefix="__"),),
        (Binding(topic_prefix=AUDIT_TOPIC),),
        (Binding(topic_prefix=AUDIT_TOPIC, operations=("produce", "consume", "describe", "delete")),),
        (Binding(topic_prefix=AUDIT_TOPIC, resource="topic"),),
        (Binding(topic_prefix=AUDIT_TOPIC, resource="group", literal=True),),
    ],
    ids=["whole", "every name", "the service's names", "prefix", "all by prefix", "topics", "a group"],
)
@pytest.mark.parametrize("owner", ["person:usr_1", "service_account:sa_1", "service", ""])
def test_a_right_that_does_not_name_it_shows_nothing(
    tenants: Tenants, bindings: tuple[Binding, ...], owner: str
) -> None:
    tenants.change_key(1, bindings=bindings, owner=owner)
    principal = tenants.enter(ONE)
    for operation in Operation:
        with pytest.raises(NotFound, match="'__audit' does not exist"):
            tenants.authenticator.topic(principal, operation, AUDIT_TOPIC)
        with pytest.raises(NotFound, match="does not exist"):
            tenants.authenticator.topic_by_id(principal, operation, TOPIC.topic_id)
    assert AUDIT_TOPIC not in [topic.name for topic in tenants.authenticator.topics(principal)]


def test_a_key_that_names_it_reads_and_does_not_write(tenants: Tenants) -> None:
    tenants.change_key(1, bindings=(READS,), owner="service_account:sa_1")
    principal = tenants.enter(ONE)
    for operation in (Operation.DESCRIBE, Operation.CONSUME):
        assert tenants.authenticator.topic(principal, operation, AUDIT_TOPIC) == TOPIC
    for operation in (Operation.PRODUCE, Operation.DELETE):
        with pytest.raises(Forbidden):
            tenants.authenticator.topic(principal, operation, AUDIT_TOPIC)


def test_the_access_list_counts_too(tenants: Tenants) -> None:
    tenants.change_key(1, bindings=(READS,), owner="service_account:sa_1")
    denied = Acl(effect="deny", principal="everyone", resource="topic", name="__", operations=("consume",))
    tenants.put(access_list_key(ACME), AccessListRecord.of(AccessList(acls=(denied,)), 1).encode())
    with pytest.raises(Forbidden, match="access list"):
        tenants.authenticator.topic(tenants.enter(ONE), Operation.CONSUME, AUDIT_TOPIC)


@pytest.mark.parametrize("owner", ["person:usr_1", "service_account:sa_1", ""])
def test_the_service_alone_writes_whatever_a_scope_says(tenants: Tenants, owner: str) -> None:
    tenants.change_key(1, bindings=(WRITES,), owner=owner)
    with pytest.raises(Forbidden, match="the service alone writes __audit"):
        tenants.authenticator.topic(tenants.enter(ONE), Operation.PRODUCE, AUDIT_TOPIC)
    tenants.change_key(1, owner="service")
    tenants.authenticator.topic(tenants.enter(ONE), Operation.PRODUCE, AUDIT_TOPIC)
    with pytest.raises(Forbidden):
        tenants.authenticator.topic(tenants.enter(ONE), Operation.DELETE, AUDIT_TOPIC)


def test_another_tenants_key_finds_none(tenants: Tenants) -> None:
    tenants.change_key(2, bindings=(READS,), owner="service_account:sa_2")
    principal = tenants.enter(TWO)
    with pytest.raises(NotFound):
        tenants.authenticator.topic(principal, Operation.CONSUME, AUDIT_TOPIC)
    with pytest.raises(NotFound):
        tenants.authenticator.topic_by_id(principal, Operation.CONSUME, TOPIC.topic_id)


def test_what_it_stores_is_not_metered() -> None:
    assert not TOPIC.metered
    assert replace(TOPIC, name="orders").metered
    assert not replace(TOPIC, name="orders", tenant=SYSTEM_TENANT).metered
