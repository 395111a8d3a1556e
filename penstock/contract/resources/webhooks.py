"""Webhooks: https endpoints that get a tenant's events, signed."""

from penstock.contract.limits import KEY_NAME_LENGTH_MAX, WEBHOOK_URL_LENGTH_MAX
from penstock.contract.resources.description import Choice, Field, Given, Kind, Method, Resource, Verb

EVENTS_USUAL = ("audit.*",)
"""What a webhook gets where a command or a file names no events."""

NAME = Field(
    name="name",
    kind=Kind.TEXT,
    label="Name",
    help="What gets the events, as security monitoring; no other webhook of the tenant has this name.",
    length_max=KEY_NAME_LENGTH_MAX,
)
URL = Field(
    name="url",
    kind=Kind.TEXT,
    label="Address",
    help="Where events go: https, on a public address. Another one is tried at once.",
    length_max=WEBHOOK_URL_LENGTH_MAX,
)
EVENTS = Field(
    name="events",
    kind=Kind.TEXTS,
    label="Events",
    help="Types of events that it gets: a type, its beginning with `.*`, or `*`, as `audit.topic.create` or `audit.*`.",
    option="event",
)
_STATE = Field(
    name="state",
    kind=Kind.TEXT,
    help="`off`: nothing is sent until it is on; `on`: it goes on where it stopped.",
    choices=(Choice(value="on", label="on"), Choice(value="off", label="off")),
    given=Given.LATER,
)
REASON = Field(
    name="reason",
    kind=Kind.TEXT,
    help="Why it is off: a caller switched it off, its endpoint answered 410, or no event was taken for days.",
    choices=(
        Choice(value="asked", label="switched off"),
        Choice(value="gone", label="off: its endpoint answered 410"),
        Choice(value="failing", label="off: its endpoint took nothing for days"),
    ),
    given=Given.NEVER,
    blank=True,
)


def _said(name: str, kind: Kind, help: str = "", *, null: str = "") -> Field:
    return Field(name=name, kind=kind, help=help, null=null, given=Given.NEVER)


WEBHOOKS = Resource(
    name="webhook",
    path="/webhooks",
    about="A webhook: an https endpoint that gets the tenant's events, signed.\n\nThe service shows the secret once."
    " Without `encrypt_to` **it is in the state**, marked as sensitive; with it only its ciphertext is. Another"
    " `rotation_trigger` rotates the secret, and the old one signs beside it for `overlap_s`. A webhook that the"
    " service switched off, since its endpoint failed for days, is shown as drift, and the next apply resumes it.",
    fields=(
        _said("id", Kind.TEXT),
        NAME,
        URL,
        EVENTS,
        _STATE,
        REASON,
        _said("off_at", Kind.MOMENT, null="it is on"),
        _said("created_at", Kind.MOMENT),
        _said("delivered_at", Kind.MOMENT, "When an event was taken last.", null="none was"),
        _said("failures", Kind.WHOLE, "Failed attempts of the event whose turn it is."),
        _said("failing_since", Kind.MOMENT, null="it does not fail"),
        _said("next_attempt_at", Kind.MOMENT, "Not before then."),
        _said(
            "old_secret_until",
            Kind.MOMENT,
            "Until when the secret before signs too.",
            null="it does not",
        ),
    ),
    verbs=(
        Verb(
            method=Method.LIST,
            operation="webhooks_list",
            about="The tenant's webhooks.",
            permission="webhooks.read",
            refuses=(403, 404),
        ),
        Verb(
            method=Method.CREATE,
            operation="webhooks_create",
            about="Make a webhook. It gets what happens from now on, signed with the secret of this answer.",
            permission="webhooks.write",
            refuses=(403, 404, 409, 422),
            dry_run=True,
        ),
        Verb(
            method=Method.READ,
            operation="webhooks_get",
            about="One webhook, and how much waits for it.",
            permission="webhooks.read",
            refuses=(403, 404),
        ),
        Verb(
            method=Method.CHANGE,
            operation="webhooks_change",
            about="Change what is given. What the events left out before does not come later.",
            permission="webhooks.write",
            refuses=(403, 404, 409, 412),
            conditional=True,
            dry_run=True,
        ),
        Verb(
            method=Method.REMOVE,
            operation="webhooks_delete",
            about="Delete a webhook with its secret and its log. What waits for it is not sent.",
            permission="webhooks.write",
            refuses=(403, 404, 412),
            conditional=True,
            dry_run=True,
        ),
    ),
)
