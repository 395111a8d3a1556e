"""What is wrong with a form stands at its field, tied to it for readers of screens, and what was typed stays."""

from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client
from pytest_django.plugin import DjangoDbBlocker

from control_plane.outbox import in_request
from control_plane.topics import actions as topics
from penstock import GroupDescription
from penstock.contract.errors import AlreadyExists, InvalidRequest
from penstock.contract.limits import MESSAGE_BYTES_MAX_DEFAULT
from penstock.rules.names import OPERATIONS
from tenants.models import ApiKey, Person, Tenant
from tenants.roles import Standing
from tests.control_plane.rows_of_a_module import rows_of_a_module
from tests.control_plane.web.test_pages import NEW_TOPIC
from tests.control_plane.world import ACTOR, PASSWORD, House, everything_delivered, make_house
from web.forms.fields import TEXT_MAX, moment_ms
from web.forms.groups import MovesForm, TargetForm
from web.forms.keys import KeyForm
from web.forms.messages import HEADERS_MAX, LookForm, SendForm
from web.groups_now import GroupNow, PartitionLag

pytestmark = pytest.mark.django_db

NEW_KEY = {"name": "a program", "lifetime": "30", "scope": "all", "topic_prefix": ""}
OTHER = "another horse, another battery"


class _Page(HTMLParser):
    """The elements of a page by name and by id, and the text below each id."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.named: dict[str, dict[str, str]] = {}
        self.texts: dict[str, str] = {}
        self._open: list[str] = []
        self._fieldsets: list[dict[str, str]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "fieldset":
            self._fieldsets.append(given)
        if given.get("name") and tag in ("input", "select", "textarea"):
            around = self._fieldsets[-1] if self._fieldsets else {}
            self.named[given["name"]] = {"aria-describedby": "", **around, **given}
        if tag not in ("input", "meta", "link", "br", "hr"):
            self._open.append(given.get("id", ""))
            if given.get("id"):
                self.texts[given["id"]] = ""

    def handle_endtag(self, tag: str) -> None:
        if self._open:
            self._open.pop()
        if tag == "fieldset":
            self._fieldsets.pop()

    def handle_data(self, data: str) -> None:
        for name in filter(None, self._open):
            self.texts[name] += data

    def error_at(self, name: str) -> str:
        """The texts that describe a field, by its `aria-describedby`."""
        return " ".join(self.texts[one] for one in self.named[name]["aria-describedby"].split())


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))


@pytest.fixture(scope="module")
def made(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[House]:
    with rows_of_a_module(django_db_blocker):
        house = make_house("acme")
        topics.create_topic(ACTOR, house.tenant, name="orders", partitions=3, settings={})
        everything_delivered()
        yield house


@pytest.fixture
def house(made: House) -> House:
    return deepcopy(made)


@pytest.fixture
def owner(house: House) -> Iterator[Client]:
    """An owner who is an operator too."""
    client = Client()
    client.cookies["penstock"] = house.credentials[Standing.OWNER]
    client.post("/operator/sign-in", {"token": house.credentials[Standing.OPERATOR]})
    yield client


def fill(address: str) -> str:
    """With the ids of what the house has."""
    return address.format(
        tenant=Tenant.objects.get(name="acme").public_id,
        person=Person.objects.get(email="billing@acme.example").public_id,
    )


SETTINGS = {**NEW_TOPIC, "partitions": "3", "replication": "3", "min_insync_replicas": "2"}
LIMITS = {"produce_bytes_per_s": "0", "consume_bytes_per_s": "0", "partitions_max": "1"}
WRONG = [
    ("/new-tenant", {"tenant": "a b"}, "tenant", "A-Z a-z 0-9"),
    ("/new-tenant", {"tenant": ""}, "tenant", "Fill this in"),
    ("/account", {"present": "wrong", "new": OTHER}, "present", "This is not your password"),
    ("/t/acme/new-topic", {**NEW_TOPIC, "name": "orders"}, "name", "exists"),
    ("/t/acme/new-topic", {**NEW_TOPIC, "name": "a", "retention": "0"}, "retention", "is not within"),
    ("/t/acme/new-topic", {**NEW_TOPIC, "name": "a", "retention": ""}, "retention", "Fill this in"),
    ("/t/acme/new-topic", {**NEW_TOPIC, "name": "a", "partitions": "9999"}, "partitions", "are used"),
    ("/t/acme/new-topic", {**NEW_TOPIC, "name": "a", "retention_bytes": "0"}, "retention_bytes", "is not within"),
    ("/t/acme/new-topic", {**NEW_TOPIC, "name": "a", "durability": "none"}, "durability", "Choose one"),
    ("/t/acme/topics/orders/settings", {**SETTINGS, "partitions": "2"}, "partitions", "only more"),
    ("/t/acme/topics/orders/settings", {**SETTINGS, "durability": "replicated"}, "durability", "keeps it"),
    ("/t/acme/topics/orders/delete", {"name": "order"}, "name", "Type orders exactly"),
    ("/t/acme/topics/orders/send", {"value": "a", "headers": "no colon"}, "headers", "one header per line"),
    ("/t/acme/new-key", {**NEW_KEY, "name": ""}, "name", "Fill this in"),
    ("/t/acme/new-key", {**NEW_KEY, "scope": "some"}, "may_produce", "Tick at least one"),
    ("/t/acme/new-key", {**NEW_KEY, "lifetime": "for ever"}, "lifetime", "Choose one of these"),
    ("/t/acme/invite", {"email": "nobody", "role": "billing"}, "email", "is no e-mail address"),
    ("/t/acme/invite", {"email": "new@acme.example", "role": "king"}, "role", "Choose one of these"),
    ("/operator/tenants/{tenant}", LIMITS | {"produce_bytes_per_s": "-1"}, "produce_bytes_per_s", "-1"),
    ("/operator/people/{person}/limit", {"tenants_max": "many"}, "tenants_max", "a whole number"),
]  # fmt: skip


@pytest.mark.parametrize(("address", "given", "field", "said"), WRONG)
def test_an_error_stands_at_its_field_and_the_rest_as_it_was_typed(
    owner: Client, address: str, given: dict[str, str], field: str, said: str
) -> None:
    before = ApiKey.objects.count()
    answer = owner.post(fill(address), given)
    page = _Page(answer.content.decode())
    assert answer.status_code == 422
    assert page.named[field].get("aria-invalid") == "true"
    assert said in page.error_at(field)
    for name, value in given.items():
        held = page.named[name]
        if held.get("type") in ("text", "email", "number"):
            assert held.get("value", "") == value
        elif held.get("type") == "password":
            assert "value" not in held
    assert ApiKey.objects.count() == before


def test_all_that_is_wrong_with_a_sign_up_is_told_at_once() -> None:
    given = {"email": "nobody", "password": "short", "tenant": "new comers"}
    page = _Page(Client().post("/sign-up", given).content.decode())
    assert "no e-mail address" in page.error_at("email") and "too short" in page.error_at("password")
    assert "A-Z a-z 0-9" in page.error_at("tenant") and page.named["tenant"]["value"] == "new comers"


def test_all_limits_of_a_tenant_are_looked_at_at_once(owner: Client) -> None:
    given = {"produce_bytes_per_s": "-1", "consume_bytes_per_s": str(2**51), "partitions_max": "many"}
    page = _Page(owner.post(fill("/operator/tenants/{tenant}"), given).content.decode())
    assert "-1 is not within" in page.error_at("produce_bytes_per_s")
    assert f"{2**51} is not within" in page.error_at("consume_bytes_per_s")
    assert "a whole number" in page.error_at("partitions_max")


def test_people_are_led_to_the_first_field_with_an_error(owner: Client) -> None:
    def led_to(page: bytes) -> list[str]:
        named = _Page(page.decode()).named
        return [name for name, given in named.items() if "autofocus" in given]

    assert led_to(owner.get("/t/acme/new-topic").content) == ["name"]
    wrong = {**NEW_TOPIC, "name": "fine", "partitions": "0", "max_message_kib": "0"}
    assert led_to(owner.post("/t/acme/new-topic", wrong).content) == ["partitions"]
    assert led_to(owner.post("/t/acme/new-topic", {**wrong, "name": "a b"}).content) == ["name"]
    assert led_to(owner.post("/t/acme/new-key", {**NEW_KEY, "scope": "some"}).content) == []


def test_a_refusal_that_begins_with_the_topics_name_keeps_its_letters(owner: Client) -> None:
    for address, given in (
        ("/t/acme/topics/orders/settings", {**SETTINGS, "partitions": "2"}),
        ("/t/acme/new-topic", {**NEW_TOPIC, "name": "small", "partitions": "9999"}),
    ):
        told = _Page(owner.post(address, given).content.decode()).error_at("partitions")
        assert "orders has 3" in told or "small needs 9999" in told


def test_a_refusal_of_no_field_stands_above_the_form() -> None:
    answer = Client().post("/sign-in", {"email": "nobody@acme.example", "password": PASSWORD, "next": ""})
    text = answer.content.decode()
    assert answer.status_code == 422
    assert '<div class="note bad" role="alert">The e-mail address or the password is wrong</div>' in text


@pytest.mark.parametrize("wanted", ["a\0b", "x" * (TEXT_MAX + 1)])
def test_a_next_address_that_makes_no_sense_does_not_hinder_a_sign_in(wanted: str) -> None:
    given = {"email": "new@acme.example", "password": PASSWORD}
    Client().post("/sign-up", {**given, "tenant": "newcomers"})
    answer = Client().post("/sign-in", {**given, "next": wanted})
    assert answer.status_code == 302 and answer["Location"] == "/"


def test_a_hint_is_tied_to_its_field_and_an_error_comes_beside_it(owner: Client) -> None:
    page = _Page(owner.get("/t/acme/new-topic").content.decode())
    assert "Letters, digits" in page.error_at("name") and "aria-invalid" not in page.named["name"]
    wrong = _Page(owner.post("/t/acme/new-topic", {**NEW_TOPIC, "name": "a b"}).content.decode())
    assert "Letters, digits" in wrong.error_at("name") and "A-Z a-z 0-9" in wrong.error_at("name")


def test_a_new_topic_is_offered_with_the_services_defaults(owner: Client) -> None:
    page = _Page(owner.get("/t/acme/new-topic").content.decode())
    shown = {name: page.named[name]["value"] for name in ("partitions", "retention", "max_message_kib")}
    assert shown == {"partitions": "3", "retention": "7", "max_message_kib": "1024"}


def test_settings_sent_back_as_they_are_shown_change_nothing(owner: Client, house: House) -> None:
    topic = house.tenant.topics.get(name="orders")
    answer = owner.post("/t/acme/topics/orders/settings", {**SETTINGS, "retention_bytes": ""}, follow=True)
    assert "Nothing was changed" in answer.content.decode()
    topic.refresh_from_db()
    assert topic.generation == 1


def test_settings_that_the_form_cannot_show_exactly_stay_when_others_are_changed(
    owner: Client, house: House
) -> None:
    odd = {"retention_ms": 5_400_000, "retention_bytes": 1_500_000, "max_message_bytes": 1_500}
    address, before = "/t/acme/topics/odd/settings", {"durability": "fsync"}
    topic = topics.create_topic(ACTOR, house.tenant, name="odd", partitions=1, settings=odd)
    page = _Page(owner.get(address).content.decode())
    for name in ("partitions", "retention", "retention_bytes", "replication", "min_insync_replicas"):
        before[name] = page.named[name]["value"]
    assert (before["retention"], before["retention_bytes"]) == ("1", "2")
    before |= {"retention_unit": "hours", "max_message_kib": page.named["max_message_kib"]["value"]}
    assert "Nothing was changed" in owner.post(address, before, follow=True).content.decode()
    owner.post(address, {**before, "partitions": "2"})
    topic.refresh_from_db()
    assert topic.partitions == 2 and {name: topic.settings[name] for name in odd} == odd
    owner.post(address, {**before, "partitions": "2", "retention_unit": "days"})
    topic.refresh_from_db()
    assert {name: topic.settings[name] for name in odd} == {**odd, "retention_ms": 86_400_000}
    owner.post(address, {**before, "partitions": "2", "retention_unit": "unlimited", "retention_bytes": ""})
    topic.refresh_from_db()
    assert (topic.settings["retention_ms"], topic.settings["retention_bytes"]) == (-1, -1)
    # A field that is emptied is the service's default.
    owner.post(address, {**before, "partitions": "2", "max_message_kib": "", "min_insync_replicas": ""})
    topic.refresh_from_db()
    assert topic.settings["max_message_bytes"] == MESSAGE_BYTES_MAX_DEFAULT


def test_a_topic_is_called_deleted_only_so_far_as_it_is(owner: Client) -> None:
    answer = owner.post("/t/acme/topics/orders/delete", {"name": "orders"}, follow=True)
    assert "Topic orders is deleted; the brokers will hear of it in a moment." in answer.content.decode()


def test_what_is_chosen_says_which_fields_count() -> None:
    passed = LookForm.asked(QueryDict("at=beginning&offset=many&time=never"), count=3)
    assert passed.is_valid() and passed.cleaned_data["offset"] is None
    asked = LookForm.asked(QueryDict("at=offset&offset=many"), count=3)
    assert asked.errors == {"offset": ["Enter a whole number"]} and asked.status == 422
    assert LookForm.asked(QueryDict("at=key"), count=3).errors == {"key": ["Fill this in"]}


def test_an_address_names_any_partition_that_the_topic_has() -> None:
    plain = LookForm.asked(QueryDict(""), count=1_000)
    assert plain.is_valid() and plain.cleaned_data["partition"] is None
    last = LookForm.asked(QueryDict("partition=999"), count=1_000)
    assert last.is_valid() and last.cleaned_data["partition"] == 999
    assert LookForm.asked(QueryDict("partition=1000"), count=1_000).errors == {
        "partition": ["The topic has partitions 0 to 999"]
    }


def test_a_time_is_of_utc_whatever_the_browser_adds() -> None:
    for text in ("2026-01-31T12:00", "2026-01-31T12:00:00", "2026-01-31T13:00:00+01:00"):
        form = LookForm(1, {"at": "time", "time": text, "partition": "all", "limit": "20"})
        assert form.is_valid(), form.errors
        assert form.cleaned_data["time"] == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert moment_ms(datetime(1, 1, 1, tzinfo=UTC)) == 0


def test_a_message_is_sent_as_it_was_typed() -> None:
    given = QueryDict(mutable=True)
    given.update({"value": " a\r\nb ", "key": " k ", "headers": "a: 1\r\n\r\nb:2", "partition": "1"})
    form = SendForm(3, given)
    assert form.is_valid(), form.errors
    assert form.cleaned_data == {
        "value": " a\nb ",
        "empty": False,
        "key": " k ",
        "partition": 1,
        "headers": [("a", b"1"), ("b", b"2")],
    }


def test_a_header_keeps_what_only_looks_like_the_end_of_its_line() -> None:
    content = "one\u2028two\u2029three\x0bfour\x85five\x1csix\u00a0"
    form = SendForm(1, {"value": "a", "headers": f"note: {content}\r\nnext: 2"})
    assert form.is_valid(), form.errors
    assert form.cleaned_data["headers"] == [("note", content.encode()), ("next", b"2")]


def test_a_message_has_so_many_headers_and_no_more() -> None:
    for number, right in ((HEADERS_MAX, True), (HEADERS_MAX + 1, False)):
        form = SendForm(1, {"value": "a", "headers": "a: 1\n" * number})
        assert form.is_valid() is right, form.errors


def test_a_whole_number_has_18_digits_at_most() -> None:
    for digits, right in ((18, True), (19, False)):
        form = LookForm.asked(QueryDict(f"at=offset&offset={'9' * digits}"), count=1)
        assert form.is_valid() is right, form.errors


def test_a_key_for_all_operations_is_bound_to_none_of_them() -> None:
    given = {"name": "a", "lifetime": "never", "scope": "some", "topic_prefix": "orders"}
    for ticked in (OPERATIONS, OPERATIONS[1:]):
        form = KeyForm(data={**given, **{f"may_{name}": "on" for name in ticked}})
        assert form.is_valid(), form.errors
        assert form.operations_bound == ([] if ticked == OPERATIONS else list(ticked))


# -- moving offsets of a group --------------------------------------------------------------------------


def group_now() -> GroupNow:
    described = GroupDescription(
        group="workers", state="empty", epoch=1, assignor="", members=(), offsets={("orders", 0): 5}
    )
    part = PartitionLag(topic="orders", partition=0, begin=0, end=10, committed=5, member="")
    return GroupNow(description=described, partitions=(part,))


def moves(*texts: str) -> MovesForm:
    given = QueryDict(mutable=True)
    given.setlist("move", list(texts))
    return MovesForm(group_now(), given)


def test_moves_are_those_of_the_preview() -> None:
    form = moves("orders:0:3")
    assert form.is_valid() and form.moves == {("orders", 0): 3}


@pytest.mark.parametrize(
    "text", ["orders:1:3", "other:0:3", "orders:0", "orders:0:" + "9" * 5_000, "orders:0:٣"]
)
def test_a_move_that_no_preview_showed_is_refused_above_the_form(text: str) -> None:
    form = moves(text)
    assert not form.is_valid() and "make another one" in str(form.non_field_errors())
    assert "There is nothing to move" in str(moves().non_field_errors())


def test_a_groups_target_is_checked_before_the_brokers_are_asked() -> None:
    def errors(**given: str) -> dict[str, Any]:
        return {**TargetForm(["orders"], {"to": "beginning", **given}).errors}

    assert errors(offset="many") == {}
    assert errors(to="offset", offset="-1") == {"offset": ["Offsets begin at 0"]}
    assert errors(to="offset", offset="") == {"offset": ["Fill this in"]}
    assert errors(topic="others") == {"topic": ["The group has no committed offset in this topic"]}
    assert set(errors(to="time", time="soon")) == {"time"}


def test_a_refusal_finds_its_field_under_the_name_that_people_see() -> None:
    form = TargetForm(["orders"], {"to": "beginning"})
    assert form.is_valid()
    form.refuse(InvalidRequest("offset: 3 is not there"))
    form.refuse(AlreadyExists("group: workers is there"))
    assert form.errors == {"offset": ["3 is not there"], "__all__": ["group: Workers is there"]}
