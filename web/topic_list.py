"""The list of topics: searched, filtered and sorted, with what the brokers say of each topic now."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from control_plane.topics import queries
from control_plane.topics.models import Topic
from penstock import Client
from penstock.contract.errors import PenstockError
from web import live
from web.broker_access import brokers
from web.groups_now import GROUPS_MAX, groups_now
from web.paging import page_of, searched
from web.tenant_access import TenantAccess

PER_PAGE = 50
SEARCH_MAX = 249
STATES = {"": "Any state", "trouble": "Needs attention", "ok": "Ready", "unknown": "Not known now"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """A topic's state at the brokers."""

    messages: int
    per_s: float | None
    lag: int | None
    """None where not all groups could be asked."""
    leaderless: int
    behind: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A topic as it should be, and as it is; `now` None: that is not known."""

    topic: Topic
    now: Now | None
    is_asked: bool = True
    """False where the brokers said nothing of any topic: then its state is what the service knows."""

    @property
    def needs_attention(self) -> bool:
        """True if the brokers do not have it as it should be, or lack leaders or copies of it."""
        topic = self.topic
        waits = bool(topic.conditions) or topic.delivered_generation < topic.generation
        return waits or (self.now is not None and (self.now.leaderless > 0 or self.now.behind > 0))

    @property
    def state(self) -> str:
        """Its key in STATES. A topic of which the brokers say nothing is neither ready nor in trouble."""
        return (
            "trouble" if self.needs_attention else "unknown" if self.now is None and self.is_asked else "ok"
        )


def _known(row: Row, value: Callable[[Now], float | None]) -> float:
    """For sorting: topics of which nothing is known come before all others."""
    number = None if row.now is None else value(row.now)
    return -1 if number is None else number


SORTS: dict[str, tuple[str, Callable[[Row], Any]]] = {
    "name": ("Name", lambda row: row.topic.name),
    "partitions": ("Partitions", lambda row: row.topic.partitions),
    "keeps": ("Keeps", lambda row: row.topic.settings["retention_ms"] % (1 << 63)),
    "messages": ("Messages", lambda row: _known(row, lambda now: now.messages)),
    "rate": ("In, /s", lambda row: _known(row, lambda now: now.per_s)),
    "lag": ("Lag", lambda row: _known(row, lambda now: now.lag)),
    "made": ("Made", lambda row: row.topic.created_at),
}
"""A column's heading and the value by which it sorts. `-1` as retention, without an end, is the longest."""


def shown(request: HttpRequest, access: TenantAccess, now: dict[str, Now]) -> dict[str, Any]:
    """The list for its template, as the query asks for it; `now` by the topics' ids."""
    text = searched(request, length_max=SEARCH_MAX)
    state = request.GET.get("state", "")
    state = state if state in STATES else ""
    sort = request.GET.get("sort", "name")
    by, is_falling = sort.removeprefix("-"), sort.startswith("-")
    by = by if by in SORTS else "name"
    topics = queries.topics(access.tenant).order_by("name")
    if text:
        topics = topics.filter(name__icontains=text)
    rows = [Row(topic=topic, now=now.get(topic.topic_id), is_asked=bool(now)) for topic in topics]
    unknown = sum(row.state == "unknown" for row in rows)
    if state:
        rows = [row for row in rows if row.state == state]
    rows.sort(key=SORTS[by][1], reverse=is_falling)
    return {
        "page": page_of(request, rows, PER_PAGE),
        "q": text,
        "state": state,
        "unknown": unknown if state in ("trouble", "ok") else 0,
        "is_unasked": bool(state) and not now,
        "states": [*STATES.items()],
        "columns": {name: _column(request, name, by, is_falling) for name in SORTS},
        "copies_possible": queries.copies_possible(),
    }


def _column(request: HttpRequest, name: str, by: str, is_falling: bool) -> dict[str, str]:
    """A heading, the address that sorts by it (again: the other way), and the direction it sorts in now."""
    query = request.GET.copy()
    query.pop("page", None)
    query["sort"] = f"-{name}" if name == by and not is_falling else name
    direction = ("descending" if is_falling else "ascending") if name == by else ""
    return {"label": SORTS[name][0], "address": f"?{query.urlencode()}", "direction": direction}


def now_of(access: TenantAccess) -> dict[str, Now]:
    """Each topic's state at the brokers, by its id; nothing while they do not answer, or are asked for too much."""
    try:
        with brokers(access) as client:
            described = client.topics(live.TIMEOUT_S)
            if sum(len(topic.partitions) for topic in described) > live.PARTITIONS_MAX:
                return {}
            topics = live.topics_now(client, described)
            lags = _lags(client, topics)
    except PenstockError:
        return {}
    return {
        topic.topic_id: Now(
            messages=topic.stored,
            per_s=live.watch.sample(f"topic {topic.topic_id}", topic.written).now,
            lag=None if lags is None else lags.get(topic.name, 0),
            leaderless=topic.leaderless,
            behind=topic.under_replicated,
        )
        for topic in topics
    }


def _lags(client: Client, topics: Sequence[live.TopicNow]) -> dict[str, int] | None:
    """The lag of all groups in each topic, by its name; None where there are too many groups to ask."""
    lags: dict[str, int] = {}
    names = [group.group for group in client.groups(live.TIMEOUT_S)]
    if len(names) > GROUPS_MAX:
        return None
    for group in groups_now(client, {topic.name: topic for topic in topics}, names):
        for part in group.partitions:
            lags[part.topic] = lags.get(part.topic, 0) + part.lag
    return lags
