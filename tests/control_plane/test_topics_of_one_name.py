"""Topics that are made, binned, restored under any name and purged in any order: each is its id, and no other's."""

from dataclasses import dataclass, field

import pytest
from django.db import transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.audit.models import AuditEntry
from control_plane.brokers import client as brokers
from control_plane.outbox.registry import Delivered
from control_plane.topics import actions, bin_actions, observed, queries
from control_plane.topics.models import Topic
from penstock.contract.errors import AlreadyExists, NotFound
from tenants.actions import create_tenant
from tenants.models import Tenant
from tests.control_plane.test_recycle_bin import CLUSTER
from tests.control_plane.world import ACTOR

pytestmark = pytest.mark.django_db

NAMES = ("orders", "returns")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("make", "bin", "delete")), st.sampled_from(NAMES), st.just(0)),
        st.tuples(st.sampled_from(("restore", "purge")), st.sampled_from((*NAMES, "")), st.integers(0, 3)),
    ),
    min_size=6,
    max_size=16,
)


@dataclass
class Model:
    """Every topic by its id: the names of those that are open, those in the bin, and those that are gone."""

    open: dict[str, str] = field(default_factory=dict)
    """Name -> topic id."""
    binned: dict[str, str] = field(default_factory=dict)
    """Topic id -> the name that it had, the oldest first."""
    gone: set[str] = field(default_factory=set)
    told: list[tuple[str, str]] = field(default_factory=list)
    """Entries of the audit log: action and topic id."""


class Story:
    """Does each step to the service and to the model, and both refuse alike."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.model = Model()

    def step(self, what: str, name: str, number: int) -> None:
        model = self.model
        match what:
            case "make":
                if name in model.open:
                    with pytest.raises(AlreadyExists):
                        self._make(name)
                    return
                topic_id = self._make(name)
                assert topic_id not in {*model.open.values(), *model.binned, *model.gone}, (
                    "an id is never another's"
                )
                model.open[name] = topic_id
                model.told.append(("topic.create", topic_id))
            case "bin" | "delete":
                if name not in model.open:
                    with pytest.raises(NotFound):
                        bin_actions.remove_topic(ACTOR, self.tenant, name, purge=what == "delete")
                    return
                bin_actions.remove_topic(ACTOR, self.tenant, name, purge=what == "delete")
                topic_id = model.open.pop(name)
                if what == "bin":
                    model.binned[topic_id] = name
                else:
                    model.gone.add(topic_id)
                model.told.append(("topic.bin" if what == "bin" else "topic.delete", topic_id))
            case _:
                self._of_the_bin(what, name, number)

    def _make(self, name: str) -> str:
        made = actions.create_topic(ACTOR, self.tenant, name=name, partitions=1, settings={})
        observed.note_delivered({made.public_id: Delivered(generation=1, revision=1)})
        return made.topic_id

    def _of_the_bin(self, what: str, name: str, number: int) -> None:
        model = self.model
        if not model.binned:
            return
        topic_id = list(model.binned)[number % len(model.binned)]
        public_id = Topic.objects.get(topic_id=topic_id).public_id
        if what == "purge":
            bin_actions.purge_topic(ACTOR, self.tenant, public_id)
            del model.binned[topic_id]
            model.gone.add(topic_id)
            model.told.append(("topic.purge", topic_id))
            with pytest.raises(NotFound):
                bin_actions.restore_topic(ACTOR, self.tenant, public_id)
            return
        wanted = name or model.binned[topic_id]
        if wanted in model.open:
            with pytest.raises(AlreadyExists):
                bin_actions.restore_topic(ACTOR, self.tenant, public_id, name=name or None)
            return
        bin_actions.restore_topic(ACTOR, self.tenant, public_id, name=name or None)
        del model.binned[topic_id]
        model.open[wanted] = topic_id
        model.told.append(("topic.restore", topic_id))

    def check(self) -> None:
        """Lists, single topics and the audit log say what the model does."""
        model = self.model
        assert dict(queries.topics(self.tenant).values_list("name", "topic_id")) == model.open
        assert dict(queries.binned_topics(self.tenant).values_list("topic_id", "name")) == model.binned
        gone = Topic.objects.filter(tenant=self.tenant).exclude(deleted_at=None)
        assert set(gone.values_list("topic_id", flat=True)) == model.gone
        for name in NAMES:
            found = queries.topics(self.tenant).filter(name=name).first()
            assert (None if found is None else found.topic_id) == model.open.get(name)
        entries = AuditEntry.objects.filter(tenant=self.tenant.public_id, action__startswith="topic.")
        ids = dict(Topic.objects.filter(tenant=self.tenant).values_list("public_id", "topic_id"))
        assert [(entry.action, ids[entry.object_id]) for entry in entries.order_by("sequence")] == model.told


@settings(max_examples=8, deadline=None)
@given(STEPS)
def test_topics_of_one_name_are_told_apart_by_their_ids(steps: list[tuple[str, str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch, transaction.atomic():
        patch.setattr(brokers, "describe", lambda **asked: CLUSTER)
        story = Story(create_tenant(ACTOR, name="acme"))
        for what, name, number in steps:
            story.step(what, name, number)
            story.check()
        transaction.set_rollback(True)
