"""REST and commands say that the access list hides topics, to those who may read it; others learn nothing."""

from typing import Any

import pytest

from control_plane.access import list_actions
from control_plane.access.actions import create_key
from control_plane.audit.actor import Actor, ActorKind
from control_plane.outbox import in_request
from control_plane.topics import actions as topics
from penstock.cli.__main__ import run
from penstock.cli.doctor_checks import State, access_list, tenants_limits
from penstock.client.settings import ConnectionSettings
from penstock.rules.access import Scope
from tenants.models import Person
from tests.control_plane.world import ACTOR, House, call, everything_delivered, make_house

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> House:
    """It has the topic orders, and its list denies what no entry allows."""
    monkeypatch.setattr(in_request.deliver_now, "__defaults__", (0.0,))
    made = make_house("acme")
    topics.create_topic(ACTOR, made.tenant, name="orders", partitions=1, settings={})
    list_actions.set_default(ACTOR, made.tenant, "deny")
    everything_delivered()
    return made


def owners_key(house: House, *scopes: Scope) -> tuple[str, str]:
    """The key's text and its principal."""
    person = Person.objects.get(email="owner@acme.example")
    actor = Actor(kind=ActorKind.PERSON, id=person.public_id, request_id="r1", source="127.0.0.1")
    _, text = create_key(actor, house.tenant, name="dev", scopes=scopes)
    return text.reveal(), f"person:{person.public_id}"


def missing(key: str, name: str) -> str:
    answer = call("GET", f"/v1/topics/{name}", token=key)
    assert answer.status == 404
    return str(answer.body["detail"]).replace(name, "NAME")


def test_not_found_says_that_the_list_hides_it_whether_or_not_there_is_such_a_topic(house: House) -> None:
    key, principal = owners_key(house)
    said = missing(key, "orders")
    assert said == (
        f"topic 'NAME' does not exist, or the access list hides it from {principal}: no entry allows describe to"
        f" {principal}, and the access list denies what no entry allows"
    )
    assert missing(key, "nothing") == said


def test_keys_that_may_not_read_the_list_learn_nothing_of_it(house: House) -> None:
    account = list_actions.create_account(ACTOR, house.tenant, name="billing")
    _, text = create_key(ACTOR, house.tenant, name="till", account=account)
    scoped, _ = owners_key(house, Scope(resource="topic", name="orders", literal=True))
    for key in (text.reveal(), scoped):
        assert missing(key, "orders") == missing(key, "nothing") == "topic 'NAME' does not exist"


def test_a_key_without_scopes_reads_itself_and_no_other(house: House) -> None:
    key, principal = owners_key(house)
    scoped, _ = owners_key(house, Scope(resource="topic", name="orders", literal=True))
    ids = [text.split("_")[2] for text in (key, scoped)]
    answer = call("GET", f"/v1/keys/key_{ids[0]}", token=key)
    assert answer.status == 200 and answer.body["principal"] == principal
    assert answer.body["hidden_topics"] == (
        f"it denies what no entry allows, and entries allow {principal} no topic"
    )
    assert answer.body["hidden_groups"].endswith(f"entries allow {principal} no group")
    assert call("GET", f"/v1/keys/key_{ids[1]}", token=key).status == 403
    assert call("GET", f"/v1/keys/key_{ids[1]}", token=scoped).status == 403


def test_topic_list_and_the_doctor_say_that_the_list_hides_topics(
    house: House, live_server: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key, principal = owners_key(house)
    monkeypatch.setenv("PENSTOCK_API_URL", live_server.url)
    monkeypatch.setenv("PENSTOCK_API_KEY", key)
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "127.0.0.1:9")
    assert run(["topic", "list"]) == 0
    said = capsys.readouterr()
    assert (
        f"The access list hides topics from this key: it denies what no entry allows, and entries allow {principal}"
        in (said.out + said.err)
    )
    settings = ConnectionSettings(bootstrap=("127.0.0.1:9",), api_key=key, api_url=live_server.url)
    finding = access_list(settings, 0, 5.0)
    assert finding.state is State.DOUBTFUL and principal in finding.fact and finding.remedy
    assert "access list does not allow describe" in tenants_limits(settings, 5.0).fact
    list_actions.set_default(ACTOR, house.tenant, "allow")
    assert access_list(settings, 1, 5.0).state is State.OK
