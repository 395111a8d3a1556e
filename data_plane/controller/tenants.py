"""Tenants and their keys, made and changed as compare-and-set transactions.

Each function answers with what to compare and what to change, or raises the refusal (a `PenstockError`). No
changes = the store already says so. A change carries the generation of the object's desired state: lower than
the one stored = ignored, equal = a repetition (which restores what was changed beside it), 0 = always applied,
and then the generation stored stays.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from data_plane.metadata import model
from data_plane.metadata.access_lists import AccessListRecord, access_list_key
from data_plane.metadata.budget_use import budget_use_key
from data_plane.metadata.features import ACCESS_LISTS, LEASES
from data_plane.metadata.image import ClusterImage
from data_plane.metadata.port import Change, Compare, Delete, KeyValue, Put
from penstock.contract import limits
from penstock.contract.api_keys import is_key_id
from penstock.contract.document_fields import SHA256_HEX
from penstock.contract.errors import AlreadyExists, InvalidRequest, LimitExceeded, NotFound
from penstock.contract.ids import SYSTEM_TENANT, TenantId
from penstock.rules import access
from penstock.rules.access import AccessList
from penstock.rules.budgets import Budget
from penstock.rules.names import check_topic_prefix
from penstock.rules.principal_limits import EVERY_ACCOUNT, PrincipalLimits

_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
PRINCIPAL_MAX = 2**32 - 1
"""Principal numbers are uint32 in every stamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Apply it; no changes: it was applied before, or (`ignored`) a higher generation is stored."""

    compares: tuple[Compare, ...]
    changes: tuple[Change, ...]
    ignored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """Apply it (no changes: it was applied before, or `ignored`), then the key is `record`."""

    compares: tuple[Compare, ...]
    changes: tuple[Change, ...]
    record: model.KeyRecord
    ignored: bool = False


_NEEDS_LEVEL = (
    f"need feature level {ACCESS_LISTS}: upgrade every broker, then"
    f" `penstock cluster features --raise {ACCESS_LISTS}`"
)


def outdated(generation: int, stored: int) -> bool:
    """Is a change of this generation behind what is stored?"""
    return 0 < generation < stored


# -- tenants --------------------------------------------------------------------------------------------


def put_tenant(
    image: ClusterImage,
    tenant: str,
    *,
    generation: int = 0,
    quotas: model.TenantQuotas | None = None,
    suspended: bool = False,
    principals: Mapping[str, PrincipalLimits] | None = None,
    budgets: Sequence[Budget] = (),
) -> Transaction:
    """Make a tenant known, or bring it to this state. `quotas` None: whatever they are, of a new tenant none; with
    quotas, `principals` None are none, and `budgets` are all that there are. Below feature level LEASES the limits that
    brokers before it do not know, those of principals, and budgets are left out.

    Raises `InvalidRequest`, `LimitExceeded` (too many principals have limits, or too many budgets).
    """
    if not _TENANT.fullmatch(tenant) and tenant != SYSTEM_TENANT:
        raise InvalidRequest(
            f"tenant {tenant!r}: 1 to 63 of A-Z a-z 0-9 _ -, beginning with a letter or digit"
        )
    if quotas is not None:
        quotas = _checked_quotas(image, quotas)
        principals = _checked_principals(image, principals or {})
        budgets = _checked_budgets(image, budgets)
    if suspended and tenant == SYSTEM_TENANT:
        raise InvalidRequest(f"tenant {tenant!r}: the service's own tenant cannot be suspended")
    known = image.tenants.get(TenantId(tenant))
    if known is not None and outdated(generation, known.generation):
        return Transaction(compares=(), changes=(), ignored=True)
    before = known or model.TenantRecord(tenant=TenantId(tenant))
    after = replace(
        before,
        generation=max(generation, before.generation),
        quotas=before.quotas if quotas is None else quotas,
        principals=before.principals if quotas is None or principals is None else principals,
        budgets=before.budgets if quotas is None else tuple(budgets),
        suspended=before.suspended if quotas is None and not generation and not suspended else suspended,
    )
    if after == known:
        return Transaction(compares=(), changes=())
    key = model.tenant_key(tenant)
    revision = image.tenant_revisions.get(TenantId(tenant), 0)
    changes: list[Change] = [Put(key, after.encode())]
    if not after.budgets and TenantId(tenant) in image.budget_use:
        changes.append(Delete(budget_use_key(tenant)))
    return Transaction(compares=(Compare(key, revision),), changes=tuple(changes))


def _checked_budgets(image: ClusterImage, budgets: Sequence[Budget]) -> Sequence[Budget]:
    if len(budgets) > limits.BUDGETS_PER_TENANT_MAX:
        raise LimitExceeded(
            f"{len(budgets)} budgets of the tenant, at most {limits.BUDGETS_PER_TENANT_MAX} allowed; remove some",
            limit="BUDGETS_PER_TENANT_MAX",
        )
    if len({budget.budget_id for budget in budgets}) != len(budgets):
        raise InvalidRequest("budgets: two of them have the same id")
    return budgets if image.level >= LEASES else ()


def _checked_quotas(image: ClusterImage, quotas: model.TenantQuotas) -> model.TenantQuotas:
    for name, rate, highest in (
        ("produce_bytes_per_s", quotas.produce_bytes_per_s, limits.PRODUCE_BYTES_PER_S_MAX),
        ("consume_bytes_per_s", quotas.consume_bytes_per_s, limits.CONSUME_BYTES_PER_S_MAX),
        ("requests_per_s", quotas.requests_per_s, limits.REQUESTS_PER_S_MAX),
        (
            "connection_attempts_per_s",
            quotas.connection_attempts_per_s,
            limits.CONNECTION_ATTEMPTS_PER_S_MAX,
        ),
        ("rate_burst_ms", quotas.rate_burst_ms, limits.RATE_BURST_MS_MAX),
        ("rate_floor_percent", quotas.rate_floor_percent, limits.RATE_FLOOR_PERCENT_MAX),
        (
            "broker_processor_ms_per_s",
            quotas.broker_processor_ms_per_s,
            limits.BROKER_PROCESSOR_MS_PER_S_MAX,
        ),
    ):
        if rate > highest:
            raise InvalidRequest(f"{name}: {rate} is above {highest}")
    if image.level >= LEASES:
        return quotas
    return replace(quotas, **dict.fromkeys(model.LATER_QUOTAS, 0))


def _checked_principals(
    image: ClusterImage, principals: Mapping[str, PrincipalLimits]
) -> Mapping[str, PrincipalLimits]:
    if len(principals) > limits.PRINCIPAL_LIMITS_PER_TENANT_MAX + 1:
        raise LimitExceeded(
            f"limits of {len(principals) - 1} service accounts, at most {limits.PRINCIPAL_LIMITS_PER_TENANT_MAX}"
            " allowed; set those that all have in common",
            limit="PRINCIPAL_LIMITS_PER_TENANT_MAX",
        )
    for principal, wanted in principals.items():
        if principal != EVERY_ACCOUNT:
            access.check_principal(principal, groups=False)
        for name, rate, highest in (
            ("produce_bytes_per_s", wanted.produce_bytes_per_s, limits.PRODUCE_BYTES_PER_S_MAX),
            ("consume_bytes_per_s", wanted.consume_bytes_per_s, limits.CONSUME_BYTES_PER_S_MAX),
            ("requests_per_s", wanted.requests_per_s, limits.REQUESTS_PER_S_MAX),
        ):
            if rate > highest:
                raise InvalidRequest(f"{name} of {principal}: {rate} is above {highest}")
    return principals if image.level >= LEASES else {}


def put_access_list(
    image: ClusterImage, tenant: TenantId, rules: AccessList, *, generation: int = 0
) -> Transaction:
    """Who may do what in the tenant, as a whole. Raises `InvalidRequest` (the feature level is too low), `NotFound`,
    `LimitExceeded` (it is too long).
    """
    if tenant not in image.tenants:
        raise NotFound(f"tenant {tenant[:63]!r} does not exist")
    if tenant == SYSTEM_TENANT:
        raise InvalidRequest(f"tenant {tenant!r}: the service's own tenant has no access list")
    if image.level < ACCESS_LISTS:
        raise InvalidRequest(f"access lists {_NEEDS_LEVEL}")
    known = image.access_lists.get(tenant)
    if known is not None and outdated(generation, known.generation):
        return Transaction(compares=(), changes=(), ignored=True)
    stored = 0 if known is None else known.generation
    after = AccessListRecord.of(rules, max(generation, stored))
    if after == known:
        return Transaction(compares=(), changes=())
    key = access_list_key(tenant)
    revision = image.access_list_revisions.get(tenant, 0)
    return Transaction(compares=(Compare(key, revision),), changes=(Put(key, after.encode()),))


# -- keys -----------------------------------------------------------------------------------------------


def put_key(
    image: ClusterImage,
    counter: KeyValue | None,
    *,
    key_id: str,
    tenant: TenantId,
    name: str,
    pepper_version: int,
    secret_hmac: str,
    scram: dict[str, Any],
    expires_at_ms: int = 0,
    generation: int = 0,
    bindings: Sequence[model.Binding] = (),
    owner: str = "",
) -> NewKey:
    """A credential made elsewhere, which gets the next principal number; or a known one with another name, expiry,
    owner or other bindings, or hashed with a newer pepper, which keeps its number and its SCRAM verifiers. With an
    older pepper and these verifiers it is the same secret, of a database that was taken back: the newer hash stays.
    Below feature level ACCESS_LISTS the owner is left out.

    `counter` is /next/principal as just read. `secret_hmac` is hex. A revoked key stays revoked, also one that
    was revoked before it came. Raises `InvalidRequest`, `NotFound` (tenant), `AlreadyExists` (another
    credential under this id), `LimitExceeded` (principal numbers used up).
    """
    if not is_key_id(key_id):
        raise InvalidRequest(f"key id {key_id[:32]!r}: 12 letters and digits required")
    if len(name) > limits.KEY_NAME_LENGTH_MAX:
        raise InvalidRequest(
            f"key name of {len(name)} characters, at most {limits.KEY_NAME_LENGTH_MAX} allowed"
        )
    if not SHA256_HEX.fullmatch(secret_hmac):
        raise InvalidRequest("secret_hmac: 64 hex digits of an HMAC-SHA-256 required")
    if pepper_version < 1 or expires_at_ms < 0:
        raise InvalidRequest("pepper_version is at least 1 and expires_at_ms at least 0")
    if tenant not in image.tenants:
        raise NotFound(f"tenant {tenant!r} does not exist")
    number = 1 if counter is None else int(counter.value)
    record = model.KeyRecord(
        key_id=key_id, tenant=tenant, name=name, principal=number, pepper_version=pepper_version,
        secret_hmac=secret_hmac, scram=scram, expires_at_ms=expires_at_ms, generation=generation,
        bindings=_checked(image, bindings), owner=_owner(image, owner),
    )  # fmt: skip
    if key_id in image.refused_keys:
        return NewKey(
            compares=(), changes=(), record=replace(record, principal=0, revoked=True), ignored=True
        )
    existing = image.keys.get(key_id)
    if existing is not None:
        return _changed_key(image, existing, record)
    if number > PRINCIPAL_MAX:
        raise LimitExceeded(f"principal numbers: all {PRINCIPAL_MAX} are used")
    key = model.credential_key(key_id)
    return NewKey(
        compares=(
            Compare(key, 0),
            Compare(model.refused_key(key_id), 0),
            unchanged(model.NEXT_PRINCIPAL_KEY, counter),
        ),
        changes=(Put(key, record.encode()), Put(model.NEXT_PRINCIPAL_KEY, str(number + 1).encode())),
        record=record,
    )


def _changed_key(image: ClusterImage, existing: model.KeyRecord, wanted: model.KeyRecord) -> NewKey:
    late = outdated(wanted.generation, existing.generation)
    same = existing.pepper_version == wanted.pepper_version
    # Under a newer pepper the same secret has another hash. One of before may still be on its way, or its database was
    # taken back: salted verifiers are the same for the same secret alone.
    newer = existing.pepper_version < wanted.pepper_version or late
    older = existing.pepper_version > wanted.pepper_version and bool(wanted.scram)
    taken_back = older and existing.scram == wanted.scram
    if existing.tenant != wanted.tenant or (
        existing.secret_hmac != wanted.secret_hmac if same else not (newer or taken_back)
    ):
        raise AlreadyExists(f"key {existing.key_id}: another credential has this id")
    if existing.revoked or late:
        return NewKey(compares=(), changes=(), record=existing, ignored=True)
    after = replace(
        existing,
        pepper_version=existing.pepper_version if taken_back else wanted.pepper_version,
        secret_hmac=existing.secret_hmac if taken_back else wanted.secret_hmac,
        name=wanted.name,
        expires_at_ms=wanted.expires_at_ms,
        generation=max(wanted.generation, existing.generation),
        bindings=wanted.bindings,
        owner=wanted.owner,
    )
    if after == existing:
        return NewKey(compares=(), changes=(), record=existing)
    key = model.credential_key(existing.key_id)
    return NewKey(
        compares=(Compare(key, image.key_revisions[existing.key_id]),),
        changes=(Put(key, after.encode()),),
        record=after,
    )


def _owner(image: ClusterImage, owner: str) -> str:
    if owner and owner != access.SERVICE:
        access.check_principal(owner, groups=False)
    return owner if image.level >= ACCESS_LISTS else ""


def _checked(image: ClusterImage, bindings: Sequence[model.Binding]) -> tuple[model.Binding, ...]:
    if len(bindings) > limits.KEY_BINDINGS_MAX:
        raise LimitExceeded(
            f"{len(bindings)} bindings of one key, at most {limits.KEY_BINDINGS_MAX} allowed; name prefixes, or use"
            " several keys",
            limit="KEY_BINDINGS_MAX",
        )
    for binding in bindings:
        if binding.is_plain:
            check_topic_prefix(binding.topic_prefix)
        access.check_scope(binding.scope)
        if image.level < ACCESS_LISTS and not binding.is_plain:
            raise InvalidRequest(f"scopes that name a kind of resource, or one resource, {_NEEDS_LEVEL}")
    return tuple(bindings)


def revoke_key(image: ClusterImage, key_id: str, *, generation: int = 0) -> Transaction:
    """Refuse a key from now on, on streams that are open too.

    With a generation, a key that has not come yet is refused when it comes; without one it is `NotFound`.
    """
    record = image.keys.get(key_id)
    if record is None:
        if not generation:
            raise NotFound(f"key {key_id[:32]!r} does not exist")
        return _refuse_ahead(image, key_id, generation)
    if outdated(generation, record.generation):
        return Transaction(compares=(), changes=(), ignored=True)
    after = replace(record, revoked=True, generation=max(generation, record.generation))
    if after == record:
        return Transaction(compares=(), changes=())
    key = model.credential_key(key_id)
    return Transaction(
        compares=(Compare(key, image.key_revisions[key_id]),), changes=(Put(key, after.encode()),)
    )


def _refuse_ahead(image: ClusterImage, key_id: str, generation: int) -> Transaction:
    if not is_key_id(key_id):
        raise InvalidRequest(f"key id {key_id[:32]!r}: 12 letters and digits required")
    if key_id in image.refused_keys:
        return Transaction(compares=(), changes=())
    key = model.refused_key(key_id)
    return Transaction(
        compares=(Compare(key, 0), Compare(model.credential_key(key_id), 0)),
        changes=(Put(key, str(generation).encode()),),
    )


def unchanged(key: str, read: KeyValue | None) -> Compare:
    """The key is still what was read."""
    return Compare(key, 0 if read is None else read.mod_revision)
