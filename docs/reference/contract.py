"""Pages of the public contract: errors, limits, settings of a topic."""

import ast
import inspect
from dataclasses import fields
from enum import IntEnum
from pathlib import Path

from data_plane.node.leasing.pacing import FLOOR
from data_plane.throttling.attempts import ONCE_MS_MIN
from data_plane.throttling.pacing import BURST_MS, HOLD_MS_MAX
from docs.reference.markdown import code, page, said_of, table
from penstock.cli.exit_codes import exit_code
from penstock.contract import limits, topic_settings
from penstock.contract.errors import error_class, error_table
from penstock.contract.resources import LIMITS
from penstock.contract.resources.wording import meaning
from penstock.contract.topic_settings import TopicSettings
from quotas import plans


def errors_page() -> str:
    """The error table."""
    rows = []
    for row in error_table():
        kind = error_class(row.code)
        meaning = inspect.getdoc(kind) or ""
        rows.append(
            (
                int(row.code),
                code(kind.__name__),
                code(row.code.name),
                meaning,
                row.kind.value,
                row.belief.value,
                row.remedy,
                int(exit_code(kind(""))),
            )
        )
    return page(
        "Errors",
        "`penstock/contract/errors.py`",
        "Everything that Penstock refuses on purpose is a row of this table: on the wire by its number, in "
        "the SDK as an exception "
        "of `penstock`, in REST as `code` of a problem document (in lower case), on the command line in brackets.",
        "*Kind* says what the SDK does: *retriable* is repeated within the timeout, *fenced* means that "
        "a newer holder took over, "
        "*fatal* needs a change by you. *Belief* says what holds after it: *not applied*, or *unknown*: look "
        "before you repeat.",
        table(["number", "exception", "code", "meaning", "kind", "belief", "remedy", "exit code"], rows),
    )


def limits_page() -> str:
    """Every bound of the service."""
    said = said_of(limits)
    names = [name for name in said if name not in ("KIB", "MIB", "GIB", "DAY_MS")]
    mute = [name for name in names if not said[name]]
    if mute:
        raise ValueError(f"penstock/contract/limits.py: no docstring says why: {', '.join(mute)}")
    rows = [(code(name), _amount(name, getattr(limits, name)), said[name]) for name in names]
    return page(
        "Limits",
        "`penstock/contract/limits.py`",
        "What goes over one of these is refused with `LIMIT_EXCEEDED`, `MESSAGE_TOO_LARGE` or "
        "`INVALID_REQUEST`, naming the "
        "number asked for and the bound. A tenant's own limits are below; `penstock tenant show` "
        "shows them. Each answer says which limit it is, of what, how much is used, and when or by what it clears; in "
        "REST the problem document has its name as `limit`. Refusals are counted by tenant and limit: "
        "`penstock_limit_refusals_total` of brokers, `penstock_http_limit_refusals_total` of the control plane.",
        table(["limit", "value", "why, and of what"], rows),
        "## Limits of a tenant",
        *_tenant_limits(),
    )


def _tenant_limits() -> tuple[str, ...]:
    """What a tenant's plan bounds, and the plans that are shipped."""
    without = [limit.name for limit in LIMITS if limit.name not in _OUTCOMES]
    if without:
        raise ValueError(f"no outcome here: {', '.join(without)}")
    rows = [(code(limit.name), meaning(limit), *_OUTCOMES[limit.name]) for limit in LIMITS]
    shipped = [
        (
            code(plan.name),
            *(
                _amount(limit.name.upper(), value)
                if (value := getattr(plan.limits, limit.name))
                else limit.zero
                for limit in LIMITS
            ),
        )
        for plan in plans.SHIPPED
    ]
    return (
        "Made from `penstock/contract/resources/quotas.py` and `quotas/plans.py`. A plan is a named set of limits with "
        "versions; an operator puts a tenant on "
        "one, and may set single limits beside it. `penstock tenant plans` lists them, `penstock tenant preview` "
        "says what another plan would refuse. A plan below what a tenant uses is refused and names each such limit; "
        "not for connections and changes in this hour, which are shown, and clear by themselves.",
        table(["limit", "of what", "enforced by", "above it"], rows),
        f"The rates over all brokers are shared by use. What was not used may be made up for {BURST_MS} ms, or for "
        f"`rate_burst_ms`. A broker without a lease may use its part of the floor: 1/{FLOOR} of the rate, or "
        "`rate_floor_percent`.",
        "A service account may have `produce_bytes_per_s`, `consume_bytes_per_s` and `requests_per_s` of its own "
        "beside the tenant's (`penstock limits`). Above one the outcome is the same; it names `principal sa_…`, "
        "and it is counted with `principal:` before the limit. Both limits hold. What a budget slows of one topic is "
        "refused likewise; it names `topic …`, and is counted with `topic:`.",
        "Version 1 of the plans that are shipped:",
        table(["plan", *map(code, plans.LIMIT_NAMES)], shipped),
    )


_OUTCOMES = {
    "produce_bytes_per_s": (
        "brokers",
        f"A batch waits up to {HOLD_MS_MAX // 1000} s for its turn; one whose turn is further away is refused: "
        "`THROTTLED` with the milliseconds after which to come back. The SDK waits by itself.",
    ),
    "consume_bytes_per_s": (
        "brokers, from feature level 2 on",
        "Nothing is refused: the broker pushes the next batches when their turn comes, in order, and each stream of "
        "the tenant has its turn. One batch always passes, however large. A push says in `throttled_ms` how long the "
        "rate delayed it; the consumer's lag grows while more is produced than the rate lets through.",
    ),
    "partitions_max": ("control plane and brokers", "`LIMIT_EXCEEDED` for the topic or the new partitions."),
    "topics_max": ("control plane", "`LIMIT_EXCEEDED` for the topic."),
    "retention_ms_max": (
        "control plane",
        "`LIMIT_EXCEEDED` for the topic or the change. What a topic has already stays.",
    ),
    "message_bytes_max": (
        "control plane; brokers by the topic's setting",
        "`LIMIT_EXCEEDED` for the topic or the change. What a topic has already stays.",
    ),
    "service_accounts_max": (
        "control plane",
        "`LIMIT_EXCEEDED` for the new account, beside `SERVICE_ACCOUNTS_PER_TENANT_MAX`. Those that are there stay.",
    ),
    "bin_days": (
        "control plane",
        "Nothing is refused: a topic is deleted for good when it has been in the recycle bin for so long, and at once "
        "where it is 0. Topics that are in the bin keep the day that they were given.",
    ),
    "keys_max": (
        "control plane",
        "`LIMIT_EXCEEDED` for the new key, also of a rotation with an overlap. Those that are there stay valid.",
    ),
    "rest_calls_per_s": (
        "control plane, all web processes together",
        "429 `THROTTLED` with `Retry-After`, which is never before the count of that second ends. Operators' calls and "
        "the reading of limits are not counted. A change of it counts within 5 s.",
    ),
    "rest_processor_ms_per_s": (
        "control plane, all web processes together",
        "429 `THROTTLED` with `Retry-After`: the time after which it clears if no other call of the tenant takes it. A "
        "call is counted when it ends, with what it took on its thread of a web process, "
        f"calls may be ahead of the limit by {plans.REST_PROCESSOR_BURST_S} s of it, and it has cleared at most 60 s "
        "after the last call. It counts the calls that `rest_calls_per_s` does, and a change of it counts within 5 s "
        "too.",
    ),
    "requests_per_s": (
        "brokers, all together, from feature level 2 on",
        "A frame of a stream waits for its turn, and its stream takes no further one meanwhile. A call waits up to "
        f"{limits.CALL_WAIT_MS_MAX} ms; one whose turn is further away is refused: `THROTTLED` with the "
        "milliseconds after which it clears. All of a tenant wait in one line at each broker, where calls and streams "
        "go in turn. Signs of life of groups' members neither wait nor are refused, and count where they would not "
        "have to wait.",
    ),
    "broker_processor_ms_per_s": (
        "each broker for itself, from feature level 2 on",
        "A frame of a stream waits for its turn, and its stream takes no further one meanwhile; pushes to consumers "
        "wait likewise. A call waits up to "
        f"{limits.CALL_WAIT_MS_MAX} ms for this limit and `requests_per_s` together, and is then refused: "
        "`THROTTLED` with the limit, who else waits and the milliseconds after which it clears. Calls and streams go "
        "in turn. Work is counted when it is done, with the processor time that it took on the broker's event loop. "
        "Signs of life of groups' members neither wait nor are refused while they are not too many, and count.",
    ),
    "connection_attempts_per_s": (
        "each broker for itself, from feature level 2 on",
        "`THROTTLED` with the milliseconds after which it clears, for the first call on one connection more, once its "
        "key is known to be right and before anything else is done. What is refused takes nothing of the rate. "
        f"{ONCE_MS_MIN // 1000} s of the rate, or `rate_burst_ms`, may begin at once.",
    ),
    "rate_burst_ms": (
        "brokers, from feature level 2 on",
        "Nothing is refused. A burst above the usual one is stored at each broker in the part of the rate that would "
        "be its own (what it leads, has replicas of, or an even part), filled while the tenant rests from what no "
        "broker uses, and used at once when it is needed: over any time a tenant gets its rate and one burst.",
    ),
    "rate_floor_percent": (
        "brokers, from feature level 2 on",
        "Nothing is refused. It is what brokers let through before the coordinator of leases has answered, and for "
        "the first seconds while they cannot reach it. All brokers together are at most so much above a rate.",
    ),
    "connections_max": (
        "each broker for itself, beside `CONNECTIONS_PER_TENANT_MAX`",
        "`LIMIT_EXCEEDED` for a call or stream on one connection more. Connections that are open stay.",
    ),
    "groups_max": (
        "brokers, all together",
        "`LIMIT_EXCEEDED` for the join or commit that would make a group. Groups that are there stay. A deleted group "
        "makes room within 2 s.",
    ),
    "storage_bytes_max": (
        "brokers, all together, from feature level 2 on",
        "`THROTTLED` for what is produced, within some 5 s; the SDK waits and tries again until its delivery timeout. "
        "With `acks=0` no refusal is reported: what is produced then is lost without a word. The topic with the audit "
        "log does not count, and is still written. "
        "What was acknowledged stays, and consuming, retention and deletion go on. It clears when a twentieth of the "
        "limit is free, by retention, by deletion (also from the recycle bin) or with a higher limit. From 80 % on "
        "`penstock_tenants_near_storage_limit` of the controller counts the tenant. Its owners get an e-mail at 80 % "
        "and at 100 %, once each until it keeps less than 75 %.",
    ),
    "partition_changes_per_hour": (
        "control plane, all processes together",
        "429 `THROTTLED` with `Retry-After` for a topic, more partitions, changed settings or a restored topic; "
        "`LIMIT_EXCEEDED` for one change that is larger than the limit. Deleting counts, and is never refused. What "
        "operators do is not counted, nor is a dry run, nor what the brokers refuse. In a bulk request each topic "
        "counts with its partitions. The topic with the audit log counts as any other.",
    ),
}
"""Who enforces each limit of a tenant, and what happens above it."""


def topic_settings_page() -> str:
    """Settings of a topic with defaults and bounds."""
    bounds = _bounds()
    said = said_of(topic_settings, "TopicSettings")
    defaults = TopicSettings()
    rows = []
    for field in fields(TopicSettings):
        value = getattr(defaults, field.name)
        if isinstance(value, IntEnum):
            allowed = ", ".join(code(member.name.lower()) for member in type(value))
            meaning = f"{inspect.getdoc(type(value)) or ''} {said[field.name]}"
            rows.append((code(field.name), code(value.name.lower()), allowed, meaning))
        else:
            unlimited = " or -1 (no limit)" if field.name in ("retention_ms", "retention_bytes") else ""
            rows.append(
                (
                    code(field.name),
                    _amount(field.name, value),
                    bounds[field.name] + unlimited,
                    said[field.name],
                )
            )
    choices = [topic_settings.Durability]
    said_of_choices = [
        (code(member.name.lower()), said_of(topic_settings, choice.__name__)[member.name])
        for choice in choices
        for member in choice
    ]
    return page(
        "Settings of a topic",
        "`penstock/contract/topic_settings.py`",
        "Names as REST, the SDK (`client.admin.create_topic(name, partitions, **settings)`) and the command line "
        "(`--retention-ms`) take them. Replication, durability and timestamp type stay as they were when the "
        "topic was made.",
        table(["setting", "default", "allowed", "meaning"], rows),
        "What an acknowledgement means with each durability ([guide](../guides/delivery-guarantees.md)):",
        table(["durability", "acknowledged with `acks=all` means"], said_of_choices),
    )


def _bounds() -> dict[str, str]:
    """Low and high of every number, as its check says."""
    tree = ast.parse(Path(str(topic_settings.__file__)).read_text(encoding="utf-8"))
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_bounded":
            name, _, low, high = node.args
            assert isinstance(name, ast.Constant) and isinstance(name.value, str)
            found[name.value] = f"{_bound(name.value, low)} to {_bound(name.value, high)}"
    return found


def _bound(name: str, node: ast.expr) -> str:
    text = ast.unparse(node)
    if text.startswith("self."):
        return code(text.removeprefix("self."))
    return _amount(name, eval(text, {"limits": limits}))


def _amount(name: str, value: int) -> str:
    """A number with a unit where its name says one."""
    if value == 2**53:
        return "2^53"
    if value < 0:
        return "no limit"
    if "_BYTES" in name.upper():
        for size, unit in ((limits.GIB, "GiB"), (limits.MIB, "MiB"), (limits.KIB, "KiB")):
            if value >= size and value % size == 0:
                return f"{value // size:,} {unit}"
        return f"{value:,} byte{'' if value == 1 else 's'}"
    if name.upper().endswith("_MS") or "_MS_" in name.upper():
        for size, unit in ((24 * 3_600_000, "d"), (3_600_000, "h"), (1_000, "s")):
            if size <= value < 2**50 and value % size == 0:
                return f"{value:,} ms ({value // size:,} {unit})"
        return f"{value:,} ms"
    return f"{value:,}"
