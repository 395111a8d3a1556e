"""Asks before the first change of `penstock apply` whether the caller may make all of them.

What a role or a kind of credential may not do, the service says of a dry run. What the access list says at each change,
`penstock.admin.declared_rights` says of the list as it will be by then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.admin.declared_changes import Change, Kind, Present, Sign, ids_of
from penstock.admin.declared_limits import EVERY_ACCOUNT_NAME
from penstock.admin.declared_rights import LIST_KINDS, ActingKey, check_rights
from penstock.cli.account_limits import limits_path
from penstock.cli.declared_work import budget_body
from penstock.contract import limits
from penstock.contract.errors import Forbidden
from penstock.rest.client import RestClient, segment

LIST_ALL = {"limit": limits.PAGE_ITEMS_MAX}
_DRY_RUN = "?dry_run=true"


def must_be_able(
    rest: RestClient, changes: Sequence[Change], present: Present, own_key: str, timeout: float
) -> None:
    """`own_key`: id of the key that applies them; empty: people and operators act by their role. Raises `Forbidden`,
    and what the service says of those that cannot be.
    """
    asked = _Asked(rest, ids_of(present), timeout)
    for change in changes:
        asked.ask(change)
    takes_list = any(change.kind in LIST_KINDS for change in changes)
    takes_topics = any(change.kind is Kind.TOPIC for change in changes)
    if not takes_list and not takes_topics:
        return
    if takes_list:
        default = rest.get("/v1/access", timeout_s=timeout)["default"]
        rest.patch(f"/v1/access{_DRY_RUN}", {"default": default}, timeout_s=timeout)
    if not own_key:
        return
    try:
        key = rest.get(f"/v1/keys/{segment(own_key)}", timeout_s=timeout)
        whole = _with_list(rest, present, timeout)
    except Forbidden:
        # It may not read the list: the service says of each topic whether it may be changed.
        for change in changes:
            asked.ask_topic(change)
        return
    check_rights(changes, whole, ActingKey(id=own_key, principal=key["principal"]))


def _with_list(rest: RestClient, present: Present, timeout: float) -> Present:
    """With all of the access list, whatever the file names."""

    def listed(path: str) -> tuple[Any, ...]:
        return tuple(rest.items(path, LIST_ALL, timeout_s=timeout))

    return replace(
        present,
        default=rest.get("/v1/access", timeout_s=timeout)["default"],
        acls=present.acls or listed("/v1/acls"),
        principal_groups=present.principal_groups or listed("/v1/principal-groups"),
    )


class _Asked:
    """Asks for changes by dry runs."""

    def __init__(self, rest: RestClient, ids: Mapping[str, str], timeout: float) -> None:
        self._rest = rest
        self._ids = ids
        self._timeout = timeout
        self._makes_way = False
        """Budgets go before others are made, since with them there would be too many."""
        self._topics: set[Sign] = set()

    def ask(self, change: Change) -> None:
        """Raises what the service says of it. Of topics the first of each sign stands for the others."""
        match change.kind:
            case Kind.QUOTAS:
                self._ask_quotas(change)
            case Kind.ACCOUNT_LIMITS:
                self._ask_limits(change)
            case Kind.BUDGET:
                self._ask_budget(change)
            case Kind.WEBHOOK:
                self._ask_object("/v1/webhooks", change, change.body)
            case Kind.SERVICE_ACCOUNT if change.sign is Sign.REMOVE:
                self._ask_object("/v1/service-accounts", change, None)
            case Kind.TOPIC if change.sign not in self._topics:
                self._topics.add(change.sign)
                self.ask_topic(change)

    def ask_topic(self, change: Change) -> None:
        """Nothing is asked of changes that are of no topic."""
        if change.kind is Kind.TOPIC:
            self._ask_object("/v1/topics", replace(change, id=change.name), change.body)

    def _ask_object(self, path: str, change: Change, body: Any) -> None:
        if change.sign is Sign.ADD:
            self._rest.post(f"{path}{_DRY_RUN}", body, timeout_s=self._timeout)
        elif change.sign is Sign.CHANGE:
            self._rest.patch(f"{path}/{segment(change.id)}{_DRY_RUN}", body, timeout_s=self._timeout)
        else:
            self._rest.delete(f"{path}/{segment(change.id)}{_DRY_RUN}", timeout_s=self._timeout)

    def _ask_quotas(self, change: Change) -> None:
        try:
            self._rest.patch(f"/v1/quotas{_DRY_RUN}", change.body, timeout_s=self._timeout)
        except Forbidden as error:
            raise Forbidden(
                "quotas: they differ, and operators set them: penstock apply --token-file FILE --tenant ID"
            ) from error

    def _ask_limits(self, change: Change) -> None:
        if not change.id and change.name != EVERY_ACCOUNT_NAME:
            return  # this run makes the account
        path = f"{limits_path(change.id or None)}{_DRY_RUN}"
        if change.sign is Sign.REMOVE:
            self._rest.delete(path, timeout_s=self._timeout)
        else:
            self._rest.put(path, change.body, timeout_s=self._timeout)

    def _ask_budget(self, change: Change) -> None:
        self._makes_way = self._makes_way or change.sign is Sign.REMOVE
        body = change.body
        if change.sign is Sign.ADD:
            if self._makes_way:
                return
            # An account that this run makes has no id yet: the rest of the budget is tried.
            is_there = f"service_account:{change.body['service_account']}" in self._ids
            body = budget_body(change, self._ids) if is_there else {**change.body, "service_account": ""}
        self._ask_object("/v1/budgets", change, body)
