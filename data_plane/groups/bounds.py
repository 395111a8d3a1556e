"""The service's limits of groups at one coordinator, and what a refusal by one of them says."""

from data_plane.groups.group import Draft
from penstock.contract import limits
from penstock.contract.errors import LimitExceeded


def check_groups(used: int) -> None:
    """One more group of a tenant that has so many here. Raises `LimitExceeded`, as all below."""
    if used >= limits.GROUPS_PER_TENANT_MAX:
        raise LimitExceeded(
            f"groups: the tenant has {used} at this coordinator, at most {limits.GROUPS_PER_TENANT_MAX} allowed;"
            " delete some that are not used",
            limit="GROUPS_PER_TENANT_MAX",
        )


def check_members_of_tenant(draft: Draft, used: int) -> None:
    """What the draft adds to a tenant whose groups have so many members here."""
    more = len(draft.members) - len(draft.group.members)
    if more > 0 and used + more > limits.MEMBERS_PER_TENANT_MAX:
        raise LimitExceeded(
            f"group {draft.group.name}: the tenant's groups have {used} members here, at most "
            f"{limits.MEMBERS_PER_TENANT_MAX} allowed; stop some that are not used",
            limit="MEMBERS_PER_TENANT_MAX",
        )


def check_one_more_member(draft: Draft) -> None:
    """A member that the group does not know."""
    if len(draft.members) >= limits.GROUP_MEMBERS_MAX:
        raise LimitExceeded(
            f"group {draft.group.name}: {len(draft.members)} members, at most {limits.GROUP_MEMBERS_MAX} allowed;"
            " stop some that are not used",
            limit="GROUP_MEMBERS_MAX",
        )


def check_subscriptions(draft: Draft) -> None:
    """Topics of all members, where they have changed."""
    if not draft.is_stale:
        return
    count = sum(len(member.topics) for member in draft.members.values())
    if count > limits.GROUP_SUBSCRIPTIONS_MAX:
        raise LimitExceeded(
            f"group {draft.group.name}: its members subscribe to {count} topics, each member's counted, at most "
            f"{limits.GROUP_SUBSCRIPTIONS_MAX} allowed; read with several groups",
            limit="GROUP_SUBSCRIPTIONS_MAX",
        )


def check_committed(group: str, used_bytes: int, more_bytes: int) -> None:
    """So many bytes more of offsets, of a tenant whose groups have committed so many here."""
    if more_bytes > 0 and used_bytes + more_bytes > limits.COMMITTED_BYTES_PER_TENANT_MAX:
        raise LimitExceeded(
            f"group {group}: the tenant's groups have committed offsets and notes of {used_bytes} bytes here, at most "
            f"{limits.COMMITTED_BYTES_PER_TENANT_MAX} allowed; delete groups that are not used",
            limit="COMMITTED_BYTES_PER_TENANT_MAX",
        )
