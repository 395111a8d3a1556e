"""The brokers as the control plane meets them: one Admin client a process, its answers as plain values."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from django.db import DatabaseError

from control_plane import config
from control_plane.brokers import answers, queries, view
from daemon.identity import Role
from daemon.tls import OwnIdentity
from data_plane.contract.admin_client import CHANGE_S, AdminClient
from data_plane.contract.broker_calls import CALL_S
from penstock.contract.errors import PenstockError

_PROBE_S = 1.0
BUDGET_TENANTS_MAX = 500
"""Tenants in one call about budgets, as brokers take them."""
"""For calls that a person waits for and can repeat."""

_LATELY_S = 2.0
"""Brokers come and go within seconds, and each new topic counts for the choice of the next."""

LOADS_NAMED = 1_000
"""Partitions that a broker names of those it leads; of the others its sums say what is left."""
_LOADS_LEVEL = 2
"""From this feature level on every broker knows the call."""

_clients: dict[int, AdminClient] = {}


def client() -> AdminClient:
    """This process's client. A forked process makes its own: channels do not survive a fork."""
    pid = os.getpid()
    if pid not in _clients:
        _clients.clear()
        settings = config.current()
        identity = OwnIdentity(settings.identity, Role.CONTROL_PLANE)
        _clients[pid] = AdminClient(settings.brokers.internal, identity, _remembered)
    return _clients[pid]


def calls() -> dict[str, int]:
    """How often this process has called the brokers, by the name of the call."""
    made = _clients.get(os.getpid())
    return {} if made is None else dict(made.sent)


def describe(
    *, partitions: bool = False, objects: bool = False, timeout_s: float = CHANGE_S
) -> view.ClusterView:
    """The cluster as the first broker sees it that answers. Raises `BrokerUnavailable`."""
    return answers.cluster_view(
        client().describe_cluster(partitions=partitions, objects=objects, timeout_s=timeout_s)
    )


def brokers_lately() -> list[view.BrokerSeen]:
    """The brokers as they were described to this process a moment ago, when they were; no call. One may have left."""
    return [answers.broker_seen(broker) for broker in client().brokers_lately(_LATELY_S)]


def describe_topic(
    *, topic_id: str = "", tenant: str = "", name: str = "", timeout_s: float = CHANGE_S
) -> view.TopicSeen:
    """By its id, or by tenant and name. Raises `NotFound`, `BrokerUnavailable`."""
    return answers.topic_seen(
        client().describe_topic(
            topic_id=bytes.fromhex(topic_id), tenant=tenant, name=name, timeout_s=timeout_s
        )
    )


def describe_moves(timeout_s: float = CALL_S) -> list[view.MoveSeen]:
    """Partitions on their way to other brokers, with what is left of each. Raises `BrokerUnavailable`."""
    return [answers.move_seen(move) for move in client().describe_moves(timeout_s)]


def key_use(within_s: float, pepper_version: int = 0) -> view.KeyUseSeen:
    """What brokers know of the use of keys within that time, and of their peppers. Raises `BrokerUnavailable`."""
    ages: dict[str, float] = {}
    hashes: dict[str, str] = {}
    after = ""
    first = None
    silent: set[int] = set()
    level = describe(timeout_s=CALL_S).feature_level
    while True:
        page = client().key_use(within_ms=int(within_s * 1000), after=after, pepper_version=pepper_version)
        first = first or page
        silent |= set(page.silent)
        ages |= {one.key_id: one.age_ms / 1000 for one in page.keys}
        hashes |= {one.key_id: one.secret_hmac.hex() for one in page.keys if one.secret_hmac}
        if not page.more or not page.keys:
            return view.KeyUseSeen(
                ages_s=ages,
                hashes=hashes,
                peppers={one.version: one.fingerprint for one in first.peppers},
                peppers_used=frozenset(first.peppers_used),
                feature_level=level,
                silent=tuple(sorted(silent)),
                near_storage=answers.near_storage_seen(first),
            )
        after = page.keys[-1].key_id


def describe_loads(seen: view.ClusterView, timeout_s: float = _PROBE_S) -> list[view.BrokerLoadSeen]:
    """The load of each active broker that says it, at once. Brokers that are silent, or of a release that does not
    know the call, are left out."""
    if seen.feature_level < _LOADS_LEVEL:
        return []

    def ask(address: str) -> view.BrokerLoadSeen | None:
        try:
            return answers.load_seen(client().describe_load(address, LOADS_NAMED, timeout_s))
        except PenstockError:
            return None

    addresses = [broker.internal_address for broker in seen.brokers if broker.state == "active"]
    with ThreadPoolExecutor(max(1, min(len(addresses), 16)), thread_name_prefix="loads") as threads:
        return [load for load in threads.map(ask, addresses) if load is not None]


def hot_keys(topic_id: str, timeout_s: float = _PROBE_S) -> tuple[list[view.HotKeysSeen], list[int]]:
    """Frequent keys of a topic's partitions, as their leaders know them, and the brokers that do not say it: they are
    silent, or of a release that does not know the call. Raises `BrokerUnavailable` when none describes the cluster."""

    def ask(broker: view.BrokerSeen) -> list[view.HotKeysSeen] | None:
        try:
            found = client().hot_keys(broker.internal_address, bytes.fromhex(topic_id), timeout_s)
        except PenstockError:
            return None
        return [answers.hot_keys_seen(part) for part in found]

    active = [broker for broker in describe(timeout_s=timeout_s).brokers if broker.state == "active"]
    with ThreadPoolExecutor(max(1, min(len(active), 16)), thread_name_prefix="hot-keys") as threads:
        answered = list(zip(active, threads.map(ask, active), strict=True))
    found = [part for _, parts in answered for part in parts or ()]
    return found, sorted(broker.id for broker, parts in answered if parts is None)


def tenant_use(tenant: str, timeout_s: float = _PROBE_S) -> view.TenantUseSeen:
    """What the tenant uses, as all brokers say together; nothing of it where they do not answer."""
    try:
        return answers.tenant_use_seen(client().tenant_use(tenant, timeout_s))
    except PenstockError:
        return view.TenantUseSeen()


def budget_use(
    tenants: Sequence[str], timeout_s: float = _PROBE_S
) -> dict[tuple[str, str], view.BudgetUseSeen] | None:
    """What was counted of these tenants' budgets, by tenant and budget; None: the brokers do not answer."""
    found: dict[tuple[str, str], view.BudgetUseSeen] = {}
    try:
        for first in range(0, len(tenants), BUDGET_TENANTS_MAX):
            for one in client().budgets(tenants[first : first + BUDGET_TENANTS_MAX], timeout_s):
                found[one.tenant, one.budget_id] = view.BudgetUseSeen(
                    began_ms=one.began_ms, ends_ms=one.ends_ms, used=one.used, spent=one.spent
                )
    except PenstockError:
        return None
    return found


def topic_durability(topic_id: str, timeout_s: float = _PROBE_S) -> list[view.DurabilitySeen]:
    """All partitions by number, as their leaders say. Raises `NotFound`, `BrokerUnavailable`."""
    return [
        answers.durability_seen(partition)
        for partition in client().topic_durability(bytes.fromhex(topic_id), timeout_s)
    ]


def declare_loss(
    topic_id: str, partition: int, broker: int | None, *, accept: bool, asked_by: str
) -> tuple[view.LossSeen, bool]:
    """(what would be declared or was, whether it was). `broker` None: the only copy is repaired. Raises
    `OutcomeUnknown` when the answer to an accepted one is lost.
    """
    answer = client().declare_loss(
        bytes.fromhex(topic_id),
        partition,
        broker,
        accept=accept,
        asked_by=asked_by,
        timeout_s=CHANGE_S if accept else _PROBE_S,
    )
    return answers.loss_seen(answer.loss), answer.declared


def _remembered() -> Sequence[str]:
    try:
        return queries.broker_addresses()
    except DatabaseError:
        return ()  # the configured ones will do, or nothing does
