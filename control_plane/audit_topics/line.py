"""The line of topics with audit logs: pages of the chain, in order, each as one batch that the topic has or has not."""

import json
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from django.db import transaction

from control_plane.audit import queries as audit
from control_plane.audit_topics import actions, queries
from control_plane.audit_topics.models import ON, AuditTopic
from control_plane.audit_topics.sending import Message, NotSent
from control_plane.brokers.as_tenant import connection_with
from control_plane.couriers import leases
from control_plane.outbox.conditions import DELIVERY
from control_plane.topics.models import Topic
from control_plane.topics.plan_refusals import AUDIT_MESSAGE_BYTES_MIN
from penstock.client.settings import ConnectionSettings
from penstock.contract.errors import PenstockError
from penstock.rules.names import AUDIT_TOPIC

TURN_S = 5.0
"""Then others have their turn."""
PAGE_ENTRIES = 200
PAGE_BYTES = 512 * 1024
"""Of bodies: a page fits into one batch."""
HEADERS_BYTES = 4 * 1024
"""Of a message, beside its body: what the topic's limit must leave."""
LARGE = ("before", "after")
"""Members that are left out of an entry that is too large for the topic, as webhooks do."""
_log = logging.getLogger(__name__)


class Sends(Protocol):
    """Who brings messages into a topic."""

    def send(self, to: ConnectionSettings, topic: str, messages: Sequence[Message]) -> None:
        """Returns when every in-sync replica has all of them. Raises `NotSent`."""
        ...


class AuditTopicLine:
    """As `couriers.Line` says."""

    name = "audit topics"

    def __init__(self, sender: Sends) -> None:
        self._sender = sender

    def begin(self) -> None:
        """Nothing is made ready."""

    def due(self, now: datetime, *, most: int, without: Collection[int]) -> list[AuditTopic]:
        return queries.due(now, most=most, without=without)

    def turn(self, row: AuditTopic, stopping: Callable[[], bool]) -> None:
        ends = time.monotonic() + TURN_S
        try:
            while row.state == ON and time.monotonic() < ends and not stopping():
                if not self._page(row):
                    return
        except (NotSent, PenstockError) as error:
            text = error.message if isinstance(error, PenstockError) else str(error)
            _log.info("an audit log waits", extra={"tenant": row.called, "error": text})
            actions.note_failed(row, text)
        finally:
            leases.give_back(row)

    def _page(self, row: AuditTopic) -> bool:
        """Bring the next entries. False: there are none, or the row is another courier's. Raises `NotSent`."""
        topic = queries.topic_of(row.tenant)
        if topic is None:
            raise NotSent(f"the topic {AUDIT_TOPIC} does not exist; switch it off and on")
        if topic.settings["max_message_bytes"] < AUDIT_MESSAGE_BYTES_MIN:
            with transaction.atomic():
                actions.widen(row.tenant)
            raise NotSent(f"the topic {AUDIT_TOPIC} was made for smaller messages, and is being changed")
        entries = list(audit.chain_after(row.tenant.public_id, row.position, PAGE_ENTRIES))
        page = list(_page_of(entries, topic.settings["max_message_bytes"] - HEADERS_BYTES))
        if not page:
            return False
        to = connection_with(actions.own_key(row))
        try:
            self._sender.send(to, AUDIT_TOPIC, page)
        except NotSent as error:
            raise NotSent(_why(topic) or str(error)) from None
        position = entries[len(page) - 1]["sequence"]
        if not actions.note_delivered(row, position):
            _log.info("an audit topic was changed meanwhile", extra={"tenant": row.called})
            return False
        row.position, row.failures = position, 0
        return True


def message_of(entry: Mapping[str, Any], most: int) -> Message:
    """The entry as its topic has it: the same line as in an export. Of one that is too large, `LARGE` are left out."""
    text = _written(entry)
    if len(text) > most:
        short = {name: value for name, value in entry.items() if name not in LARGE}
        text = _written({**short, "truncated": True})
    return Message(
        key=str(entry["sequence"]),
        value=text,
        headers={"sequence": str(entry["sequence"]), "hash": str(entry["hash"])},
    )


def _page_of(entries: Sequence[Mapping[str, Any]], most: int) -> Iterator[Message]:
    """As many of them as make a page; at least one."""
    size = 0
    for entry in entries:
        message = message_of(entry, most)
        size += len(message.value)
        if size > PAGE_BYTES and size > len(message.value):
            return
        yield message


def _written(entry: Mapping[str, Any]) -> str:
    return json.dumps(entry, separators=(",", ":"))


def _why(topic: Topic) -> str:
    """Why the brokers do not have the topic yet; empty: they have, or it is not known."""
    if topic.on_brokers:
        return ""
    said = [one["message"] for one in topic.conditions if one["type"] == DELIVERY]
    return f"the brokers do not have the topic yet: {said[0]}" if said else ""
