"""How the audit log names what a permission stands for, and which reads it counts. Pure."""

from types import MappingProxyType

from tenants.roles import OrganisationPermission, Permission

SENSITIVE_READS = frozenset(
    {
        Permission.KEYS_READ,
        Permission.ACCESS_READ,
        Permission.ACCESS_REPORT,
        Permission.PEOPLE_READ,
        Permission.MESSAGES_READ,
        Permission.AUDIT_READ,
        Permission.WEBHOOKS_READ,
    }
)
"""Who has keys and what they may do, who belongs to the tenant, messages in the console, and the log itself. What an
operator reads of a tenant is counted whatever it is.
"""
SENSITIVE_READS_OF_ORGANISATIONS = frozenset(
    {OrganisationPermission.MEMBERS_READ, OrganisationPermission.AUDIT_READ}
)
_KINDS = MappingProxyType(
    {
        "topics": "topic",
        "messages": "message",
        "groups": "group",
        "keys": "key",
        "people": "person",
        "quotas": "quota",
        "invoices": "invoice",
        "prices": "price_book",
        "factors": "tenant",
        "webhooks": "webhook",
        "members": "member",
        "tenants": "tenant",
    }
)
"""Of permissions whose first word is not the kind that changes of such objects have."""
SIGN_IN = "sign_in.begin"
KEY = "key.authenticate"
OPERATOR = "operator.authenticate"


def action_of(permission: Permission | OrganisationPermission) -> str:
    """The action of an entry that counts, for instance `key.read` for `keys.read`."""
    things, _, verb = permission.value.partition(".")
    return f"{_KINDS.get(things, things)}.{verb}"
