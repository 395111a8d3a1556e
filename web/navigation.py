"""The navigation of a tenant's pages: four groups, and every page that is not one of an object or a form of one."""

from collections.abc import Mapping
from dataclasses import dataclass

from tenants.roles import Permission


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A page in the navigation. `here` is what pages below it say of themselves; empty: none is below it."""

    page: str
    """The name of its address."""
    label: str
    permission: Permission
    here: str = ""

    @property
    def url(self) -> str:
        """The name of its address, for templates."""
        return f"web:{self.page}"

    def is_current(self, page: str, here: str) -> bool:
        """True for the page `page` itself, and for the nearest above it, which says `here` of itself."""
        return page == self.page or (page not in PAGES and bool(here) and here == self.here)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Items under a heading."""

    heading: str
    items: tuple[Item, ...]


_P = Permission
GROUPS = (
    Group(
        heading="Messages",
        items=(
            Item(page="topics", label="Topics", permission=_P.TOPICS_READ, here="topics"),
            Item(page="groups", label="Groups", permission=_P.GROUPS_READ, here="groups"),
            Item(page="bin", label="Recycle bin", permission=_P.TOPICS_READ),
        ),
    ),
    Group(
        heading="Access",
        items=(
            Item(page="keys", label="Keys", permission=_P.KEYS_READ, here="keys"),
            Item(page="access", label="Access list", permission=_P.ACCESS_READ, here="access"),
            Item(page="who-may", label="Who may …?", permission=_P.ACCESS_READ),
            Item(page="each-account-limits", label="Account limits", permission=_P.ACCESS_READ),
            Item(page="removed", label="Removed access", permission=_P.ACCESS_READ),
            Item(page="access-reports", label="Reports", permission=_P.ACCESS_REPORT),
            Item(page="people", label="People", permission=_P.PEOPLE_READ, here="people"),
        ),
    ),
    Group(
        heading="Money",
        items=(
            Item(page="usage", label="Usage and prices", permission=_P.USAGE_READ, here="usage"),
            Item(page="costs", label="Costs", permission=_P.USAGE_READ, here="costs"),
            Item(page="cost-tags", label="Tags of costs", permission=_P.USAGE_READ),
            Item(page="budgets", label="Budgets", permission=_P.BUDGETS_READ, here="budgets"),
            Item(page="invoices", label="Invoices", permission=_P.INVOICES_READ, here="invoices"),
            Item(page="verifying-keys", label="Keys that verify", permission=_P.INVOICES_VERIFY),
            Item(page="service-level", label="Service level", permission=_P.USAGE_READ),
        ),
    ),
    Group(
        heading="Settings",
        items=(
            Item(page="webhooks", label="Webhooks", permission=_P.WEBHOOKS_READ, here="webhooks"),
            Item(page="audit", label="Audit", permission=_P.AUDIT_READ, here="audit"),
            Item(page="audit-topic", label="Audit in a topic", permission=_P.AUDIT_READ),
            Item(page="tax-address", label="Billing profile", permission=_P.PAYMENTS_WRITE),
            Item(page="require-factors", label="Second factors", permission=_P.FACTORS_REQUIRE),
            Item(page="close-tenant", label="Close the tenant", permission=_P.TENANT_CLOSE),
        ),
    ),
)
PAGES = frozenset(item.page for group in GROUPS for item in group.items)


def groups_for(rights: Mapping[str, bool]) -> list[Group]:
    """The groups with the items that these rights open; none that is empty."""
    shown = (
        Group(
            heading=group.heading,
            items=tuple(item for item in group.items if rights[item.permission.name.lower()]),
        )
        for group in GROUPS
    )
    return [group for group in shown if group.items]
