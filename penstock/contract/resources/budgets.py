"""Budgets: what a tenant, a topic or a service account may use in a day or month."""

from dataclasses import replace

from penstock.contract.limits import KEY_NAME_LENGTH_MAX, PRODUCE_BYTES_PER_S_MAX, TOPIC_NAME_LENGTH_MAX
from penstock.contract.resources.description import (
    Choice,
    Field,
    Given,
    Kind,
    Method,
    Resource,
    Unit,
    Verb,
)

AMOUNT_MAX = 10**18
THRESHOLDS_MAX = 10
THRESHOLDS_DEFAULT = (50, 80, 100)

NAME = Field(
    name="name",
    kind=Kind.TEXT,
    label="Name",
    help="A name that no other budget of the tenant has.",
    length_max=KEY_NAME_LENGTH_MAX,
)
PERIOD = Field(
    name="period",
    kind=Kind.TEXT,
    label="Period",
    help="`day` or `month`, of UTC.",
    choices=(Choice(value="month", label="A month (UTC)"), Choice(value="day", label="A day (UTC)")),
    given=Given.ONCE,
)
MEASURE = Field(
    name="measure",
    kind=Kind.TEXT,
    label="Measure",
    help="`bytes` and `messages` as produced; `cost` of what is produced, by the price book.",
    choices=(
        Choice(value="cost", label="Cost of what is produced"),
        Choice(value="bytes", label="Bytes"),
        Choice(value="messages", label="Messages"),
    ),
    given=Given.ONCE,
)
AMOUNT = Field(
    name="amount",
    kind=Kind.WHOLE,
    label="Amount in a period",
    help="In a period: bytes, messages, or micro-units of the currency. A higher one releases within seconds.",
    low=1,
    high=AMOUNT_MAX,
)
POLICY = Field(
    name="policy",
    kind=Kind.TEXT,
    label="At the full amount",
    help="What happens at the full amount: `notify` nothing else, `slow` the rate of `slow_bytes_per_s`,"
    " `refuse_produce` no new messages, `refuse` neither messages nor reads. `stop_growth`, of a month's cost alone: no"
    " new topics, partitions, copies and longer retention, and a twentieth more storage at most, while the month is"
    " expected to cost the amount.",
    choices=(
        Choice(value="notify", label="Notify only"),
        Choice(value="slow", label="Slow down"),
        Choice(value="refuse_produce", label="Refuse new messages"),
        Choice(value="refuse", label="Refuse new messages and reads"),
        Choice(value="stop_growth", label="Ceiling: stop growth while the month is expected to cost more"),
    ),
)
THRESHOLDS = Field(
    name="thresholds",
    kind=Kind.WHOLES,
    label="Write to owners at",
    help="Percents of the amount at which owners get an e-mail and webhooks an event.",
    unit=Unit.PERCENT,
    low=1,
    high=1_000,
    items_max=THRESHOLDS_MAX,
    default=THRESHOLDS_DEFAULT,
    option="threshold",
)
SLOW_BYTES_PER_S = Field(
    name="slow_bytes_per_s",
    kind=Kind.WHOLE,
    label="Rate when slowed down",
    help="With the policy `slow`: bytes per second of batches as sent, over all brokers, and where reads count as"
    " delivered too; else 0.",
    unit=Unit.BYTE,
    low=0,
    high=PRODUCE_BYTES_PER_S_MAX,
    default=0,
)
TOPIC = Field(
    name="topic",
    kind=Kind.TEXT,
    label="Topic",
    help="This topic alone; empty: all topics.",
    length_max=TOPIC_NAME_LENGTH_MAX,
    given=Given.ONCE,
    default="",
    blank=True,
)
SERVICE_ACCOUNT = Field(
    name="service_account",
    kind=Kind.TEXT,
    label="Service account",
    help="The keys of the service account with this id alone; empty: all keys.",
    given=Given.ONCE,
    default="",
    blank=True,
    null="all keys",
)
COUNTS_READS = Field(
    name="counts_reads",
    kind=Kind.FLAG,
    label="Reads count",
    help="Each delivery to a consumer counts, too; of bytes and messages.",
    given=Given.ONCE,
    default=False,
    option="count-reads",
)


def _made(name: str, kind: Kind, help: str = "", *, null: str = "") -> Field:
    return Field(name=name, kind=kind, help=help, null=null, given=Given.NEVER, made=True)


_GROWTH_STOPPED = Field(
    name="growth_stopped_at",
    kind=Kind.MOMENT,
    help="With `stop_growth`: since when growth is refused.",
    null="it is not",
    given=Given.NEVER,
)
_FORECAST = Field(
    name="forecast",
    kind=Kind.WHOLE,
    help="With `stop_growth`: what the month is expected to cost, in micro-units.",
    unit=Unit.MICRO,
    null="not known",
    given=Given.NEVER,
)

BUDGETS = Resource(
    name="budget",
    path="/budgets",
    about="A budget: what a tenant may use in a UTC day or month, and what happens at the full amount. Needs a"
    " person's or an operator's token: no key makes budgets. **Brokers count from when it is made**, and what the"
    " period is known to have used before counts, too. What was used is not in the state.",
    fields=(
        Field(name="id", kind=Kind.TEXT, given=Given.NEVER),
        NAME,
        PERIOD,
        MEASURE,
        AMOUNT,
        _made("unit", Kind.TEXT, "bytes, messages, or as micro-USD."),
        POLICY,
        SLOW_BYTES_PER_S,
        THRESHOLDS,
        TOPIC,
        SERVICE_ACCOUNT,
        COUNTS_READS,
        _made("period_began", Kind.MOMENT),
        _made(
            "counted_since",
            Kind.MOMENT,
            "Since when brokers count: the period's beginning, or the budget's where it was made within.",
        ),
        _made(
            "used_before",
            Kind.WHOLE,
            "What the period had used before `counted_since`, as usage was known when the budget was made; it is"
            " in `used`.",
        ),
        _made("period_ends", Kind.MOMENT),
        _made(
            "used",
            Kind.WHOLE,
            "In this period, provisional, some seconds old.",
            null="the brokers do not say it",
        ),
        _made("used_percent", Kind.WHOLE, "Rounded down.", null="as `used`"),
        _made("noted_percent", Kind.WHOLE, "The highest threshold that was said in this period; 0 = none."),
        _GROWTH_STOPPED,
        _FORECAST,
        replace(_GROWTH_STOPPED, name="forecast_at", help="When `forecast` was made.", null="there is none"),
        Field(name="created_at", kind=Kind.MOMENT, given=Given.NEVER),
    ),
    verbs=(
        Verb(
            method=Method.LIST,
            operation="budgets_list",
            about="The tenant's budgets, and what was used of them.",
            permission="budgets.read",
            refuses=(403, 404),
        ),
        Verb(
            method=Method.CREATE,
            operation="budgets_create",
            about="Make a budget. What the period is known to have used counts; brokers count from now on, and act at"
            " the full\namount.",
            permission="budgets.write",
            refuses=(403, 404, 409, 422),
            dry_run=True,
        ),
        Verb(
            method=Method.READ,
            operation="budgets_get",
            about="One budget, and what was used of it.",
            permission="budgets.read",
            refuses=(403, 404),
        ),
        Verb(
            method=Method.CHANGE,
            operation="budgets_change",
            about="Change what is given. A higher amount releases within seconds. What it counts is not changed: make"
            " another\nbudget for that.",
            permission="budgets.write",
            refuses=(403, 404, 409, 412),
            conditional=True,
            dry_run=True,
        ),
        Verb(
            method=Method.REMOVE,
            operation="budgets_remove",
            about="Remove a budget with what it counted. What it stopped goes on within seconds.",
            permission="budgets.write",
            refuses=(403, 404, 412),
            conditional=True,
            dry_run=True,
        ),
    ),
    delivered=True,
)
