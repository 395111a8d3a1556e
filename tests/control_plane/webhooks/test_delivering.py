"""What reaches an endpoint, in which order, how it is signed, and what becomes of what it does not take."""

import json
from collections.abc import Callable
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import msgspec
import pytest
from django.utils import timezone
from standardwebhooks import Webhook as Signer
from standardwebhooks.webhooks import WebhookVerificationError

from control_plane import config
from control_plane.audit.models import AuditEntry
from control_plane.config import WebhooksConfig
from control_plane.couriers import leases
from control_plane.mail.models import Mail
from control_plane.webhooks import actions, outcomes, pauses, queries, sending
from control_plane.webhooks.line import WebhookLine
from control_plane.webhooks.models import OFF, ON, Webhook, WebhookAttempt
from penstock.contract.audit_entries import ChainCheck
from penstock.contract.limits import WEBHOOK_ATTEMPTS_KEPT, WEBHOOK_PAYLOAD_BYTES_MAX
from tenants.closing import actions as closing
from tests.control_plane.webhooks.hooked import due_now, happen, make, read, turn, types
from tests.control_plane.world import ACTOR, House
from tests.webhook_receiver import Got, Receiver, Reply, receiver

pytestmark = pytest.mark.django_db


def fresh(row: Webhook) -> Webhook:
    return Webhook.objects.select_related("tenant").get(pk=row.pk)


def test_entries_come_signed_in_the_order_of_the_chain_from_its_making_on(
    house: House, endpoint: Receiver
) -> None:
    happen(house.tenant, "topic.before")
    row, secret = make(house.tenant, endpoint)
    happen(house.tenant, "topic.create", "topic.delete")
    assert turn(row) == 3
    assert types(endpoint, secret) == ["audit.webhook.create", "audit.topic.create", "audit.topic.delete"]
    entries = [read(got, secret)["data"] for got in endpoint.got]
    first = entries[0]
    assert isinstance(first, dict)
    check = ChainCheck(house.tenant.public_id, first["sequence"] - 1, first["previous_hash"])
    assert [check.problem(entry) for entry in entries] == ["", "", ""]
    assert turn(row) == 0, "everything is there once"


def test_an_event_has_one_id_and_its_own_signature(house: House, endpoint: Receiver) -> None:
    row, secret = make(house.tenant, endpoint)
    turn(row)
    (got,) = endpoint.got
    assert got.headers["webhook-id"].startswith(f"audit_{house.tenant.public_id}_")
    assert got.headers["Content-Type"] == "application/json"
    for wrong in (Got(path="", headers=got.headers, body=got.body.replace(b"siem", b"else")),):
        with pytest.raises(WebhookVerificationError):
            read(wrong, secret)
    with pytest.raises(WebhookVerificationError):
        read(got, "whsec_" + "A" * 43 + "=")


def test_a_text_of_any_script_is_signed_as_it_is_sent(house: House, endpoint: Receiver) -> None:
    row, secret = make(house.tenant, endpoint, events=["audit.topic.*"])
    names = ["Größe 東京 🚰", 'quote " and \\ and \n', "\u202eright to left", "e\u0301"]
    for name in names:
        happen(house.tenant, "topic.create", name=name)
    turn(row)
    shown = [read(got, secret)["data"]["after"]["name"] for got in endpoint.got]  # type: ignore[index]
    assert shown == names


def test_only_what_the_patterns_name_is_sent_and_the_rest_is_passed_over(
    house: House, endpoint: Receiver
) -> None:
    row, secret = make(house.tenant, endpoint, events=["audit.topic.*", "audit.key.revoke"])
    happen(house.tenant, "topic.create", "key.create", "topics.create", "key.revoke", "acl.create")
    assert turn(row) == 2
    assert types(endpoint, secret) == ["audit.topic.create", "audit.key.revoke"]
    assert queries.waiting(fresh(row)) == 0


@pytest.mark.parametrize("status", [199 + 101, 400, 401, 404, 500, 503])
def test_what_is_not_taken_comes_again_first_and_nothing_overtakes_it(
    status: int, house: House, endpoint: Receiver
) -> None:
    row, secret = make(house.tenant, endpoint, events=["audit.topic.*"])
    happen(house.tenant, "topic.create", "topic.delete")
    endpoint.script = lambda got: Reply(status=status)
    assert turn(row) == 1
    failed = fresh(row)
    assert failed.failures == 1 and failed.due_at > timezone.now()
    assert turn(row) == 0, "it waits"
    endpoint.script = lambda got: Reply(status=204)
    due_now(row)
    assert turn(row) == 2
    assert types(endpoint, secret) == ["audit.topic.create", "audit.topic.create", "audit.topic.delete"]
    ids = [got.headers["webhook-id"] for got in endpoint.got]
    assert ids[0] == ids[1] != ids[2]
    assert fresh(row).failures == 0 and fresh(row).failing_since is None
    log = [(one.number, one.status, one.delivered) for one in WebhookAttempt.objects.order_by("pk")]
    assert log == [(1, status, False), (2, 204, True), (1, 204, True)]


def test_an_endpoint_is_given_up_after_days_with_notice_and_goes_on_where_it_stopped(
    house: House, endpoint: Receiver
) -> None:
    row, secret = make(house.tenant, endpoint, events=["audit.topic.*"])
    happen(house.tenant, "topic.create", "topic.delete")
    endpoint.script = lambda got: Reply(status=500)
    for _ in range(len(pauses.PAUSES)):
        assert turn(row) == 1
        assert fresh(row).state == ON
        due_now(row)
    assert turn(row) == 1
    off = fresh(row)
    assert (off.state, off.reason) == (OFF, "failing")
    due_now(row)
    assert turn(row) == 0
    entry = AuditEntry.objects.get(action="webhook.switch_off")
    assert (entry.actor_id, entry.after["reason"]) == ("webhooks", "failing")
    mails = Mail.objects.filter(kind="webhook-off").values_list("to", flat=True)
    assert set(mails) == {"owner@acme.example", "admin@acme.example"}
    text = Mail.objects.filter(kind="webhook-off").values_list("text", flat=True)[0]
    assert f"/t/acme/webhooks/{row.public_id}" in text
    endpoint.script, endpoint.got[:] = (lambda got: Reply()), []
    actions.resume(ACTOR, house.tenant, row.public_id)
    assert turn(row) == 2
    assert types(endpoint, secret) == ["audit.topic.create", "audit.topic.delete"]


def test_what_waits_can_be_left_out_when_it_is_resumed(house: House, endpoint: Receiver) -> None:
    row, secret = make(house.tenant, endpoint)
    happen(house.tenant, "topic.create")
    actions.change(ACTOR, house.tenant, row.public_id, state=OFF)
    assert turn(row) == 0
    actions.resume(ACTOR, house.tenant, row.public_id, skip_waiting=True)
    happen(house.tenant, "topic.delete")
    turn(row)
    assert types(endpoint, secret) == ["audit.webhook.resume", "audit.topic.delete"]


def test_410_switches_it_off_at_once(house: House, endpoint: Receiver) -> None:
    row, _ = make(house.tenant, endpoint)
    endpoint.script = lambda got: Reply(status=410)
    assert turn(row) == 1
    assert (fresh(row).state, fresh(row).reason) == (OFF, "gone")
    assert Mail.objects.filter(kind="webhook-off").exists()


@pytest.mark.parametrize("as_date", [False, True])
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_heeded(status: int, as_date: bool, house: House, endpoint: Receiver) -> None:
    row, _ = make(house.tenant, endpoint)
    asked = format_datetime(timezone.now() + timedelta(hours=1), usegmt=True) if as_date else "3600"
    endpoint.script = lambda got: Reply(status=status, headers={"Retry-After": asked})
    turn(row)
    pause = fresh(row).due_at - timezone.now()
    assert timedelta(minutes=58) < pause <= timedelta(hours=1)


@pytest.mark.parametrize("asked", ["-5", "soon", "1e9", "9" * 30, "Mon, 99 Foo 2026 00:00:00 GMT", ""])
def test_a_retry_after_of_nonsense_or_of_years_does_no_harm(
    asked: str, house: House, endpoint: Receiver
) -> None:
    row, _ = make(house.tenant, endpoint)
    endpoint.script = lambda got: Reply(status=429, headers={"Retry-After": asked})
    turn(row)
    assert fresh(row).due_at - timezone.now() <= pauses.RETRY_AFTER_MAX


def test_no_redirect_is_followed(house: House, endpoint: Receiver) -> None:
    row, _ = make(house.tenant, endpoint)
    endpoint.script = lambda got: Reply(status=307, headers={"Location": endpoint.url + "/elsewhere"})
    assert turn(row) == 1
    assert [got.path for got in endpoint.got] == ["/hook"]
    assert "redirects are not followed" in WebhookAttempt.objects.get().error


def test_an_endpoint_that_never_answers_costs_its_time_alone(house: House, endpoint: Receiver) -> None:
    row, _ = make(house.tenant, endpoint)
    endpoint.script = lambda got: None
    assert turn(row, within_s=0.3) == 1
    attempt = WebhookAttempt.objects.get()
    assert attempt.status is None and attempt.error == "no answer within 0.3 s"


def test_an_endless_answer_is_not_read_to_its_end(house: House, endpoint: Receiver) -> None:
    row, _ = make(house.tenant, endpoint)
    endpoint.script = lambda got: Reply(body=b"x" * 1_000_000)
    assert turn(row) == 1
    assert WebhookAttempt.objects.get().delivered
    happen(house.tenant, "topic.create")
    endpoint.script = lambda got: Reply(headers={"X": "y" * 200_000})
    assert turn(row) == 1
    assert not WebhookAttempt.objects.order_by("pk").last().delivered  # type: ignore[union-attr]


def test_a_certificate_of_another_authority_is_refused(
    house: House, endpoint: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver(trusted=False) as false:
        row, _ = make(house.tenant, false)
        assert turn(row) == 1
        assert false.got == []
        assert "its certificate is refused" in WebhookAttempt.objects.get().error
    del monkeypatch


def test_a_certificate_of_another_host_is_refused(
    house: House, endpoint: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    port = endpoint.port
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, 1, 6, "", ("127.0.0.1", port))]
    )
    row, _ = actions.create(
        ACTOR, house.tenant, name="x", url=f"https://other.example:{port}/", events=["audit.*"]
    )
    assert turn(row) == 1
    assert endpoint.got == []
    assert "its certificate is refused" in WebhookAttempt.objects.get().error


def test_a_name_that_leads_elsewhere_a_moment_later_leads_nowhere(
    house: House, endpoint: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first answer is allowed, each further one is inside."""
    import socket

    with receiver("127.0.0.2") as inside:
        asked: list[str] = []

        def rebinding(host: str, port: int, *_: object, **__: object) -> list[object]:
            asked.append(host)
            address = ("127.0.0.1", endpoint.port) if len(asked) == 1 else ("127.0.0.2", inside.port)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address)]

        monkeypatch.setattr(socket, "getaddrinfo", rebinding)
        url = f"https://hooks.example:{endpoint.port}/hook"
        row, secret = actions.create(ACTOR, house.tenant, name="x", url=url, events=["audit.*"])
        assert turn(row) == 1
        assert asked == ["hooks.example."]
        assert types(endpoint, secret) == ["audit.webhook.create"]
        # From now on it resolves to what is refused.
        happen(house.tenant, "topic.create")
        assert turn(row) == 1
        assert inside.got == [] and len(endpoint.got) == 1
        last = WebhookAttempt.objects.order_by("pk").last()
        assert last is not None and last.error == "no public address was found for hooks.example"


def test_a_network_that_is_closed_again_is_refused_at_the_next_attempt(
    house: House, endpoint: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, _ = make(house.tenant, endpoint)
    shut = msgspec.structs.replace(config.current(), webhooks=WebhooksConfig(ca_file=endpoint.ca_file))
    monkeypatch.setattr(config, "current", lambda: shut)
    assert turn(row) == 1
    assert endpoint.got == []
    assert WebhookAttempt.objects.get().error == "no public address was found for 127.0.0.1"


def test_each_attempt_is_signed_at_its_own_time_whatever_the_clock_of_the_service_says(
    house: House, endpoint: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Receivers refuse what is older than five minutes, and the service's clock may be moved to try a month's end."""
    row, secret = make(house.tenant, endpoint)
    endpoint.script = lambda got: Reply(status=500)
    turn(row)
    real = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + timedelta(days=3))
    endpoint.script = lambda got: Reply()
    assert turn(row) == 1
    assert types(endpoint, secret) == ["audit.webhook.create"] * 2
    old = dict(endpoint.got[1].headers)
    old["webhook-timestamp"] = str(int(old["webhook-timestamp"]) - 301)
    at = real() - timedelta(seconds=301)
    old["webhook-signature"] = Signer(secret).sign(old["webhook-id"], at, endpoint.got[1].body.decode())
    with pytest.raises(WebhookVerificationError, match="too old"):
        read(Got(path="", headers=old, body=endpoint.got[1].body), secret)


def test_both_secrets_sign_while_they_overlap_and_then_the_new_one_alone(
    house: House, endpoint: Receiver
) -> None:
    row, old = make(house.tenant, endpoint)
    _, new = actions.rotate(ACTOR, house.tenant, row.public_id, overlap=timedelta(hours=1))
    turn(row)
    for got in endpoint.got:
        assert read(got, old) == read(got, new)
    Webhook.objects.update(previous_until=timezone.now())
    endpoint.got.clear()
    happen(house.tenant, "topic.create")
    turn(row)
    assert read(endpoint.got[0], new)
    with pytest.raises(WebhookVerificationError):
        read(endpoint.got[0], old)


def test_a_rotation_without_overlap_ends_the_old_secret_at_once(house: House, endpoint: Receiver) -> None:
    row, old = make(house.tenant, endpoint)
    _, new = actions.rotate(ACTOR, house.tenant, row.public_id, overlap=timedelta(0))
    turn(row)
    assert read(endpoint.got[0], new)
    with pytest.raises(WebhookVerificationError):
        read(endpoint.got[0], old)


def test_a_secret_rests_encrypted_and_one_that_cannot_be_read_is_a_failure_with_a_way_out(
    house: House, endpoint: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, secret = make(house.tenant, endpoint)
    for entry in AuditEntry.objects.all():
        assert secret not in repr(entry.after)
    assert secret not in fresh(row).secret and secret[6:] not in fresh(row).secret
    other = msgspec.structs.replace(config.current(), secret_key="another one" * 5)
    monkeypatch.setattr(config, "current", lambda: other)
    assert turn(row) == 1
    assert endpoint.got == [] and "rotate it" in WebhookAttempt.objects.get().error
    _, new = actions.rotate(ACTOR, house.tenant, row.public_id, overlap=timedelta(0))
    due_now(row)
    turn(row)
    assert read(endpoint.got[0], new)


def test_two_webhooks_have_places_of_their_own(house: House, endpoint: Receiver) -> None:
    one, of_one = make(house.tenant, endpoint, name="one", events=["audit.topic.*"])
    with receiver() as other_endpoint:
        other_endpoint.script = lambda got: Reply(status=500)
        two, _ = make(house.tenant, other_endpoint, name="two", events=["audit.topic.*"])
        happen(house.tenant, "topic.create")
        assert (turn(one), turn(two)) == (1, 1)
        happen(house.tenant, "topic.delete")
        assert (turn(one), turn(two)) == (1, 0)
        assert types(endpoint, of_one) == ["audit.topic.create", "audit.topic.delete"]
        assert fresh(two).failures == 1 and fresh(one).failures == 0


def test_a_closed_or_suspended_tenant_gets_nothing_and_all_of_it_later(
    house: House, endpoint: Receiver
) -> None:
    row, secret = make(house.tenant, endpoint)
    closing.close(ACTOR, house.tenant)
    assert turn(row) == 0 and endpoint.got == []
    closing.reopen(ACTOR, house.tenant)
    turn(row)
    assert types(endpoint, secret) == ["audit.webhook.create", "audit.tenant.close", "audit.tenant.reopen"]
    house.tenant.refresh_from_db()
    house.tenant.suspended = True
    house.tenant.save()
    happen(house.tenant, "topic.create")
    assert turn(row) == 0


def test_an_event_of_another_tenant_never_comes(house: House, endpoint: Receiver) -> None:
    from tests.control_plane.world import make_tenant

    row, secret = make(house.tenant, endpoint)
    happen(make_tenant("other"), "topic.create")
    turn(row)
    assert types(endpoint, secret) == ["audit.webhook.create"]


def test_a_test_event_is_sent_once_also_to_one_that_is_off(house: House, endpoint: Receiver) -> None:
    row, secret = make(house.tenant, endpoint, events=["audit.topic.*"])
    actions.change(ACTOR, house.tenant, row.public_id, state=OFF)
    _, event_id = actions.ping(ACTOR, house.tenant, row.public_id)
    assert actions.ping(ACTOR, house.tenant, row.public_id)[1] == event_id, "one waits already"
    endpoint.script = lambda got: Reply(status=500)
    assert turn(row) == 1
    assert turn(row) == 0
    assert types(endpoint, secret) == ["webhook.ping"]
    assert endpoint.got[0].headers["webhook-id"] == event_id
    assert fresh(row).failures == 0, "a test counts for nothing"
    assert actions.ping(ACTOR, house.tenant, row.public_id)[1] != event_id


def test_what_is_too_large_comes_without_its_large_parts(house: House, endpoint: Receiver) -> None:
    row, secret = make(house.tenant, endpoint, events=["audit.topic.*"])
    happen(house.tenant, "topic.create", name="x" * WEBHOOK_PAYLOAD_BYTES_MAX)
    turn(row)
    data = read(endpoint.got[0], secret)["data"]
    assert isinstance(data, dict)
    assert data["truncated"] is True and "after" not in data and data["hash"]
    assert len(endpoint.got[0].body) < WEBHOOK_PAYLOAD_BYTES_MAX


def test_another_address_is_tried_at_once_and_makes_an_attempt_under_way_outdated(
    house: House, endpoint: Receiver
) -> None:
    row, secret = make(house.tenant, endpoint)
    endpoint.script = lambda got: Reply(status=500)
    turn(row)
    with receiver() as mended:

        def moved(got: Got) -> Reply:
            return Reply(status=500)

        endpoint.script = moved
        actions.change(ACTOR, house.tenant, row.public_id, url=mended.url)
        assert turn(row) == 2
        assert types(mended, secret) == ["audit.webhook.create", "audit.webhook.change"]


def test_what_a_courier_notes_after_a_change_is_not_written(house: House, endpoint: Receiver) -> None:
    row, _ = make(house.tenant, endpoint)
    claimed = leases.claim(fresh(row))
    assert claimed is not None
    assert leases.claim(row) is None, "a courier has it"
    actions.resume(ACTOR, house.tenant, row.public_id)
    outcome = outcomes.Outcome(at=timezone.now(), duration_ms=1, status=200)
    event_position = claimed.positions.get().position
    from control_plane.webhooks.sources import SOURCES

    event = SOURCES["audit"].after(house.tenant.public_id, event_position, 1)[0]
    assert outcomes.note(claimed, "audit", event, outcome) is False
    assert fresh(row).positions.get().position == event_position
    assert not WebhookAttempt.objects.exists()


def test_the_last_attempts_are_kept(house: House, endpoint: Receiver) -> None:
    row, _ = make(house.tenant, endpoint)
    WebhookAttempt.objects.bulk_create(
        WebhookAttempt(
            webhook=row,
            event_id=str(n),
            event_type="x",
            number=1,
            at=timezone.now(),
            duration_ms=1,
            delivered=True,
        )
        for n in range(WEBHOOK_ATTEMPTS_KEPT)
    )
    turn(row)
    assert WebhookAttempt.objects.count() == WEBHOOK_ATTEMPTS_KEPT
    assert not WebhookAttempt.objects.filter(event_id="0").exists()


def test_the_body_is_json_in_ascii(house: House, endpoint: Receiver) -> None:
    row, _ = make(house.tenant, endpoint)
    happen(house.tenant, "topic.create", name="\u6771")
    turn(row)
    for got in endpoint.got:
        assert got.body.isascii() and json.loads(got.body)["timestamp"].endswith("+00:00")


def meanwhile(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """The change is made once, when the next attempt is answered and not noted yet."""
    real = sending.post

    def post(*given: Any, **options: Any) -> sending.Answer:
        monkeypatch.setattr(sending, "post", real)
        answer = real(*given, **options)
        change()
        return answer

    monkeypatch.setattr(sending, "post", post)


def test_other_events_make_an_attempt_under_way_outdated_and_none_that_they_want_is_passed_over(
    house: House, endpoint: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, secret = make(house.tenant, endpoint, events=["audit.topic.*"])
    happen(house.tenant, "topic.create", "key.create")
    both = ["audit.key.*", "audit.topic.*"]
    meanwhile(monkeypatch, lambda: actions.change(ACTOR, house.tenant, row.public_id, events=both))
    assert turn(row) == 1
    number = fresh(row).lease_number
    actions.change(ACTOR, house.tenant, row.public_id, events=both[::-1], name="other")
    assert fresh(row).lease_number == number, "the same events"
    assert turn(row) == 2
    assert types(endpoint, secret) == ["audit.topic.create", "audit.topic.create", "audit.key.create"]


def test_other_events_are_tried_at_once(house: House, endpoint: Receiver) -> None:
    row, _ = make(house.tenant, endpoint)
    endpoint.script = lambda got: Reply(status=500)
    turn(row)
    actions.change(ACTOR, house.tenant, row.public_id, events=["audit.webhook.*"])
    assert fresh(row).failures == 0
    assert turn(row) == 1


def test_a_secret_that_was_rotated_away_signs_no_further_event_of_a_turn_under_way(
    house: House, endpoint: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, _ = make(house.tenant, endpoint, events=["audit.topic.*"])
    happen(house.tenant, "topic.create", "topic.delete")
    new: list[str] = []

    def rotate() -> None:
        new.append(actions.rotate(ACTOR, house.tenant, row.public_id, overlap=timedelta(0))[1])

    meanwhile(monkeypatch, rotate)
    assert turn(row) == 1
    assert turn(row) == 2
    assert [read(got, new[0])["type"] for got in endpoint.got[1:]] == [
        "audit.topic.create",
        "audit.topic.delete",
    ]


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"Content-Length": "1000"}, b"x"),
        ({"Transfer-Encoding": "chunked"}, b"zz\r\nno chunk"),
        ({"Transfer-Encoding": "chunked"}, b"10\r\nx"),
    ],
    ids=["truncated", "malformed", "truncated chunk"],
)
def test_a_status_counts_whatever_becomes_of_the_body(
    headers: dict[str, str], body: bytes, house: House, endpoint: Receiver
) -> None:
    row, _ = make(house.tenant, endpoint)
    endpoint.script = lambda got: Reply(headers=headers, body=body)
    assert turn(row) == 1
    assert WebhookAttempt.objects.get().delivered
    happen(house.tenant, "topic.create")
    endpoint.script = lambda got: Reply(status=410, headers=headers, body=body)
    assert turn(row) == 1
    assert (fresh(row).state, fresh(row).reason) == (OFF, "gone")


def test_attempts_are_counted_by_outcome_and_what_waits_by_tenant(house: House, endpoint: Receiver) -> None:
    row, _ = make(house.tenant, endpoint)
    counted: list[str] = []

    def attempt() -> None:
        due_now(row)
        line = WebhookLine(
            allowed=config.current().webhook_networks,
            ca_file=endpoint.ca_file,
            within_s=10.0,
            count=counted.append,
        )
        claimed = leases.claim(fresh(row))
        assert claimed is not None
        line.turn(claimed, lambda: False)

    endpoint.script = lambda got: Reply(status=503)
    attempt()
    assert (counted, queries.lags()) == (["refused"], {house.tenant.public_id: 1})
    endpoint.script = lambda got: Reply(status=200)
    attempt()
    assert (counted, queries.lags()) == (["refused", "delivered"], {})
    actions.change(ACTOR, house.tenant, row.public_id, state="off")
    assert queries.switched_off() == {"asked": 1, "failing": 0, "gone": 0}
    assert queries.lags() == {}, "one that is off is not behind"
