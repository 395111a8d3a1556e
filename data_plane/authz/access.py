"""Who is calling and what may they do: API keys, their scopes and access lists in a broker's own image.

A caller gets a `Principal` once per call or stream; a stream asks `check_still_valid` again for every frame. The
tenant comes from the principal alone, and names are looked up only within it, so another tenant's topic
does not exist.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from data_plane.authz.peppers import Peppers, ReadPeppers
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.model import KeyRecord, TopicRecord
from data_plane.throttling.buckets import TokenBuckets
from penstock.contract import limits
from penstock.contract.api_keys import ApiKey, MalformedApiKey, parse_api_key
from penstock.contract.errors import BrokerUnavailable, Forbidden, NotFound, Throttled, Unauthenticated
from penstock.contract.ids import PrincipalNumber, TenantId, TopicId
from penstock.rules.access import (
    CONSUME,
    DESCRIBE,
    GROUP,
    SERVICE,
    TOPIC,
    Access,
    Question,
    Scope,
    asked_of_principal,
    is_audit_topic,
    scopes_grant,
)
from penstock.rules.access_hides import hint
from penstock.rules.credentials import secret_matches

IMAGE_AGE_MS_MAX = 60_000
"""A broker that lost the watch for longer lets no new caller in."""
_REMEMBERED_MAX = 4_096
"""Answers kept of one access list, and keys whose scopes are kept ready: some hundred bytes each."""


class Operation(Enum):
    """What a principal may ask to do to a topic."""

    PRODUCE = "produce"
    CONSUME = "consume"
    DESCRIBE = "describe"
    DELETE = "delete"
    """Records of it: only keys that may do everything, or name it, can."""
    VERIFY = "verify"
    """Read what proves an invoice, without a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated key. `number` goes into every stamp it causes."""

    tenant: TenantId
    number: PrincipalNumber
    key_id: str
    key_revision: int
    """Revision of the key's record when it was checked."""
    expires_at_ms: int
    """Wall clock, 0 = never."""
    address: str = ""
    """Where the caller is, as the broker sees it, without a port."""


class AccessRules(Protocol):
    """The hook for access rules: asked for each operation on each topic, after the tenant was matched."""

    def refusal(self, principal: Principal, operation: Operation, topic: TopicRecord) -> str | None:
        """Why not, naming the right that is missing; None = allowed. Must not wait for anything."""

    def group_refusal(self, principal: Principal, operation: Operation, group: str) -> str | None:
        """The same for a consumer group of the principal's tenant."""

    def hint(self, principal: Principal, resource: str, name: str) -> str:
        """Words behind "does not exist", for callers who may know that the access list hides names; else empty. They
        are the same for a name that exists and for one that does not.
        """


class KeyRights:
    """The default rules: a key may do what one of its scopes grants (without any: everything within its tenant) and
    what the tenant's access list allows its principal. Both are looked up each time, so a change counts on open streams
    too.
    """

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._scopes: dict[str, tuple[int, tuple[Scope, ...]]] = {}
        """Of keys that have some, with the revision of the key."""
        self._lists: dict[TenantId, _ReadyList] = {}

    def refusal(self, principal: Principal, operation: Operation, topic: TopicRecord) -> str | None:
        return self._refusal(principal, operation, TOPIC, topic.name)

    def group_refusal(self, principal: Principal, operation: Operation, group: str) -> str | None:
        return self._refusal(principal, operation, GROUP, group)

    def hint(self, principal: Principal, resource: str, name: str) -> str:
        key = self._image.keys.get(principal.key_id)
        if key is None or principal.tenant not in self._image.access_lists:
            return ""
        access = self._list_of(principal.tenant).access
        return hint(access, key.owner, resource, name, principal.address, scoped=bool(key.bindings))

    def _refusal(self, principal: Principal, operation: Operation, resource: str, name: str) -> str | None:
        key = self._image.keys.get(principal.key_id)
        if key is None:
            return f"the key {principal.key_id} is not known"
        of_audit = is_audit_topic(resource, name)
        if (key.bindings or of_audit) and not scopes_grant(
            self._scopes_of(key), operation.value, resource, name
        ):
            return f"no scope of the key {principal.key_id} grants {operation.value}"
        if of_audit and operation.value not in (DESCRIBE, CONSUME) and key.owner != SERVICE:
            return f"the service alone writes {name}"
        if principal.tenant not in self._image.access_lists:
            return None
        ready = self._list_of(principal.tenant)
        asked = asked_of_principal(operation.value)
        if ready.allows(key.owner, principal.address, asked, resource, name):
            return None
        return (
            f"the access list of the tenant does not allow {operation.value} to"
            f" {key.owner or f'the key {principal.key_id}'}; `penstock access check` says why"
        )

    def _scopes_of(self, key: KeyRecord) -> Sequence[Scope]:
        revision = self._image.key_revisions[key.key_id]
        known = self._scopes.get(key.key_id)
        if known is None or known[0] != revision:
            if len(self._scopes) >= _REMEMBERED_MAX:
                self._scopes.clear()
            known = self._scopes[key.key_id] = (revision, key.scopes)
        return known[1]

    def _list_of(self, tenant: TenantId) -> "_ReadyList":
        revision = self._image.access_list_revisions[tenant]
        ready = self._lists.get(tenant)
        if ready is None or ready.revision != revision:
            record = self._image.access_lists[tenant]
            ready = self._lists[tenant] = _ReadyList(revision, Access(record.rules))
        return ready


class _ReadyList:
    """One revision of an access list, with answers it has given: the same are asked for every batch."""

    def __init__(self, revision: int, access: Access) -> None:
        self.revision = revision
        self.access = access
        self._answers: dict[tuple[str, str, str, str, str], bool] = {}

    def allows(self, owner: str, address: str, operation: str, resource: str, name: str) -> bool:
        asked = (owner, address, operation, resource, name)
        known = self._answers.get(asked)
        if known is None:
            if len(self._answers) >= _REMEMBERED_MAX:
                self._answers.clear()
            question = Question(
                principal=owner, operation=operation, resource=resource, name=name, address=address
            )
            known = self._answers[asked] = self.access.decide(question).allowed
        return known


# -- decisions ------------------------------------------------------------------------------------------


def key_usable(*, revoked: bool, expires_at_ms: int, now_ms: int) -> bool:
    """Neither revoked nor expired. `now_ms` is the wall clock."""
    return not revoked and (expires_at_ms == 0 or now_ms < expires_at_ms)


def image_fresh(*, image_age_ms: float) -> bool:
    """May new callers be let in by this image? A broker without the store cannot know what was revoked."""
    return image_age_ms <= IMAGE_AGE_MS_MAX


def same_tenant(principal: Principal, topic: TopicRecord) -> bool:
    """Does the topic belong to the principal's tenant?"""
    return topic.tenant == principal.tenant


class Authenticator:
    """Checks API keys against `image` with `peppers` (version -> bytes, from the broker's files) and those that
    `read_peppers` finds later.

    Failures are counted per key id and per address; over FAILED_AUTH_PER_MINUTE_MAX a failure is answered
    `Throttled`. A right key always passes: ids are public, and no caller may lock a tenant out by failing in
    its name. An unknown id and a wrong secret get the same work and the same text.
    """

    def __init__(
        self,
        image: ClusterImage,
        peppers: Mapping[int, bytes],
        rules: AccessRules | None = None,
        read_peppers: ReadPeppers | None = None,
    ) -> None:
        self._image = image
        self.peppers = Peppers(peppers, read_peppers)
        self._rules: AccessRules = KeyRights(image) if rules is None else rules
        rate = limits.FAILED_AUTH_PER_MINUTE_MAX
        self._failures = TokenBuckets(per_minute=rate, burst=rate)

    def authenticate(
        self, authorization: str, *, peer: str, now_ms: int, monotonic_ms: float, image_age_ms: float = 0
    ) -> Principal:
        """The principal of a value `Bearer <api key>`. `now_ms` is the wall clock, for expiry; `peer` the
        caller's address without its port; `image_age_ms` the time since the broker last heard from the
        metadata store (0 while the watch runs). Raises `Unauthenticated`, `Throttled`, `Forbidden` (the
        tenant is suspended), `BrokerUnavailable` (the image is too old to know what was revoked).
        """
        if not image_fresh(image_age_ms=image_age_ms):
            raise BrokerUnavailable(
                f"this broker's keys are {image_age_ms:.0f} ms old, at most {IMAGE_AGE_MS_MAX} allowed"
            )
        where = f"address {peer}"
        if not authorization.strip():
            raise self._failed("no API key was sent", (where,), monotonic_ms)
        try:
            key = _bearer(authorization)
        except MalformedApiKey as error:
            raise self._failed(f"the API key is malformed: {error}", (where,), monotonic_ms) from None
        record = self._image.keys.get(key.key_id)
        version = 0 if record is None else record.pepper_version
        matches = secret_matches(
            self.peppers.for_key(version, monotonic_ms),
            pepper_version=version,
            stored_hmac="" if record is None else record.secret_hmac,
            secret=key.secret,
        )
        blamed = (where, f"key {key.key_id}")
        if record is None or not matches:
            raise self._failed("the API key is not valid", blamed, monotonic_ms)
        # A caller that gets this far has the secret and may see more.
        if record.revoked:
            raise self._failed(f"the API key {key.key_id} was revoked", blamed, monotonic_ms)
        if not key_usable(revoked=record.revoked, expires_at_ms=record.expires_at_ms, now_ms=now_ms):
            raise self._failed(f"the API key {key.key_id} has expired", blamed, monotonic_ms)
        self._check_tenant(record.tenant)
        self.peppers.note_shown(key.key_id, version, key.secret)
        return Principal(
            tenant=record.tenant,
            number=PrincipalNumber(record.principal),
            key_id=key.key_id,
            key_revision=self._image.key_revisions[key.key_id],
            expires_at_ms=record.expires_at_ms,
            address=peer,
        )

    def check_still_valid(self, principal: Principal, now_ms: int) -> None:
        """Return if the key may still be used: neither revoked, deleted nor expired, its tenant not suspended.

        A key whose name, scopes or expiry changed goes on under what holds now. Raises `Unauthenticated`,
        `Forbidden`. Two look-ups.
        """
        tenant = self._image.tenants.get(principal.tenant)
        if tenant is not None and tenant.suspended:
            self._check_tenant(principal.tenant)
        revoked, expires_at_ms = False, principal.expires_at_ms
        if self._image.key_revisions.get(principal.key_id) != principal.key_revision:
            record = self._image.keys.get(principal.key_id)
            if record is None or (record.tenant, record.principal) != (principal.tenant, principal.number):
                revoked = True
            else:
                revoked, expires_at_ms = record.revoked, record.expires_at_ms
        if not key_usable(revoked=revoked, expires_at_ms=expires_at_ms, now_ms=now_ms):
            raise Unauthenticated("the API key was revoked or has expired")

    def still_valid(self, principal: Principal, now_ms: int) -> bool:
        """The same as an answer."""
        try:
            self.check_still_valid(principal, now_ms)
        except (Unauthenticated, Forbidden):
            return False
        return True

    def expires_at_ms(self, principal: Principal) -> int:
        """When the principal's key expires as things stand now (wall clock, 0 = never)."""
        record = self._image.keys.get(principal.key_id)
        return principal.expires_at_ms if record is None else record.expires_at_ms

    def _check_tenant(self, tenant: TenantId) -> None:
        record = self._image.tenants.get(tenant)
        if record is not None and record.suspended:
            raise Forbidden(f"tenant {tenant} is suspended: its keys are refused until it is resumed")

    def authorize(
        self, principal: Principal, operation: Operation, topic: TopicRecord, *, by_name: bool = False
    ) -> None:
        """Return if the principal may do that to the topic. Raises `NotFound` for another tenant's topic, for one
        in the recycle bin and for one that it may not even describe, else `Forbidden`.

        `by_name`: the caller gave the name; one that gave the id must not learn the name from the refusal.
        """
        if topic.binned or not same_tenant(principal, topic):
            raise self._missing(principal, topic.name) if by_name else _missing_id(topic.topic_id)
        refusal = self._rules.refusal(principal, operation, topic)
        if refusal is None:
            return
        hidden = operation is Operation.DESCRIBE or self._rules.refusal(principal, Operation.DESCRIBE, topic)
        if hidden:
            raise self._missing(principal, topic.name) if by_name else _missing_id(topic.topic_id)
        raise Forbidden(f"topic {topic.name!r}: {refusal}")

    def authorize_group(self, principal: Principal, operation: Operation, group: str) -> None:
        """Return if the principal may do that to the group of its own tenant: CONSUME to join, commit or reset,
        DESCRIBE to look. Raises `NotFound` for one that it may not even describe, else `Forbidden`.
        """
        refusal = self._rules.group_refusal(principal, operation, group)
        if refusal is None:
            return
        if operation is Operation.DESCRIBE or self._rules.group_refusal(principal, Operation.DESCRIBE, group):
            hidden = self._rules.hint(principal, GROUP, group)
            raise NotFound(f"group {group[: limits.TOPIC_NAME_LENGTH_MAX]!r} does not exist{hidden}")
        raise Forbidden(f"group {group!r}: {refusal}")

    def topic(self, principal: Principal, operation: Operation, name: str) -> TopicRecord:
        """The principal's own topic of that name, if it may do that to it. Raises `NotFound`, `Forbidden`."""
        topic_id = self._image.names.get((principal.tenant, name))
        record = None if topic_id is None else self._image.topics.get(topic_id)
        if record is None:
            raise self._missing(principal, name)
        self.authorize(principal, operation, record, by_name=True)
        return record

    def topic_by_id(self, principal: Principal, operation: Operation, topic_id: TopicId) -> TopicRecord:
        """The same by topic id: ids are no secret, so knowing one gives nothing. Raises `NotFound`,
        `Forbidden`.
        """
        record = self._image.topics.get(topic_id)
        if record is None or not same_tenant(principal, record):
            raise _missing_id(topic_id)
        self.authorize(principal, operation, record)
        return record

    def topics(self, principal: Principal) -> list[TopicRecord]:
        """Every topic that the principal may describe, by name."""
        named = self._image.names_of.get(principal.tenant, {})
        ids = (named[name] for name in sorted(named))
        records = (self._image.topics[topic_id] for topic_id in ids if topic_id in self._image.topics)
        return [r for r in records if self._rules.refusal(principal, Operation.DESCRIBE, r) is None]

    def _missing(self, principal: Principal, name: str) -> NotFound:
        hidden = self._rules.hint(principal, TOPIC, name)
        return NotFound(f"topic {name[: limits.TOPIC_NAME_LENGTH_MAX]!r} does not exist{hidden}")

    def _failed(
        self, message: str, blamed: tuple[str, ...], monotonic_ms: float
    ) -> Unauthenticated | Throttled:
        """Count a failure; the error to raise."""
        wait_ms = max(self._failures.wait_ms(key, monotonic_ms) for key in blamed)
        for key in blamed:
            self._failures.drain(key, monotonic_ms)
        if wait_ms > 0:
            return Throttled(
                f"too many failed authentications of this address or key: at most {limits.FAILED_AUTH_PER_MINUTE_MAX} a"
                f" minute; clears in {wait_ms} ms",
                limit="FAILED_AUTH_PER_MINUTE_MAX",
            )
        return Unauthenticated(message)


def _bearer(authorization: str) -> ApiKey:
    scheme, _, text = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise MalformedApiKey("no 'Bearer <api key>' was sent")
    return parse_api_key(text.strip())


def _missing_id(topic_id: TopicId) -> NotFound:
    return NotFound(f"topic id {topic_id.hex()[:32]} does not exist")
