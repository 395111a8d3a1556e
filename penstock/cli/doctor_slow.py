"""`penstock doctor --slow`: where time goes now, and who was slowed down by what in this hour and the one before."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING, Any

from penstock.cli.broker_calls import connected, write_refusal
from penstock.cli.display import counted
from penstock.cli.doctor_brokers import SLOW_MS_MIN, Answered, pace
from penstock.cli.doctor_checks import Finding, doubtful, skipped, well, wrong
from penstock.cli.hot_partitions import hot_because
from penstock.client.settings import ConnectionSettings
from penstock.contract.errors import CorruptBatch, PenstockError
from penstock.contract.limits import PAGE_ITEMS_MAX
from penstock.rest.client import RestClient
from penstock.rules.meters import THROTTLED

if TYPE_CHECKING:
    from penstock import Client, TopicDescription

CALLS = 5
"""A broker is asked so often, and the median counts: one call may have met anything."""
QUEUE_MS_MAX = 50.0
"""A leader that takes longer to look at a batch has a queue."""
REST_MS_MAX = 1_000.0
_NAMED_MAX = 5
_GROUPS_MAX = 50


def slow(
    connection: ConnectionSettings,
    client: Client,
    answered: Sequence[Answered],
    topics: Sequence[TopicDescription],
    timeout_s: float,
) -> Iterator[Finding]:
    """Stage by stage: the way to the brokers, the queues of their leaders, the copies, groups, limits, hot partitions,
    the control plane.
    """
    yield from pace(answered)
    yield from _queues(connection, answered, topics, timeout_s)
    yield from _copies(topics)
    yield from _groups(client, timeout_s)
    if connection.api_url is None:
        yield skipped("limits met", "api_url is not set, and the control plane knows who was delayed")
        return
    with RestClient(connection.api_url, connection.api_key, connection.ca_file, timeout_s=timeout_s) as rest:
        yield from _delayed(rest)
        yield from _hot(rest)
        yield from _control_plane(rest)


def _queues(
    connection: ConnectionSettings,
    answered: Sequence[Answered],
    topics: Sequence[TopicDescription],
    timeout_s: float,
) -> Iterator[Finding]:
    """How long each leader takes to look at a batch. What it is sent is none, so nothing is stored."""
    check = "queues"
    led = {
        partition.leader: (topic.topic_id, partition.partition, topic.name)
        for topic in topics
        for partition in topic.partitions
    }
    times_ms: dict[int, float] = {}
    for answer in answered:
        if answer.error is not None or answer.broker not in led:
            continue
        topic_id, partition, name = led[answer.broker]
        measured: list[float] = []
        try:
            with connected(connection, answer.address, timeout_s) as channel:
                for _ in range(CALLS):
                    began = time.monotonic()
                    refusal = write_refusal(
                        connection, answer.address, channel, topic_id, partition, timeout_s
                    )
                    measured.append((time.monotonic() - began) * 1000)
                    if not isinstance(refusal, CorruptBatch):
                        raise refusal
        except PenstockError as error:
            yield skipped(check, f"broker {answer.broker} takes no batch of {name}-{partition}: {error}")
            continue
        times_ms[answer.broker] = median(measured)
    for broker, typical_ms in times_ms.items():
        if typical_ms > QUEUE_MS_MAX:
            yield doubtful(
                check,
                f"broker {broker} takes {typical_ms:.0f} ms to look at a batch: others wait there, or a limit holds it",
                "Spread the load: more partitions, keys that are more different, or other leaders (penstock cluster"
                " leaders). `limits met` says whether it is a limit.",
            )
    if times_ms and max(times_ms.values()) <= QUEUE_MS_MAX:
        listed = ", ".join(f"{broker} in {typical_ms:.0f} ms" for broker, typical_ms in times_ms.items())
        yield well(check, f"a batch is looked at by broker {listed}")


def _copies(topics: Sequence[TopicDescription]) -> Iterator[Finding]:
    """Followers that are behind, by broker. `acks=all` waits for those in sync alone, so a missing copy is no delay; a
    follower that comes and goes is one.
    """
    behind: dict[int, list[str]] = {}
    for topic in topics:
        for partition in topic.partitions:
            for broker in set(partition.replicas) - set(partition.in_sync):
                behind.setdefault(broker, []).append(f"{topic.name}-{partition.partition}")
    for broker, partitions in sorted(behind.items()):
        named = ", ".join(partitions[:_NAMED_MAX]) + (", ..." if len(partitions) > _NAMED_MAX else "")
        yield doubtful(
            "followers",
            f"broker {broker} is behind with {counted(len(partitions), 'partition')}: {named}",
            "It is down, catching up, or slow: a broker that comes and goes delays every write with acks=all.",
        )
    if not behind:
        yield well("followers", "all copies are in sync")


def _groups(client: Client, timeout_s: float) -> Iterator[Finding]:
    """Groups without a member: what they have not read waits."""
    check = "groups"
    try:
        groups = client.groups(timeout=timeout_s)
        left = [
            described.group
            for described in (client.group(group.group, timeout=timeout_s) for group in groups[:_GROUPS_MAX])
            if described.offsets and not described.members
        ]
    except PenstockError as error:
        yield skipped(check, str(error))
        return
    looked_at = counted(min(len(groups), _GROUPS_MAX), "group")
    if left:
        yield doubtful(
            check,
            f"{len(left)} of {looked_at} have no member, so their messages wait: {', '.join(left[:_NAMED_MAX])}",
            f"Start their consumers; penstock group describe {left[0]} shows the lag.",
        )
    else:
        yield well(check, f"{looked_at}, each with a member")


def _delayed(rest: RestClient) -> Iterator[Finding]:
    """Time that brokers delayed calls and batches of this tenant because of a limit, by principal and topic."""
    check = "limits met"
    now = datetime.now(UTC)
    query: dict[str, object] = {
        "by": "hour,principal,topic",
        "from": (now - timedelta(hours=1)).replace(minute=0, second=0, microsecond=0).isoformat(),
        "to": (now + timedelta(hours=1)).replace(minute=0, second=0, microsecond=0).isoformat(),
        "limit": PAGE_ITEMS_MAX,
    }
    try:
        rows = list(rest.items("/v1/usage", query))
        limits = rest.get("/v1/quotas/preview")["limits"]
    except PenstockError as error:
        yield skipped(check, str(error))
        return
    delayed = Counter[tuple[str, str]]()
    for row in rows:
        milliseconds = int(row["meters"].get(THROTTLED, {}).get("quantity", 0))
        if milliseconds:
            who = str(row.get("principal_name") or row.get("principal") or "no key")
            delayed[who, str(row.get("topic") or "")] += milliseconds
    near = _near(limits)
    if not delayed:
        yield well(check, f"none delayed anything since {query['from']}{near}")
        return
    listed = "; ".join(
        f"{who}{f' at {topic}' if topic else ''} {milliseconds / 1000:.1f} s"
        for (who, topic), milliseconds in delayed.most_common(_NAMED_MAX)
    )
    yield doubtful(
        check,
        f"delayed since {query['from']}: {listed}{near}",
        "Ask for a higher limit or another plan, or send larger batches: requests count as well as bytes.",
    )


def _near(limits: Sequence[Mapping[str, Any]]) -> str:
    """Limits of which half or more is used."""
    near = [
        f"{limit['limit']} {limit['used']} of {limit['present']}"
        for limit in limits
        if limit["present"] and limit["used"] is not None and 2 * limit["used"] >= limit["present"]
    ]
    return f"; used by half or more: {', '.join(near)}" if near else ""


def _hot(rest: RestClient) -> Iterator[Finding]:
    """Partitions that take far more than others."""
    check = "hot partitions"
    try:
        hot = list(rest.items("/v1/hot-partitions"))
    except PenstockError as error:
        yield skipped(check, str(error))
        return
    for partition in hot[:_NAMED_MAX]:
        key = int(partition.get("hot_key_percent") or 0)
        yield doubtful(
            check,
            f"{partition['topic']}-{partition['partition']}: {hot_because(partition)}"
            + (f"; one key has {key} % of its messages" if key else ""),
            f"Send with more different keys, or none; penstock topic hot-keys {partition['topic']} names the keys.",
        )
    if not hot:
        yield well(check, "none")


def _control_plane(rest: RestClient) -> Iterator[Finding]:
    """How long the control plane takes: changes and pages, never messages."""
    check = "control plane's time"
    times_ms = []
    try:
        for _ in range(CALLS):
            began = time.monotonic()
            rest.get("/v1/tenants")
            times_ms.append((time.monotonic() - began) * 1000)
    except PenstockError as error:
        yield wrong(check, error)
        return
    typical_ms = median(times_ms)
    if typical_ms > REST_MS_MAX:
        fact = f"{typical_ms:.0f} ms for one list"
        yield doubtful(check, fact, "Messages do not pass it. Look at its database and its /metrics.")
    else:
        shown = f"{typical_ms:.0f} ms" if typical_ms > SLOW_MS_MIN else f"less than {SLOW_MS_MIN:.0f} ms"
        yield well(check, f"{shown} for one list")
