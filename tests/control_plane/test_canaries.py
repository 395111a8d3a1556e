"""Two tenants beside each other, each with a word of its own in every name: neither reads the other's anywhere.

Answers of every operation that reads and every page of the console, the files among them; e-mails, events of webhooks,
access reports, the log of the service. `test_isolation` asks for the other's things; here each asks for its own, after
it has asked for all of the other's.
"""

import json
import logging
from collections.abc import Iterator

import pytest
from django.test import Client

from control_plane.mail.models import Mail
from control_plane.webhooks.sources import SOURCES
from penstock.contract.api_keys import parse_api_key
from tenants.models import Tenant
from tenants.roles import Standing
from tests.control_plane import test_isolation as matrix
from tests.control_plane.test_isolation import MATRIX, PAGES, Operation, Watched, page_of
from tests.control_plane.test_permissions import OPERATOR
from tests.control_plane.world import call, everything_delivered

pytestmark = pytest.mark.django_db
no_waiting = matrix._no_waiting

WORDS = ("canary-a-51d0f3", "canary-b-93ce77")
OWN = {"answers": 10, "pages": 10, "events": 5, "e-mails": 1}
"""So many texts of each kind show the tenant's own word. If they did not, the search would show nothing."""
READERS = frozenset({Standing.OWNER, Standing.KEY})
"""Between them they read everything that a tenant may."""
Heard = list[tuple[str, str]]
"""(where, text)."""


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> list[Watched]:
    made = []
    for word in WORDS:
        monkeypatch.setattr(matrix, "CANARY", word)
        made.append(matrix.watched_tenant())
    everything_delivered()
    return made


def leaks(heard: Heard, forbidden: dict[str, str]) -> list[str]:
    """Where a forbidden word stands; `forbidden` says by word what it is."""
    return [
        f"{where}: {what}, in …{text[max(0, text.index(word) - 60) :][:200]}…"
        for where, text in heard
        for word, what in forbidden.items()
        if word in text
    ]


def words_of(one: Watched, word: str) -> dict[str, str]:
    """What no other tenant may read: its word, its ids, and the secrets of its keys and sessions."""
    found = {word: "its word"}
    found |= {
        thing: f"its {part}" for part, thing in one.things.items() if part not in ("month", "name", "tenant")
    }
    found[one.tenant.public_id] = "its id"
    for standing, token in one.house.credentials.items():
        is_key = standing in (Standing.KEY, Standing.BOUND_KEY, Standing.VERIFYING_KEY)
        found[parse_api_key(token).secret if is_key else token] = f"a secret of its {standing}"
    return found


def all_operations() -> Iterator[Operation]:
    for row in MATRIX:
        (operation,) = row.values
        assert isinstance(operation, Operation)
        yield operation


def asks_for_all_of(me: Watched, other: Watched) -> Heard:
    """Every operation that names a thing, with the other's ids. Not by its names: they would be the caller's words."""
    heard = []
    for operation in all_operations():
        if set(operation.parts) <= other.things.keys() - {"name"} and operation.parts:
            token = me.house.credentials[Standing.OWNER]
            answer = call(operation.method, operation.address(other.things), operation.body, token=token)
            heard.append((f"{operation.method} {operation.path}", _text(answer.body)))
    return heard


def reads_all_of_its_own(me: Watched) -> Heard:
    heard = []
    for operation in all_operations():
        known = set(operation.parts) <= me.things.keys()
        if operation.method != "GET" or not known or operation.may == OPERATOR:
            continue
        for standing in sorted(operation.may & READERS):
            token = me.house.credentials[standing]
            for month in (me.things["month"], "now") if "month" in operation.parts else ("",):
                address = operation.address({**me.things, "month": month})
                answer = call("GET", address, token=token)
                heard.append((f"GET {address} as {standing}", f"{_text(answer.body)} {answer.headers}"))
    return heard


def reads_all_pages(me: Watched, word: str) -> Heard:
    browser = Client()
    browser.cookies["penstock"] = me.house.credentials[Standing.OWNER]
    heard = []
    for row in PAGES:
        name, parts = row.values
        assert isinstance(name, str)
        assert isinstance(parts, list)
        address = page_of(me, name, parts, tenant=word)
        response = browser.get(address, {"name": "readers"})
        heard.append((f"the page {address}", response.getvalue().decode(errors="replace")))
    return heard


def events_of(tenant: Tenant) -> Heard:
    """The bodies that a webhook of the tenant gets, from the first event on."""
    return [
        (f"the event {event.id}", event.payload())
        for source in SOURCES.values()
        for event in source.after(tenant.public_id, 0, 1_000)
    ]


def mails_to(word: str) -> Heard:
    return [
        (f"the e-mail {mail.kind} to {mail.to}", f"{mail.subject}\n{mail.text}\n{mail.html}")
        for mail in Mail.objects.filter(to__contains=word)
    ]


def _text(body: object) -> str:
    if isinstance(body, bytes):
        return body.decode(errors="replace")
    return json.dumps(body)


@pytest.mark.slow
def test_nothing_of_a_tenant_stands_in_what_another_one_reads_or_is_sent(
    both: list[Watched], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    (other, one), (of_other, word) = both, WORDS
    forbidden = words_of(other, of_other)
    # Ids that it has asked for itself stand in the refusals, and in its own audit log.
    unnamed = {text: what for text, what in forbidden.items() if text not in other.things.values()}
    heard = {
        "refusals": asks_for_all_of(one, other),
        "answers": reads_all_of_its_own(one),
        "pages": reads_all_pages(one, word),
        "events": events_of(one.tenant),
        "e-mails": mails_to(word),
    }
    for kind, texts in heard.items():
        assert leaks(texts, unnamed) == []
        own = sum(word in text for _, text in texts)
        assert own >= OWN.get(kind, 0), f"{kind} hardly show the tenant's own"
    secrets = {text: what for text, what in forbidden.items() if what.startswith("a secret")}
    logged = [(record.name, f"{record.getMessage()} {vars(record)}") for record in caplog.records]
    assert leaks(logged, secrets) == []


def test_the_search_finds_what_stands_there(both: list[Watched]) -> None:
    """Each word that is searched for would be found, in the middle of a text as at its end."""
    forbidden = words_of(both[0], WORDS[0])
    for word, what in forbidden.items():
        for text in (f'{{"name": "{word}.orders"}}', f"GET /v1/{word}"):
            (leak, *_) = leaks([("an answer", text)], {word: what})
            assert leak.startswith(f"an answer: {what}, in …")
    assert leaks([("an answer", f"of {WORDS[1]}")], forbidden) == []
