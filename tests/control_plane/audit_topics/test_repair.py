"""After a database was restored, a topic with an audit log works again by itself."""

import pytest

from control_plane.audit.models import AuditEntry
from control_plane.audit_topics import queries
from control_plane.audit_topics.models import AuditTopic
from control_plane.brokers.view import ClusterView, TenantSeen, TopicSeen
from control_plane.reconciliation.reconcile import repair
from control_plane.topics.models import Topic
from penstock.rules.names import AUDIT_TOPIC
from quotas.actions import set_limits
from tests.control_plane.audit_topics.test_line import Brokers, on, take_turn
from tests.control_plane.world import ACTOR, House, everything_delivered, make_house

REVISION = 100


@pytest.fixture
def house(db: None) -> House:
    """Its topic has all that there is, and the brokers have the topic."""
    made = make_house("acme")
    on(made)
    take_turn(made.tenant, Brokers())
    topic = Topic.objects.get(name=AUDIT_TOPIC)
    Topic.objects.filter(pk=topic.pk).update(
        on_brokers=True, delivered_generation=topic.generation, delivered_revision=REVISION
    )
    everything_delivered()
    assert queries.state_of(made.tenant).position > 0
    return made


def found(house: House, *topics: TopicSeen) -> list[str]:
    """What one comparison says; the brokers have these topics."""
    tenant = TenantSeen(
        tenant=house.tenant.public_id, generation=0, produce_bytes_per_s=0, partitions_max=0, suspended=False
    )
    seen = ClusterView(
        cluster_id="c",
        controller=1,
        revision=REVISION,
        brokers=(),
        tenants=(tenant,),
        topics=topics,
        keys=(),
    )
    return [one.what for one in repair(seen)]


def on_brokers(house: House, topic_id: str = "") -> TopicSeen:
    row = Topic.objects.get(name=AUDIT_TOPIC)
    return TopicSeen(
        tenant=house.tenant.public_id,
        name=AUDIT_TOPIC,
        topic_id=topic_id or row.topic_id,
        partitions=1,
        settings_json="{}",
        generation=1,
    )


def comes_whole(house: House) -> bool:
    brokers = Brokers()
    take_turn(house.tenant, brokers)
    newest = queries.state_of(house.tenant).newest
    return [int(one.key) for one in brokers.got] == list(range(1, newest + 1))


def rewound() -> list[str]:
    return [one.after["why"] for one in AuditEntry.objects.filter(action="audit_topic.rewind")]


def test_one_that_the_brokers_lost_is_made_again_with_the_whole_log(house: House) -> None:
    assert "it was gone on the brokers" in found(house)
    assert rewound() == ["it was gone on the brokers"]
    assert comes_whole(house)


def test_another_one_of_the_name_gets_the_whole_log(house: House) -> None:
    found(house, on_brokers(house, "ab" * 16))
    assert Topic.objects.get(name=AUDIT_TOPIC).topic_id == "ab" * 16
    assert len(rewound()) == 1 and comes_whole(house)


def test_one_without_its_row_is_made_again(house: House) -> None:
    Topic.objects.filter(name=AUDIT_TOPIC).delete()
    said = [one for one in found(house) if "was missing" in one]
    assert len(said) == 1 and rewound() == said
    assert comes_whole(house)
    assert not [one for one in found(house) if "missing" in one], "done once"


def test_one_without_its_row_that_the_brokers_have_is_taken_over(house: House) -> None:
    there = on_brokers(house, "ab" * 16)
    Topic.objects.filter(name=AUDIT_TOPIC).delete()
    assert "unknown" not in str(found(house, there))
    assert Topic.objects.get(name=AUDIT_TOPIC).topic_id == "ab" * 16
    assert comes_whole(house)


def test_one_that_cannot_be_made_says_why_once(house: House) -> None:
    Topic.objects.filter(name=AUDIT_TOPIC).delete()
    set_limits(ACTOR, house.tenant, topics_max=1)
    Topic.objects.create(
        public_id="tp_other", tenant=house.tenant, name="other", topic_id="cd" * 16, partitions=1, settings={}
    )
    said = [one for one in found(house) if "cannot be made" in one]
    assert len(said) == 1 and "topics_max" in said[0]
    assert queries.state_of(house.tenant).problem == said[0]
    assert not [one for one in found(house) if "cannot be made" in one], "once"


def test_one_that_is_further_than_its_log_begins_with_entry_1(house: House) -> None:
    AuditTopic.objects.update(position=10_000)
    assert [one for one in found(house, on_brokers(house)) if "was at entry 10000" in one]
    assert comes_whole(house)


def test_one_that_fits_is_left_alone(house: House) -> None:
    before = queries.state_of(house.tenant).position
    found(house, on_brokers(house))
    assert queries.state_of(house.tenant).position == before and rewound() == []
