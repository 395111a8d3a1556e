"""Makes a tenant as a declarative file says: the changes of `penstock apply`, one after the other, over REST."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from penstock.admin.declaration import DeclaredAcl, DeclaredKey, DeclaredScope
from penstock.admin.declared_changes import Change, Kind, Sign
from penstock.admin.declared_limits import EVERY_ACCOUNT_NAME
from penstock.cli.account_limits import limits_path
from penstock.cli.display import line
from penstock.cli.new_keys import NewKeys
from penstock.cli.output import Bar, say
from penstock.contract import limits
from penstock.contract.errors import (
    AlreadyExists,
    BrokerUnavailable,
    ConfigurationError,
    InternalError,
    OutcomeUnknown,
    PenstockError,
    TimedOut,
)
from penstock.rest.client import RestClient, segment
from penstock.rest.problems import problem_error
from penstock.rules.access import TENANT

_MAY_BE_MADE = (OutcomeUnknown, TimedOut, InternalError, BrokerUnavailable, AlreadyExists)
"""Refusals that do not say that nothing was made: an answer on the way may be lost, and asked for again."""


class Work:
    """Applies changes in their order. `done` are those that the service confirmed. Without `new_keys` there is no key
    among them.
    """

    def __init__(
        self, rest: RestClient, ids: dict[str, str], timeout: float, new_keys: NewKeys | None = None
    ) -> None:
        self.done: list[Change] = []
        self._rest = rest
        self._ids = ids
        self._timeout = timeout
        self._new_keys = new_keys

    def run(self, changes: Sequence[Change], bar: Bar) -> None:
        """Raises what the service answers first."""
        new_groups = [
            change for change in changes if change.kind is Kind.PRINCIPAL_GROUP and change.sign is Sign.ADD
        ]
        cleared = False
        waiting: list[Change] = []
        for change in changes:
            if change.kind is Kind.TOPIC and change.sign is Sign.ADD:
                waiting.append(change)
                continue
            self._make_topics(waiting, bar)
            waiting = []
            if change in new_groups:
                self._make_groups(new_groups)
                self.done += new_groups
                new_groups = []
            elif change.kind is Kind.PRINCIPAL_GROUP and change.sign is Sign.ADD:
                continue
            else:
                if change.kind is Kind.PRINCIPAL_GROUP and change.sign is Sign.REMOVE and not cleared:
                    self._clear_groups(changes)
                    cleared = True
                self._one(change)
                self.done.append(change)
            bar.to(len(self.done), change.name)
        self._make_topics(waiting, bar)

    def _call(self, send: Callable[..., Any], path: str, *body: Any) -> Any:
        return send(path, *body, timeout_s=self._timeout)

    def _members(self, names: Sequence[str]) -> list[str]:
        return [self._ids[name] for name in names]

    def _make_groups(self, groups: Sequence[Change]) -> None:
        """All of them empty, then their members: a group may hold another one that is new too."""
        for group in groups:
            made = self._call(self._rest.post, "/v1/principal-groups", {"name": group.name})
            self._ids[f"group:{group.name}"] = f"group:{made['id']}"
        for group in groups:
            if group.body:
                path = f"/v1/principal-groups/{segment(self._ids[f'group:{group.name}'].partition(':')[2])}"
                self._call(self._rest.patch, path, {"members": self._members(group.body)})

    def _clear_groups(self, changes: Sequence[Change]) -> None:
        """Groups that go may hold each other, and a group that is held cannot go."""
        for change in changes:
            if change.kind is Kind.PRINCIPAL_GROUP and change.sign is Sign.REMOVE and change.body:
                self._call(self._rest.patch, f"/v1/principal-groups/{segment(change.id)}", {"members": []})

    def _make_topics(self, topics: Sequence[Change], bar: Bar) -> None:
        for batch in _batches(topics):
            answer = self._call(
                self._rest.post, "/v1/topics:batch", {"topics": [change.body for change in batch]}
            )
            refused: PenstockError | None = None
            for change, outcome in zip(batch, answer["topics"], strict=True):
                if outcome["problem"] is None:
                    self.done.append(change)
                    continue
                problem = json.dumps(outcome["problem"]).encode()
                error = problem_error(outcome["status"], problem, f"topic {change.name}")
                say(line(f"topic {change.name} is refused: {error.message}"))
                refused = refused or error
            bar.to(len(self.done), "topics")
            if refused is not None:
                raise refused

    def _one(self, change: Change) -> None:
        rest, object_id = self._rest, segment(change.id)
        if change.kind is Kind.ACCOUNT_LIMITS:
            self._account_limits(change)
            return
        if change.sign is Sign.REMOVE:
            path = {
                Kind.ACL: f"/v1/acls/{object_id}",
                Kind.KEY: f"/v1/keys/{object_id}",
                Kind.PRINCIPAL_GROUP: f"/v1/principal-groups/{object_id}",
                Kind.SERVICE_ACCOUNT: f"/v1/service-accounts/{object_id}",
                Kind.TOPIC: f"/v1/topics/{segment(change.name)}",
                Kind.WEBHOOK: f"/v1/webhooks/{object_id}",
                Kind.BUDGET: f"/v1/budgets/{object_id}",
            }[change.kind]
            self._call(rest.delete, path)
        elif change.kind is Kind.QUOTAS:
            self._call(rest.patch, "/v1/quotas", change.body)
        elif change.kind is Kind.KEY:
            self._make_key(change.body)
        elif change.kind is Kind.WEBHOOK and change.sign is Sign.ADD:
            self._make_webhook(change)
        elif change.kind is Kind.WEBHOOK:
            self._call(rest.patch, f"/v1/webhooks/{object_id}", change.body)
        elif change.kind is Kind.BUDGET and change.sign is Sign.ADD:
            self._call(rest.post, "/v1/budgets", budget_body(change, self._ids))
        elif change.kind is Kind.BUDGET:
            self._call(rest.patch, f"/v1/budgets/{object_id}", change.body)
        elif change.kind is Kind.ACCESS:
            self._call(rest.patch, "/v1/access", {"default": change.body})
        elif change.kind is Kind.SERVICE_ACCOUNT:
            made = self._call(rest.post, "/v1/service-accounts", {"name": change.name})
            self._ids[f"service_account:{change.name}"] = f"service_account:{made['id']}"
        elif change.kind is Kind.PRINCIPAL_GROUP:
            self._call(
                rest.patch, f"/v1/principal-groups/{object_id}", {"members": self._members(change.body)}
            )
        elif change.kind is Kind.TOPIC:
            self._call(rest.patch, f"/v1/topics/{segment(change.name)}", change.body)
        else:
            self._call(rest.post, "/v1/acls", self._acl(change.body))

    def _account_limits(self, change: Change) -> None:
        account: str | None = None
        if change.name != EVERY_ACCOUNT_NAME:
            # An account that this run made has no id in the change.
            made = self._ids.get(f"service_account:{change.name.removeprefix('of ')}", "").partition(":")[2]
            account = change.id or made
        path = limits_path(account)
        if change.sign is Sign.REMOVE:
            self._call(self._rest.delete, path)
        else:
            self._call(self._rest.put, path, change.body)

    def _make_key(self, key: DeclaredKey) -> None:
        """A key whose text cannot be written down is of no use: it is revoked again. Raises `ConfigurationError`."""
        if self._new_keys is None:
            raise AssertionError("a key is made, and there is no output for its text")
        account = self._ids[f"service_account:{key.service_account}"].partition(":")[2]
        body: dict[str, Any] = {"name": key.name, "service_account": account}
        if key.expires_at is not None:
            body["expires_at"] = key.expires_at.isoformat()
        if key.scopes:
            body["scopes"] = [_scope(scope) for scope in key.scopes]
        there = f"if penstock key list shows {key.name} of {key.service_account} now"
        lost = f"{there}, its text is lost: the same command with the same --keys-to FILE revokes it, and makes another"
        try:
            asked_with = self._new_keys.begin(key.service_account, body)
        except OSError as error:
            raise ConfigurationError(
                f"beside --keys-to nothing can be written: {error.strerror or error}"
            ) from error
        try:
            made = self._rest.post("/v1/keys", body, timeout_s=self._timeout, idempotency_key=asked_with)
        except _MAY_BE_MADE as error:
            raise type(error)(f"{error.message}; {lost}") from error
        except PenstockError:
            self._new_keys.end()
            raise
        except KeyboardInterrupt:
            say(lost)
            raise
        try:
            self._new_keys.keep(key.service_account, made)
        except OSError as error:
            why = f"the text of key {key.name} could not be written: {error.strerror or error}"
            try:
                self._call(self._rest.delete, f"/v1/keys/{segment(made['id'])}")
            except PenstockError as left:
                raise ConfigurationError(
                    f"{why}; it could not be revoked: penstock key revoke {made['id']}"
                ) from left
            self._new_keys.end()
            raise ConfigurationError(f"{why}; the key is revoked again") from error
        self._new_keys.end()

    def _make_webhook(self, change: Change) -> None:
        """One whose secret cannot be written down is deleted again. Raises `ConfigurationError`."""
        if self._new_keys is None:
            raise AssertionError("a webhook is made, and there is no output for its secret")
        there = f"if penstock webhook list shows {change.name} now"
        lost = f"{there}, its secret is lost: penstock webhook rotate makes another"
        try:
            made = self._call(self._rest.post, "/v1/webhooks", change.body)
        except _MAY_BE_MADE as error:
            raise type(error)(f"{error.message}; {lost}") from error
        except KeyboardInterrupt:
            say(lost)
            raise
        try:
            self._new_keys.keep_secret(made)
        except OSError as error:
            self._call(self._rest.delete, f"/v1/webhooks/{segment(made['id'])}")
            raise ConfigurationError(
                f"the secret of webhook {change.name} could not be written: {error.strerror or error}; the webhook is"
                " deleted again"
            ) from error

    def _acl(self, acl: DeclaredAcl) -> dict[str, Any]:
        principal = "everyone" if acl.principal == "everyone" else self._ids[acl.principal]
        body: dict[str, Any] = {"effect": acl.effect, "principal": principal, "resource": acl.resource}
        if acl.resource != "tenant":
            body |= {"name": acl.name, "pattern": acl.pattern}
        if acl.operations:
            body["operations"] = list(acl.operations)
        if acl.addresses:
            body["addresses"] = list(acl.addresses)
        return body


def budget_body(change: Change, ids: Mapping[str, str]) -> dict[str, Any]:
    """The body that REST gets for a new budget, with the id of its service account. Raises `KeyError` if that is not
    there yet.
    """
    body: dict[str, Any] = dict(change.body)
    if body["service_account"]:
        body["service_account"] = ids[f"service_account:{body['service_account']}"].partition(":")[2]
    return body


def _scope(scope: DeclaredScope) -> dict[str, Any]:
    body: dict[str, Any] = {"resource": scope.resource}
    if scope.resource != TENANT:
        body |= {"name": scope.name, "pattern": scope.pattern}
    return body | ({"operations": list(scope.operations)} if scope.operations else {})


def _batches(topics: Sequence[Change]) -> Iterator[list[Change]]:
    """Divide topics into as many as one request may make."""
    batch: list[Change] = []
    partitions = 0
    for topic in topics:
        count = topic.body["partitions"]
        if batch and (
            len(batch) == limits.TOPICS_PER_CALL_MAX or partitions + count > limits.PARTITIONS_PER_TOPIC_MAX
        ):
            yield batch
            batch, partitions = [], 0
        batch.append(topic)
        partitions += count
    if batch:
        yield batch
