"""Names where ids are taken: text that begins as ids of the kind do is an id, any other is looked up as a name."""

from dataclasses import dataclass

from penstock.contract.errors import InvalidRequest, NotFound
from penstock.rest.client import RestClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A kind of objects that have ids and names."""

    what: str
    """The kind as a refusal calls it."""
    path: str
    """The address of their list."""
    prefix: str
    """The beginning of each id."""
    name: str = "name"
    """The field with the name."""

    def id_of(self, rest: RestClient, asked: str, timeout_s: float | None = None) -> str:
        """The id of the object with this id or name. Raises `NotFound`, and `InvalidRequest` where several have it."""
        if asked.startswith(self.prefix):
            return asked
        name = asked.lower() if self.name == "email" else asked
        ids = [
            str(item["id"])
            for item in rest.items(self.path, timeout_s=timeout_s)
            if item[self.name] == name and item.get("revoked_at") is None
        ]
        if not ids:
            raise NotFound(f"{self.what} {asked!r} does not exist")
        if len(ids) > 1:
            raise InvalidRequest(
                f"{self.what} {asked!r}: there are {len(ids)}, name one by its id: {', '.join(ids)}"
            )
        return ids[0]


BUDGETS = Named(what="budget", path="/v1/budgets", prefix="bud_")
GROUPS = Named(what="group of principals", path="/v1/principal-groups", prefix="grp_")
INVITATIONS = Named(what="invitation of", path="/v1/invitations", prefix="ivt_", name="email")
KEYS = Named(what="key", path="/v1/keys", prefix="key_")
ORGANISATIONS = Named(what="organisation", path="/v1/organisations", prefix="org_")
PEOPLE = Named(what="person", path="/v1/people", prefix="usr_", name="email")
SERVICE_ACCOUNTS = Named(what="service account", path="/v1/service-accounts", prefix="sa_")
WEBHOOKS = Named(what="webhook", path="/v1/webhooks", prefix="whk_")
_PRINCIPALS = {"person": PEOPLE, "service_account": SERVICE_ACCOUNTS, "group": GROUPS}


def principal_of(rest: RestClient, asked: str, timeout_s: float | None = None) -> str:
    """A principal whose id or name stands behind its kind, as `service_account:billing`, with its id."""
    kind, colon, text = asked.partition(":")
    named = _PRINCIPALS.get(kind)
    return asked if named is None or not colon else f"{kind}:{named.id_of(rest, text, timeout_s)}"
