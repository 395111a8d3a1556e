"""`Client.admin`: managing a tenant's topics and keys, reading its limits, usage and invoices."""

import time
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from penstock.admin.objects import (
    BinnedTopic,
    Key,
    NewKey,
    NewTopic,
    Topic,
    TopicOutcome,
    binned_topic_of,
    key_of,
    new_key_of,
    outcomes_of,
    topic_of,
)
from penstock.contract.errors import TimedOut
from penstock.contract.limits import PAGE_ITEMS_MAX
from penstock.rest.client import RestClient, segment

DELIVERY_S = 30.0
_POLL_S = 0.1
_POLL_MAX_S = 1.0


class Patience:
    """How long to wait between two looks, longer each time, until the time is up."""

    def __init__(self, timeout_s: float) -> None:
        self._deadline = time.monotonic() + timeout_s
        self._pause_s = _POLL_S

    @property
    def left_s(self) -> float:
        return max(self._deadline - time.monotonic(), _POLL_S)

    def pause_s(self, what: str, conditions: Sequence[Mapping[str, Any]] = ()) -> float:
        """Before the next look. Raises `TimedOut`, with what the conditions say."""
        pause_s = self._pause_s
        if time.monotonic() + pause_s > self._deadline:
            why = "".join(f"; {one['message']}" for one in conditions if one.get("message"))
            raise TimedOut(f"{what}: the brokers do not have the change yet{why}")
        self._pause_s = min(pause_s * 2, _POLL_MAX_S)
        return pause_s


class Admin:
    """Calls to the control plane with the client's key. Safe between threads.

    Every call takes `timeout` in seconds and may raise `Unauthenticated`, `Forbidden`, `NotFound`,
    `InvalidRequest`, `BrokerUnavailable` (the control plane is away), `TimedOut`, and, for a change whose answer
    was lost, `OutcomeUnknown`. A change waits up to two seconds for the brokers; `delivered` tells whether they
    have it, and `wait_for_topic` and `wait_for_key` wait until they do: the next call is then served accordingly.
    """

    def __init__(self, rest: RestClient) -> None:
        self._rest = rest

    # -- topics ----------------------------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int, *, timeout: float | None = None, **settings: Any
    ) -> Topic:
        """Create a topic; `settings` by name, the rest as the service's defaults.

        Raises `AlreadyExists`, `LimitExceeded`.
        """
        body = {"name": name, "partitions": partitions, "settings": settings}
        return topic_of(self._rest.post("/v1/topics", body, timeout_s=timeout))

    def create_topics(
        self, topics: Sequence[NewTopic], *, timeout: float | None = None
    ) -> list[TopicOutcome]:
        """Create up to 1,000 topics, with up to 10,000 partitions together, in one request.

        Each is made or refused on its own: a refusal is not raised, the outcomes stand in the order of `topics`. After
        `OutcomeUnknown` those that were made are found by `topics()`. Raises `InvalidRequest`, `LimitExceeded` when
        they are too many.
        """
        asked = [
            {"name": topic.name, "partitions": topic.partitions, "settings": dict(topic.settings)}
            for topic in topics
        ]
        answer = self._rest.post("/v1/topics:batch", {"topics": asked}, timeout_s=timeout)
        return outcomes_of(answer)

    def topics(self, *, timeout: float | None = None) -> list[Topic]:
        """All topics of the tenant that the key may see."""
        return [topic_of(item) for item in self._rest.items("/v1/topics", timeout_s=timeout)]

    def topic(self, name: str, *, timeout: float | None = None) -> Topic:
        """One topic."""
        return topic_of(self._rest.get(f"/v1/topics/{segment(name)}", timeout_s=timeout))

    def update_topic(
        self,
        name: str,
        settings: Mapping[str, Any] | None = None,
        *,
        partitions: int | None = None,
        timeout: float | None = None,
    ) -> Topic:
        """Change the settings named, or add partitions; the rest stays. None gives a setting the service's default
        again."""
        body: dict[str, Any] = {}
        if settings:
            body["settings"] = dict(settings)
        if partitions is not None:
            body["partitions"] = partitions
        return topic_of(self._rest.patch(f"/v1/topics/{segment(name)}", body, timeout_s=timeout))

    def delete_topic(self, name: str, *, purge: bool = False, timeout: float | None = None) -> str | None:
        """Put a topic into the recycle bin. Returns until when it can be restored (ISO 8601), None if it is deleted
        for good: with `purge`, and where the service has no recycle bin for the tenant.
        """
        answer = self._rest.delete(
            f"/v1/topics/{segment(name)}{'?purge=true' if purge else ''}", timeout_s=timeout
        )
        return None if answer is None else answer.get("purge_at")

    def binned_topics(self, *, timeout: float | None = None) -> list[BinnedTopic]:
        """All topics in the tenant's recycle bin that the key may see."""
        return [binned_topic_of(item) for item in self._rest.items("/v1/bin/topics", timeout_s=timeout)]

    def restore_topic(self, id: str, name: str | None = None, *, timeout: float | None = None) -> Topic:
        """Take a topic out of the recycle bin, by its `id`, with its messages, offsets and settings.

        `name` is a new one, for when another topic has its own. Raises `AlreadyExists`.
        """
        body = {} if name is None else {"name": name}
        return topic_of(self._rest.post(f"/v1/bin/topics/{segment(id)}/restore", body, timeout_s=timeout))

    def purge_topic(self, id: str, *, timeout: float | None = None) -> None:
        """Delete a topic in the recycle bin, by its `id`, for good with all of its messages."""
        self._rest.delete(f"/v1/bin/topics/{segment(id)}", timeout_s=timeout)

    def wait_for_topic(self, topic: Topic, *, timeout: float = DELIVERY_S) -> Topic:
        """Return once the brokers have `topic` as a change answered it, or a newer generation of it; at once when
        the answer was delivered already. Raises `TimedOut` after `timeout`, with what keeps them from it.
        """
        now, wait = topic, Patience(timeout)
        while now.delivered_generation < topic.generation:
            time.sleep(wait.pause_s(f"topic {topic.name}", now.conditions))
            now = self.topic(topic.name, timeout=wait.left_s)
        return now

    # -- keys ------------------------------------------------------------------------------------------------

    def create_key(
        self,
        name: str,
        *,
        expires_at: datetime | None = None,
        topic_prefix: str | None = None,
        operations: Sequence[str] = (),
        scopes: Sequence[Mapping[str, Any]] = (),
        service_account: str | None = None,
        timeout: float | None = None,
    ) -> NewKey:
        """Make an API key; its text is in the answer and nowhere else.

        `topic_prefix` binds it to the topics and groups whose name begins so, `operations` to some of
        describe, produce, consume and delete (records). `scopes` limit it as the REST reference says: `resource`,
        `name`, `pattern` (literal or prefix) and `operations`. `service_account` is the id of the one whose key it
        is. `expires_at` needs a time zone.
        """
        if expires_at is not None and expires_at.tzinfo is None:
            raise ValueError(f"expires_at: {expires_at} has no time zone")
        body: dict[str, Any] = {"name": name}
        if expires_at is not None:
            body["expires_at"] = expires_at.isoformat()
        if topic_prefix is not None:
            body["topic_prefix"] = topic_prefix
        if operations:
            body["operations"] = list(operations)
        if scopes:
            body["scopes"] = [dict(scope) for scope in scopes]
        if service_account is not None:
            body["service_account"] = service_account
        return new_key_of(self._rest.post("/v1/keys", body, timeout_s=timeout))

    def create_verifying_key(
        self,
        name: str,
        *,
        expires_at: datetime | None = None,
        topic_prefix: str | None = None,
        timeout: float | None = None,
    ) -> NewKey:
        """Make an API key that proves invoices and does nothing else: it reads no message. Its text is in the answer
        and nowhere else. Owners, admins and those of the roles billing and auditor make it. `topic_prefix` as in
        `create_key`: without one it proves whole invoices. `expires_at` needs a time zone.
        """
        if expires_at is not None and expires_at.tzinfo is None:
            raise ValueError(f"expires_at: {expires_at} has no time zone")
        body: dict[str, Any] = {"name": name}
        if expires_at is not None:
            body["expires_at"] = expires_at.isoformat()
        if topic_prefix is not None:
            body["topic_prefix"] = topic_prefix
        return new_key_of(self._rest.post("/v1/keys:verifying", body, timeout_s=timeout))

    def rotate_key(self, key_id: str, *, overlap_s: int = 3600, timeout: float | None = None) -> NewKey:
        """Make a key that takes the place of this one, with the same name, scopes and principal. Both are valid for
        `overlap_s` seconds, then the old one ends. Raises `InvalidRequest` (it is no longer valid, or not yours).
        """
        path = f"/v1/keys/{segment(key_id)}/rotate"
        return new_key_of(self._rest.post(path, {"overlap_s": overlap_s}, timeout_s=timeout))

    def keys(self, *, verifying: bool = False, timeout: float | None = None) -> list[Key]:
        """All keys of the tenant, revoked ones included. `verifying`: only those that prove invoices. Who may make such
        keys may list them, though they see no other key.
        """
        path = "/v1/keys:verifying" if verifying else "/v1/keys"
        return [key_of(item) for item in self._rest.items(path, timeout_s=timeout)]

    def key(self, key_id: str, *, timeout: float | None = None) -> Key:
        """One key."""
        return key_of(self._rest.get(f"/v1/keys/{segment(key_id)}", timeout_s=timeout))

    def wait_for_key(self, key: Key | NewKey, *, timeout: float = DELIVERY_S) -> None:
        """Return once every active broker has the key as it is, so that its next call is served; at once when the
        answer was delivered already. Raises `TimedOut` after `timeout`.
        """
        delivered, wait = key.delivered, Patience(timeout)
        while not delivered:
            time.sleep(wait.pause_s(f"key {key.id}"))
            delivered = self.key(key.id, timeout=wait.left_s).delivered

    def revoke_key(self, key_id: str, *, timeout: float | None = None) -> None:
        """Make a key invalid, also on connections that are open."""
        self._rest.delete(f"/v1/keys/{segment(key_id)}", timeout_s=timeout)

    # -- the tenant ------------------------------------------------------------------------------------------

    def tenants(self, *, timeout: float | None = None) -> list[dict[str, Any]]:
        """The tenants that the key or session can see."""
        return list(self._rest.items("/v1/tenants", timeout_s=timeout))

    def quotas(self, *, timeout: float | None = None) -> dict[str, Any]:
        """The tenant's limits."""
        return dict(self._rest.get("/v1/quotas", timeout_s=timeout))

    def plans(self, *, timeout: float | None = None) -> list[dict[str, Any]]:
        """Every version of every plan, with its limits."""
        return list(self._rest.items("/v1/plans", timeout_s=timeout))

    def plan_preview(
        self, plan: str = "", *, version: int = 0, timeout: float | None = None
    ) -> dict[str, Any]:
        """What another plan would change for the tenant, and what it would refuse; without a plan what is used of the
        present limits. `version` 0 = the newest.
        """
        asked = {**({"plan": plan} if plan else {}), **({"version": str(version)} if version else {})}
        return dict(self._rest.get("/v1/quotas/preview", asked, timeout_s=timeout))

    def usage(
        self,
        *,
        by: Sequence[str] = (),
        since: date | None = None,
        until: date | None = None,
        timeout: float | None = None,
    ) -> list[dict[str, Any]]:
        """What was used, by topic, day, hour, minute or principal (`by`), from `since` (inclusive) to `until`
        (exclusive): days in UTC, or times with their zone where it is by hour or minute.
        """
        query: dict[str, object] = {
            "limit": PAGE_ITEMS_MAX,
            "by": ",".join(by) or None,
            "from": since and since.isoformat(),
            "to": until and until.isoformat(),
        }
        return list(self._rest.items("/v1/usage", query, timeout_s=timeout))

    def invoices(self, *, timeout: float | None = None) -> list[dict[str, Any]]:
        """All invoices of the tenant."""
        return list(self._rest.items("/v1/invoices", timeout_s=timeout))

    def invoice(self, invoice_id: str, *, timeout: float | None = None) -> dict[str, Any]:
        """One invoice with its lines."""
        return dict(self._rest.get(f"/v1/invoices/{segment(invoice_id)}", timeout_s=timeout))

    def close(self) -> None:
        """Close its connections; a later call opens new ones."""
        self._rest.close()
