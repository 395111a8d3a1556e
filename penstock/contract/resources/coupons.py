"""Coupons: codes of operators, each of which a tenant redeems once for a discount."""

from penstock.contract.resources.description import Field, Given, Kind, Method, Resource, Unit, Verb

CODE_LENGTH_MAX = 40

CODE = Field(
    name="code",
    kind=Kind.TEXT,
    label="Code",
    help="6 or more of A to Z, 0 to 9 and -. Hard to guess: a tenant that knows it redeems it.",
    length_max=CODE_LENGTH_MAX,
    given=Given.ONCE,
)
BASIS_POINTS = Field(
    name="basis_points",
    kind=Kind.WHOLE,
    help="A discount on what each line costs, in hundredths of a percent; or an amount.",
    low=0,
    high=10_000,
    given=Given.ONCE,
    default=0,
)
AMOUNT_MICRO = Field(
    name="amount_micro",
    kind=Kind.WHOLE,
    help="A discount on each period, in millionths of `currency`; or basis points.",
    unit=Unit.MICRO,
    low=0,
    high=10**15,
    given=Given.ONCE,
    default=0,
)
CURRENCY = Field(
    name="currency",
    kind=Kind.TEXT,
    label="Currency of an amount",
    help="Currency of the amount, as USD; empty without one.",
    length_max=3,
    given=Given.ONCE,
    default="",
    blank=True,
)
DAYS = Field(
    name="days",
    kind=Kind.WHOLE,
    label="For how long",
    help="It lowers periods that begin within so many days of its redemption.",
    unit=Unit.DAY,
    # A month always begins within these, so that there is a period that it lowers.
    low=31,
    high=3_660,
    given=Given.ONCE,
)
USES_MAX = Field(
    name="uses_max",
    kind=Kind.WHOLE,
    label="For how many tenants",
    help="So many tenants can redeem it, each once.",
    low=1,
    high=1_000_000,
    given=Given.ONCE,
    option="uses",
)
REASON = Field(
    name="reason",
    kind=Kind.TEXT,
    label="Reason",
    help="It stands on invoices.",
    length_max=200,
    given=Given.ONCE,
)
FROM_AT = Field(
    name="from_at",
    kind=Kind.MOMENT,
    label="Redeemed from",
    help="Tenants can redeem it from then on, UTC.",
    given=Given.ONCE,
    option="from",
)
UNTIL_AT = Field(
    name="until_at",
    kind=Kind.MOMENT,
    label="Redeemed before",
    help="Tenants can redeem it before that, UTC.",
    given=Given.ONCE,
    option="until",
)

COUPONS = Resource(
    name="coupon",
    path="/coupons",
    about="A percentage or an amount.",
    fields=(
        CODE,
        BASIS_POINTS,
        AMOUNT_MICRO,
        CURRENCY,
        DAYS,
        USES_MAX,
        Field(
            name="used",
            kind=Kind.WHOLE,
            help="How many tenants have redeemed it.",
            given=Given.NEVER,
        ),
        REASON,
        FROM_AT,
        UNTIL_AT,
        Field(name="ended_at", kind=Kind.MOMENT, null="it has not ended", given=Given.NEVER),
    ),
    verbs=(
        Verb(
            method=Method.LIST,
            operation="coupons_list",
            about="Operators: every coupon, and how many tenants have redeemed it.",
            permission="prices.write",
            refuses=(403,),
        ),
        Verb(
            method=Method.CREATE,
            operation="coupons_create",
            about="Operators: make a coupon, which gives a discount to each tenant that redeems its code.",
            permission="prices.write",
            refuses=(403, 409),
        ),
        Verb(
            method=Method.READ,
            operation="coupons_read",
            about="Operators: one coupon.",
            permission="prices.write",
            refuses=(403, 404),
        ),
        Verb(
            method=Method.REMOVE,
            operation="coupons_end",
            about="Operators: end a coupon. No one redeems it any more; who has keeps the discount.",
            permission="prices.write",
            refuses=(403, 404),
        ),
    ),
    of_tenant=False,
    tagged=False,
    stays=True,
)
