"""Tags of a topic or a principal, by which a tenant's costs are summed up."""

from penstock.contract.limits import TOPIC_NAME_LENGTH_MAX
from penstock.contract.resources.description import Field, Given, Kind, Method, Resource, Verb

TAG_LENGTH_MAX = 63
TAGS_OF_ONE_MAX = 20

KIND = Field(
    name="kind",
    kind=Kind.TEXT,
    label="Kind",
    help="topic or principal.",
    given=Given.NEVER,
)
NAME = Field(
    name="name",
    kind=Kind.TEXT,
    label="Name",
    help="The topic's, or the principal as access lists name it.",
    length_max=TOPIC_NAME_LENGTH_MAX,
    given=Given.NEVER,
)
TAGS = Field(
    name="tags",
    kind=Kind.MAP,
    label="Tags",
    help=f"Key -> value, all of them, at most {TAGS_OF_ONE_MAX}. {{}}: none.",
    length_max=TAG_LENGTH_MAX,
    items_max=TAGS_OF_ONE_MAX,
)

COST_TAGS = Resource(
    name="cost_tags",
    path="/cost-tags",
    fields=(KIND, NAME, TAGS),
    verbs=(
        Verb(
            method=Method.LIST,
            operation="cost_tags_list",
            about="The tags by which the tenant's costs can be summed up: of topics, and of principals.",
            permission="usage.read",
            refuses=(403, 404),
        ),
        Verb(
            method=Method.READ,
            operation="cost_tags_read",
            about="The tags of one topic or principal.",
            permission="usage.read",
            refuses=(403, 404),
        ),
        Verb(
            method=Method.SET,
            operation="cost_tags_set",
            about="Set all tags of a topic or principal. They count for all of its usage, of earlier months too. A"
            " topic's tag\ncomes before that of the principal that used it.",
            permission="budgets.write",
            refuses=(403, 404, 412, 422),
            conditional=True,
            dry_run=True,
        ),
    ),
)
