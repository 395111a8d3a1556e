"""The navigation reaches every page, the palette lists it, and the overview says what changed in words."""

import re
from dataclasses import replace

import pytest
from django.db import transaction
from django.db.models import F
from django.test import Client
from django.urls import reverse

from control_plane.audit import actions as audit
from control_plane.audit.actor import system
from control_plane.topics import actions as topics
from control_plane.topics.models import Topic
from control_plane.topics.plan_use import LimitUse
from quotas.plans import Limits
from tenants.models import Person
from tenants.roles import Standing
from tests.control_plane.web.filling import fill
from tests.control_plane.web.test_pages import signed_in, text_of
from tests.control_plane.world import ACTOR, House, everything_delivered, make_house
from web import changes, navigation, topic_list
from web.urls import urlpatterns
from web.views.overview import limits_shown

pytestmark = pytest.mark.django_db

NOT_FOR_READERS = ("live", "chain", "file", "pdf", "value", "tail", "proof", "evidence")
"""Words in names of addresses that answer with a part of a page or a file."""


@pytest.fixture
def house() -> House:
    made = make_house("acme")
    topics.create_topic(ACTOR, made.tenant, name="orders", partitions=3, settings={})
    everything_delivered()
    return made


def pages_without_an_object() -> set[str]:
    """Names of the addresses of a tenant that name nothing within it."""
    return {
        str(pattern.name)
        for pattern in urlpatterns
        if re.fullmatch(r"t/<str:tenant>[^<]*", str(pattern.pattern))
        and not any(word in str(pattern.name) for word in NOT_FOR_READERS)
    }


def addresses_on(client: Client, address: str) -> set[str]:
    """Addresses of the tenant that a page leads to."""
    return set(re.findall(r'(?:href|action|hx-get)="(/t/acme[^"?#]*)', text_of(client.get(address))))


def navigation_of(client: Client, address: str) -> str:
    (shown, *_) = re.findall(r'<nav aria-label="Pages">.*?</nav>', text_of(client.get(address)), re.DOTALL)
    return str(shown)


def test_every_page_is_in_the_navigation_or_a_link_on_a_page_of_it(house: House) -> None:
    fill(house.tenant, Person.objects.get(email="owner@acme.example"), range(2))
    client = signed_in(house)
    assert [group.heading for group in navigation.GROUPS] == ["Messages", "Access", "Money", "Settings"]
    reached = addresses_on(client, "/t/acme")
    assert reached >= {reverse(f"web:{page}", args=["acme"]) for page in navigation.PAGES}
    for address in sorted(reached):
        reached |= addresses_on(client, address)
    pages = {reverse(f"web:{name}", args=["acme"]) for name in pages_without_an_object()}
    left = [page for page in sorted(pages - reached) if client.get(page).status_code not in (404, 405)]
    assert not left, "put these into web/navigation.py, or link them from a page of it"


@pytest.mark.parametrize("standing", [Standing.OWNER, Standing.DEVELOPER, Standing.BILLING, Standing.AUDITOR])
def test_the_navigation_has_no_page_that_refuses_who_sees_it(house: House, standing: Standing) -> None:
    client = signed_in(house, standing)
    for address in re.findall(r'href="([^"]+)"', navigation_of(client, "/t/acme")):
        assert client.get(address).status_code == 200, address


def test_a_page_below_another_marks_the_one_above_it(house: House) -> None:
    client = signed_in(house)
    for address, label in (
        ("/t/acme/topics/orders/settings", "Topics"),
        ("/t/acme/bin", "Recycle bin"),
        ("/t/acme/new-key", "Keys"),
        ("/t/acme/access/who", "Who may …?"),
        ("/t/acme", "Overview"),
    ):
        assert re.findall(r'aria-current="page">([^<]+)<', navigation_of(client, address)) == [label], address


def test_what_changed_names_changes_in_words_and_no_reads(house: House) -> None:
    tenant = house.tenant.public_id
    read = audit.Entry(
        action="key.read", object_id="key_1", summary={"times": 3, "minute": "2026-01-31T12:00Z"}
    )
    made = audit.Entry(action="budget.create", object_id="bud_1", after={"name": "monthly"})
    with transaction.atomic():
        audit.record_all(system("test"), tenant=tenant, entries=[made, read])
    newest = [
        (change.thing, change.name, change.done, change.who) for change in changes.newest(tenant, {}, 2)
    ]
    assert newest == [
        ("budget", "monthly", "made", "the service"),
        ("topic", "orders", "made", "the service"),
    ]
    entries = [
        audit.Entry(action="key.create", object_id="key_1", after={"name": "till"}),
        audit.Entry(action="topic.delete", object_id="top_1", before={"name": "console"}),
        *[
            audit.Entry(action="key.create", object_id=f"key_{n}", after={"name": "console"})
            for n in range(2, 40)
        ],
    ]
    with transaction.atomic():
        audit.record_all(system("test"), tenant=tenant, entries=entries)
    assert [(change.thing, change.name) for change in changes.newest(tenant, {}, 2)] == [
        ("topic", "console"),
        ("key", "till"),
    ], "the console's own keys are no news, and nothing else of that name is hidden"
    shown = text_of(signed_in(house).get("/t/acme"))
    assert "bud_1" not in shown
    assert "key.read" not in shown


def test_the_overview_has_each_limit_once_and_those_that_are_half_used_first(house: House) -> None:
    shown = text_of(signed_in(house).get("/t/acme"))
    assert shown.count("<h2>Limits</h2>") == shown.count(">Produce rate ") == 1
    limits = Limits(produce_bytes_per_s=1, partitions_max=10, topics_max=100, keys_max=20)
    uses = [
        LimitUse(name=name, present=present, wanted=present, used=used)
        for name, present, used in (("partitions_max", 10, 6), ("topics_max", 100, 49), ("keys_max", 20, 19))
    ]
    rows = [(row.label, row.used, row.percent, row.is_near) for row in limits_shown(limits, uses)]
    assert rows[:3] == [
        ("Keys", "19", 95, True),
        ("Partitions", "6", 60, False),
        ("Produce rate", None, None, False),
    ]
    assert ("Topics", "49", 49, False) in rows


def test_the_list_of_topics_sorts_and_filters_by_its_state(house: House) -> None:
    for name, partitions in (("apples", 1), ("pears", 7)):
        topics.create_topic(ACTOR, house.tenant, name=name, partitions=partitions, settings={})
    Topic.objects.filter(name="orders").update(delivered_generation=F("generation"))
    client = signed_in(house)

    def names(query: str) -> list[str]:
        return re.findall(
            r'<td class="name"><a href="/t/acme/topics/(\w+)"', text_of(client.get(f"/t/acme/topics?{query}"))
        )

    assert names("") == names("sort=nothing") == ["apples", "orders", "pears"]
    assert names("sort=-partitions") == ["pears", "orders", "apples"]
    assert names("sort=made") == ["orders", "apples", "pears"]
    assert names("state=trouble") == ["apples", "pears"]
    assert names("state=ok&sort=-lag") == ["orders"]
    assert "leaders and copies are not looked at" in text_of(client.get("/t/acme/topics?state=ok"))
    now = topic_list.Now(messages=1, per_s=None, lag=0, leaderless=0, behind=0)
    orders = Topic.objects.get(name="orders")
    assert topic_list.Row(topic=orders, now=now).state == "ok"
    assert topic_list.Row(topic=orders, now=None).state == "unknown", "the brokers said something of others"
    assert topic_list.Row(topic=orders, now=replace(now, behind=1)).state == "trouble"
    assert 'aria-sort="descending"' in text_of(client.get("/t/acme/topics?sort=-name"))
