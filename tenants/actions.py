"""Writes tenants, people, keys, sessions and operators' tokens; each change with its audit entry and outbox row."""

import re
from datetime import datetime, timedelta

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.db.models.functions import Lower
from django.utils import timezone

from control_plane.audit import actions as audit
from control_plane.audit.actor import Actor, ActorKind
from control_plane.ids import new_id
from control_plane.outbox import actions as outbox
from control_plane.outbox import conditions
from penstock.contract.api_keys import ApiKey as KeyText
from penstock.contract.errors import (
    AlreadyExists,
    Forbidden,
    InvalidRequest,
    LimitExceeded,
    NotFound,
)
from penstock.contract.ids import SYSTEM_TENANT
from penstock.contract.limits import KEY_NAME_LENGTH_MAX
from penstock.rules.names import check_printable_name
from tenants import tokens
from tenants.credentials import credential_of, new_key
from tenants.models import (
    BROWSER_LENGTH_MAX,
    TENANT_NAME_LENGTH_MAX,
    ApiKey,
    Membership,
    OperatorToken,
    Organisation,
    Person,
    ServiceAccount,
    Session,
    Tenant,
)
from tenants.password_line import hash_password, prepared
from tenants.queries import is_kept, role_in, tenants_max_of, tenants_owned
from tenants.roles import Permission, Role, may_hold

KIND_TENANT = "tenant"
KIND_KEY = "key"

SESSION_LENGTH = timedelta(days=7)

_TENANT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


# -- people ---------------------------------------------------------------------------------------------


def sign_up(
    *, email: str, password: str, tenant_name: str, request_id: str, source: str, browser: str = ""
) -> tuple[Person, Tenant, str]:
    """A person, the tenant that they own, and the token of their first session.

    Raises `InvalidRequest`, `AlreadyExists` (the address or the tenant's name is taken), `Throttled`.
    """
    address = checked_email(email)
    hashed = hash_password(checked_password(password, address), source=source)
    with transaction.atomic():
        person = add_person(address, hashed)
        actor = Actor(kind=ActorKind.PERSON, id=person.public_id, request_id=request_id, source=source)
        tenant = create_tenant(actor, name=tenant_name, owner=person)
        return person, tenant, open_session(person, source=source, browser=browser)


def add_person(address: str, hashed_password: str) -> Person:
    """Part of the caller's transaction. Raises `AlreadyExists` (the address has signed up, or is kept for a person)."""
    known = AlreadyExists(f"email: {address} has signed up before")
    try:
        with transaction.atomic():
            person = Person.objects.create(email=address, password=hashed_password)
            # After the write: a person who leaves the address at this moment is waited for.
            if is_kept(address):
                raise known
            return person
    except IntegrityError:
        raise known from None


def sign_out(token: str) -> None:
    """End the session of this token, if there is one."""
    Session.objects.filter(token_hash=tokens.token_hash(token)).delete()


def open_session(person: Person, *, source: str, browser: str) -> str:
    """The token of a new session, which is nowhere afterwards. That the person signed in is noted."""
    token = tokens.new_token(tokens.SESSION_PREFIX)
    Session.objects.create(
        person=person,
        token_hash=tokens.token_hash(token),
        source=source,
        browser=browser[:BROWSER_LENGTH_MAX],
        expires_at=timezone.now() + SESSION_LENGTH,
    )
    Person.objects.filter(pk=person.pk).update(last_login=timezone.now())
    return token


def lock_person(person: Person) -> Person:
    """The person as they are now; no other request signs them in or changes them until the transaction ends."""
    return Person.objects.select_for_update(no_key=True).get(pk=person.pk)


def checked_email(email: str) -> str:
    """The address in lower case. Raises `InvalidRequest`."""
    address = email.strip().lower()
    try:
        validate_email(address)
    except ValidationError:
        raise InvalidRequest(f"email: {address[:100]!r} is no e-mail address") from None
    if not address.isascii():
        # Of two addresses that look the same one could be another's: the ASCII form of a domain shows what it is.
        raise InvalidRequest(
            f"email: {address[:100]!r} has letters beyond a-z; write the domain in its ASCII form, xn--…"
        )
    return address


def checked_password(password: str, email: str) -> str:
    """The password, if it is none that is easily guessed. Raises `InvalidRequest`."""
    try:
        validate_password(prepared(password))
    except ValidationError as error:
        raise InvalidRequest(f"password: {' '.join(error.messages)}") from None
    if password.strip().lower() == email:
        raise InvalidRequest("password: it is the e-mail address")
    return password


# -- tenants --------------------------------------------------------------------------------------------


def create_tenant(actor: Actor, *, name: str, owner: Person | None = None, public_id: str = "") -> Tenant:
    """A tenant, owned by `owner`.

    Raises `InvalidRequest`, `AlreadyExists`, `LimitExceeded` (they own as many as they may), `Forbidden` (one of
    theirs is suspended; their others go on).
    """
    checked_tenant_name(name)
    with transaction.atomic():
        if owner is not None:
            check_tenant_limit(owner)
            suspended = tenants_owned(owner).filter(suspended=True).first()
            if suspended is not None:
                raise Forbidden(
                    f"tenant: {suspended.name} is suspended; until it is resumed you make no other"
                )
        try:
            with transaction.atomic():
                tenant = Tenant.objects.create(name=name, public_id=public_id)
        except IntegrityError:
            raise name_taken(name) from None
        if owner is not None:
            Membership.objects.create(tenant=tenant, person=owner, role=Role.OWNER)
        audit.record(
            actor,
            tenant=tenant.public_id,
            action="tenant.create",
            object_id=tenant.public_id,
            after={"name": name},
        )
        deliver_tenant(tenant)
    return tenant


def checked_tenant_name(name: str, field: str = "tenant") -> str:
    """`name`, if a tenant or an organisation may be called so. Raises `InvalidRequest`."""
    if not _TENANT_NAME.fullmatch(name) or len(name) > TENANT_NAME_LENGTH_MAX:
        raise InvalidRequest(
            f"{field}: {name[:TENANT_NAME_LENGTH_MAX]!r}: 1 to {TENANT_NAME_LENGTH_MAX} of A-Z a-z 0-9 . _ -, "
            "beginning with a letter or digit"
        )
    return name


def check_name_is_free(name: str) -> None:
    """Raise `AlreadyExists` if a tenant is called so."""
    if Tenant.objects.annotate(folded=Lower("name")).filter(folded=name.lower()).exists():
        raise name_taken(name)


def name_taken(name: str) -> AlreadyExists:
    return AlreadyExists(f"tenant: the name {name!r} is taken")


def check_tenant_limit(person: Person) -> None:
    """Raise `LimitExceeded` if the person owns as many tenants as they may; no request gives them another until the
    transaction ends.
    """
    locked = lock_person(person)
    most, owned = tenants_max_of(locked), tenants_owned(locked).count()
    if owned >= most:
        raise LimitExceeded(
            f"tenant: {locked.email} owns {owned} tenants, and tenants_max is {most}; operators can raise it",
            limit="TENANTS_PER_PERSON_MAX",
        )


def lock_roles(tenant: Tenant) -> None:
    """No other request changes who is what in the tenant, also by its organisation, until the transaction ends.

    A tenant is always locked before an organisation, and several tenants in the order of their rows.
    """
    locked = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    if locked.organisation_id is not None:
        Organisation.objects.select_for_update(no_key=True).get(pk=locked.organisation_id)


def set_suspended(actor: Actor, tenant: Tenant, suspended: bool) -> Tenant:
    """Suspend or resume: a suspended tenant's keys are refused. Doing it again changes nothing.

    Raises `InvalidRequest` for the service's own tenant.
    """
    check_not_the_service(tenant)
    with transaction.atomic():
        locked = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        if locked.suspended == suspended:
            return locked
        locked.suspended = suspended
        locked.generation += 1
        locked.save(update_fields=["suspended", "generation", "updated_at"])
        audit.record(
            actor,
            tenant=locked.public_id,
            action="tenant.suspend" if suspended else "tenant.resume",
            object_id=locked.public_id,
            before={"suspended": not suspended},
            after={"suspended": suspended},
        )
        deliver_tenant(locked)
    return locked


def check_open(tenant: Tenant) -> None:
    """What is made new in a closed tenant would be gone with the purge, or come too late for it. The caller has the
    tenant's row locked. Raises `InvalidRequest`."""
    if tenant.closed_at is not None:
        raise InvalidRequest(f"tenant: {tenant.name} is closed; reopen it first")


def check_not_the_service(tenant: Tenant) -> None:
    """Raise `InvalidRequest` for the service's own tenant: without its key and topics nothing is metered or billed."""
    if tenant.public_id == SYSTEM_TENANT:
        raise InvalidRequest(
            f"{SYSTEM_TENANT} is the service's own tenant; it is neither suspended nor limited"
        )


def take_back_suspended(actor: Actor, tenant: Tenant, before: Tenant, why: str) -> bool:
    """The brokers refused to suspend or resume the tenant: it is as before again. As `take_back_tenant`."""
    with transaction.atomic():
        locked = take_back_tenant(tenant, before)
        if locked is None:
            return False
        locked.suspended = before.suspended
        locked.save(update_fields=["suspended", "updated_at"])
        audit.record(
            actor,
            tenant=locked.public_id,
            action="tenant.suspend_refused" if tenant.suspended else "tenant.resume_refused",
            object_id=locked.public_id,
            before={"suspended": tenant.suspended},
            after={"suspended": before.suspended, "why": why},
        )
    return True


def take_back_tenant(tenant: Tenant, before: Tenant) -> Tenant | None:
    """The brokers refused the change that made `tenant` of `before`: the row under its lock, with a new generation
    that is delivered. None if a process delivers it or has changed it too.

    The caller's transaction undoes the change itself. An attempt whose answer was lost may reach the brokers late, and
    is outdated then.
    """
    locked = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    if not locked.generation == tenant.generation == before.generation + 1 or outbox.is_being_delivered(
        KIND_TENANT, tenant.public_id
    ):
        return None
    locked.generation += 1
    locked.conditions = conditions.without(locked.conditions, conditions.DELIVERY)
    locked.save(update_fields=["generation", "conditions", "updated_at"])
    deliver_tenant(locked)
    return locked


def touch_tenant(actor: Actor, tenant: Tenant, *, at_least: int = 0) -> Tenant:
    """Something that is delivered with the tenant changed (its limits), or brokers must get it again.

    The new generation is above `at_least`, what the brokers have. The caller writes the audit entry.
    """
    with transaction.atomic():
        locked = Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
        locked.generation = max(locked.generation, at_least) + 1
        locked.save(update_fields=["generation", "updated_at"])
        deliver_tenant(locked)
    return locked


def deliver_tenant(tenant: Tenant) -> None:
    """Part of the caller's transaction: brokers get the tenant as it is once that is committed."""
    outbox.enqueue(
        kind=KIND_TENANT, object_id=tenant.public_id, tenant=tenant.public_id, generation=tenant.generation
    )


# -- keys -----------------------------------------------------------------------------------------------


def create_key(
    actor: Actor,
    tenant: Tenant,
    *,
    name: str,
    expires_at: datetime | None = None,
    account: ServiceAccount | None = None,
    text: KeyText | None = None,
    bound_to: dict[str, object] | None = None,
    within_service: bool = False,
    verifies: bool = False,
) -> tuple[ApiKey, KeyText]:
    """A key and its text, which is nowhere afterwards. `text`: a key that was written down before. `verifies`: it
    proves invoices and does nothing else.

    A key of a service account is the account's alone. Any other belongs to the person who acts, or to the person or
    account of the key that acts, and never may more than they may. A key ends with the key that made it.
    `within_service`: no person gets the text, and the service asks for their rights itself.
    `bound_to` stands in the audit entry; `access` keeps it.

    Raises `InvalidRequest` (name, expiry), `Forbidden` (the actor may hold no keys), `NotFound` (`account` is gone).
    """
    check_printable_name("name", name, KEY_NAME_LENGTH_MAX)
    if expires_at is not None and expires_at <= timezone.now():
        raise InvalidRequest(f"expires_at: {expires_at.isoformat()} is past")
    text = text or new_key()
    credential = credential_of(text)
    with transaction.atomic():
        maker = None
        if not within_service:
            maker, last, own = _maker(actor, tenant, verifies)
            check_open(Tenant.objects.get(pk=tenant.pk))
            account = account or own
            if account is not None:
                maker = None
                # Under the tenant's lock, which who deletes an account takes too.
                if not ServiceAccount.objects.filter(pk=account.pk, ended_at=None).exists():
                    raise NotFound(f"service account {account.public_id} does not exist")
            if last is not None and expires_at is not None and expires_at > last:
                raise InvalidRequest(
                    f"expires_at: the key that makes this one ends at {last.isoformat()}; a key ends with its maker"
                )
            expires_at = expires_at or last
        key = ApiKey.objects.create(
            public_id=f"key_{text.key_id}",
            tenant=tenant,
            maker=maker,
            service_account=account,
            verifies=verifies,
            key_id=text.key_id,
            name=name,
            pepper_version=credential.pepper_version,
            secret_hmac=credential.secret_hmac,
            scram=credential.scram,
            expires_at=expires_at,
        )
        audit.record(
            actor,
            tenant=tenant.public_id,
            action="key.create",
            object_id=key.public_id,
            after={
                "name": name,
                "expires_at": expires_at.isoformat() if expires_at else None,
                **(bound_to or {}),
            },
        )
        deliver_key(key)
    return key, text


def withdraw_key(actor: Actor, key: ApiKey, why: str) -> bool:
    """The brokers refused a new key: it was never there. False if a process delivers or has changed it, or the brokers
    have it.

    Nothing may refer to the key any more. Part of the caller's transaction.
    """
    locked = (
        ApiKey.objects.select_for_update(no_key=True, of=("self",)).select_related("tenant").get(pk=key.pk)
    )
    if (
        locked.generation != key.generation
        or locked.delivered_generation
        or not outbox.withdraw(KIND_KEY, key.public_id)
    ):
        return False
    audit.record(
        actor,
        tenant=locked.tenant.public_id,
        action="key.refused",
        object_id=locked.public_id,
        before={"name": locked.name},
        after={"why": why},
    )
    locked.delete()
    return True


def locked_key(pk: int) -> ApiKey:
    """The key, locked and with its tenant, which is not: those who lock both take the tenant first. Part of the
    caller's transaction.
    """
    rows = ApiKey.objects.select_for_update(no_key=True, of=("self",)).select_related("tenant")
    return rows.get(pk=pk)


def revoke_key(actor: Actor, key: ApiKey, *, reason: str = "") -> ApiKey:
    """Refuse the key from now on, on open streams too. Doing it again changes nothing."""
    with transaction.atomic():
        locked = locked_key(key.pk)
        if locked.revoked_at is not None:
            return locked
        locked.revoked_at = timezone.now()
        locked.generation += 1
        locked.save(update_fields=["revoked_at", "generation", "updated_at"])
        audit.record(
            actor,
            tenant=locked.tenant.public_id,
            action="key.revoke",
            object_id=locked.public_id,
            before={"name": locked.name},
            after={"reason": reason} if reason else {},
        )
        deliver_key(locked)
    return locked


def revoke_keys_of(
    actor: Actor, tenant: Tenant, person: Person, *, reason: str, verifying: bool = True
) -> int:
    """Revoke every key of the tenant that the person made; how many. `verifying`: those that only prove invoices, too.
    Part of the caller's transaction.
    """
    made = list(ApiKey.objects.filter(tenant=tenant, maker=person, revoked_at=None).order_by("pk"))
    made = [key for key in made if verifying or not key.verifies]
    for key in made:
        revoke_key(actor, key, reason=reason)
    return len(made)


def touch_key(actor: Actor, key: ApiKey, *, at_least: int = 0) -> ApiKey:
    """Brokers must get the key again; as `touch_tenant`."""
    with transaction.atomic():
        locked = locked_key(key.pk)
        locked.generation = max(locked.generation, at_least) + 1
        locked.save(update_fields=["generation", "updated_at"])
        deliver_key(locked)
    return locked


def _maker(
    actor: Actor, tenant: Tenant, verifies: bool
) -> tuple[Person | None, datetime | None, ServiceAccount | None]:
    """Who answers for a key that the actor makes, when it must end, and whose service account's key acts: looked at
    under the tenant's lock, so that no role falls meanwhile. Raises `Forbidden`.
    """
    lock_roles(tenant)
    if actor.kind is ActorKind.SYSTEM:
        return None, None, None
    person, last = None, None
    if actor.kind is ActorKind.KEY:
        key = (
            ApiKey.objects.select_related("maker", "service_account")
            .filter(tenant=tenant, public_id=actor.id)
            .first()
        )
        if key is None or key.revoked_at is not None:
            raise Forbidden(f"keys of {tenant.name} are made by its people and keys")
        if key.maker is None:
            return None, key.expires_at, key.service_account
        person, last = key.maker, key.expires_at
    elif actor.kind is ActorKind.PERSON:
        person = Person.objects.filter(public_id=actor.id).first()
    role = None if person is None else role_in(tenant, person)
    if not may_hold(role, verifies=verifies):
        raise Forbidden(
            f"{Permission.KEYS_WRITE.value} is not for {'strangers' if role is None else role.value}"
        )
    return person, last, None


def deliver_key(key: ApiKey) -> None:
    """The brokers must get the key as it is. Part of the caller's transaction."""
    outbox.enqueue(
        kind=KIND_KEY, object_id=key.public_id, tenant=key.tenant.public_id, generation=key.generation
    )


# -- operators ------------------------------------------------------------------------------------------


def create_operator(actor: Actor, *, name: str, tenant: str, token: str | None = None) -> str:
    """An operator's token, which is not stored. `tenant`: whose audit log has the entry, the system's."""
    token = token or tokens.new_token(tokens.OPERATOR_PREFIX)
    with transaction.atomic():
        row, made = OperatorToken.objects.get_or_create(
            token_hash=tokens.token_hash(token), defaults={"public_id": new_id("opr"), "name": name}
        )
        if made:
            audit.record(
                actor, tenant=tenant, action="operator.create", object_id=row.public_id, after={"name": name}
            )
    return token


def revoke_operator(actor: Actor, *, public_id: str, tenant: str) -> None:
    """Refuse an operator's token; again changes nothing. Raises `NotFound`, `InvalidRequest` (the last one)."""
    with transaction.atomic():
        # All of them: of the last two, two operators cannot revoke each other at once.
        rows = {
            row.public_id: row for row in OperatorToken.objects.select_for_update(no_key=True).order_by("pk")
        }
        row = rows.get(public_id)
        if row is None:
            raise NotFound(f"operator {public_id[:40]!r} does not exist")
        if row.revoked_at is not None:
            return
        if sum(one.revoked_at is None for one in rows.values()) == 1:
            raise InvalidRequest(f"operator: the token of {row.name} is the last one; make another first")
        row.revoked_at = timezone.now()
        row.save(update_fields=["revoked_at"])
        audit.record(
            actor, tenant=tenant, action="operator.revoke", object_id=public_id, before={"name": row.name}
        )


# -- what became of a delivery --------------------------------------------------------------------------
