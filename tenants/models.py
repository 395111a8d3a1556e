"""Tenants, organisations, people, what they are in each and who is invited, accounts, keys, sessions, operators."""

from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.db import models
from django.db.models.functions import Lower

from control_plane.ids import (
    LENGTH_MAX,
    new_organisation_id,
    new_person_id,
    new_sign_in_id,
    new_tenant_id,
)
from control_plane.outbox.models import DesiredObject
from penstock.contract.limits import DISPLAY_NAME_LENGTH_MAX, KEY_NAME_LENGTH_MAX
from tenants.roles import OrganisationRole, Role

TENANT_NAME_LENGTH_MAX = 63
BROWSER_LENGTH_MAX = 200
PROVIDER_TEXT_MAX = 255
"""The longest subject of OpenID Connect."""


class Organisation(models.Model):
    """It owns several tenants, so that people have their roles in all of them at once. Brokers know nothing of it."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True, default=new_organisation_id)
    name = models.CharField(max_length=TENANT_NAME_LENGTH_MAX)
    display_name = models.CharField(max_length=DISPLAY_NAME_LENGTH_MAX)
    """For people, and not unique: wherever it is shown, the name is too."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (models.UniqueConstraint(Lower("name"), name="tenants_one_organisation_a_name"),)


class Tenant(DesiredObject):
    """A logical cluster: topics, keys and quotas of its own. `public_id` is its id on the brokers too."""

    name = models.CharField(max_length=TENANT_NAME_LENGTH_MAX)
    suspended = models.BooleanField(default=False)
    protected = models.BooleanField(default=False, db_default=False)
    """It cannot be closed."""
    closed_at = models.DateTimeField(null=True)
    """When it was closed; None = it is open."""
    purge_at = models.DateTimeField(null=True)
    """Until when it can be reopened."""
    purged_at = models.DateTimeField(null=True)
    """When its topics, keys and people went; its invoices and its audit log stay."""
    factors_from = models.DateTimeField(null=True)
    """From when on only people with a second factor are let in; None = all of its people are. Keys are not affected."""

    organisation = models.ForeignKey(
        Organisation, on_delete=models.PROTECT, related_name="tenants", null=True
    )
    """Whose members have their roles here too; None = the tenant stands alone."""

    @property
    def stopped(self) -> bool:
        """Whether its keys are refused."""
        return self.suspended or self.closed_at is not None

    class Meta:
        constraints = (models.UniqueConstraint(Lower("name"), name="tenants_one_tenant_a_name"),)

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.public_id = self.public_id or new_tenant_id()
        super().save(*args, **kwargs)


class Closing(models.Model):
    """A time in which a tenant was closed. Its fees stand still meanwhile, so it stays for as long as invoices do."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="closings")
    closed_at = models.DateTimeField()
    reopened_at = models.DateTimeField(null=True)
    """None = it is closed."""


class Person(AbstractBaseUser):
    """A person who signs in, known by an e-mail address in lower case."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True, default=new_person_id)
    email = models.EmailField(unique=True)
    is_active = models.BooleanField(default=True)
    tenants_max = models.PositiveIntegerField(null=True)
    """How many tenants they may own; None = the default."""
    created_at = models.DateTimeField(auto_now_add=True)

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    objects = BaseUserManager()


class Membership(models.Model):
    """What a person is in a tenant."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="memberships")
    person = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="memberships")
    role = models.CharField(max_length=16, choices=[(role.value, role.value) for role in Role])
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "person"], name="tenants_one_role_a_person"),
        )


class OrganisationMember(models.Model):
    """What a person is in an organisation."""

    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="members")
    person = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="organisation_members")
    role = models.CharField(max_length=16, choices=[(role.value, role.value) for role in OrganisationRole])
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["organisation", "person"], name="tenants_one_role_a_member"),
        )


class InvitationLink(models.Model):
    """A person may join with a role, by a link that is shown once. The link's token is not stored."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    email = models.EmailField()
    """In lower case: only a person of this address may take it."""
    inviter = models.ForeignKey("tenants.Person", on_delete=models.PROTECT, related_name="+", null=True)
    """Who made it, and may make it still when it is taken; None = it is of a release that kept none."""
    token_hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    """When it was taken or withdrawn, or a newer one took its place."""

    class Meta:
        abstract = True


class OrganisationInvitation(InvitationLink):
    """To an organisation."""

    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="invitations")
    role = models.CharField(max_length=16, choices=[(role.value, role.value) for role in OrganisationRole])

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["organisation", "email"],
                condition=models.Q(ended_at=None),
                name="tenants_one_open_invitation_of_org",
            ),
        )


class Invitation(InvitationLink):
    """To a tenant."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="invitations")
    role = models.CharField(max_length=16, choices=[(role.value, role.value) for role in Role])

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tenant", "email"],
                condition=models.Q(ended_at=None),
                name="tenants_one_open_invitation_an_address",
            ),
        )


class ServiceAccount(models.Model):
    """A program that works for a tenant; its keys may overlap while they are exchanged."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="service_accounts")
    name = models.CharField(max_length=KEY_NAME_LENGTH_MAX)
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)
    """When it was deleted: its keys are revoked, and its name is free."""

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tenant", "name"],
                condition=models.Q(ended_at=None),
                name="tenants_one_account_a_name",
            ),
        )


class ApiKey(DesiredObject):
    """A key of a tenant. Its secret is not here: a peppered HMAC and SCRAM verifiers are."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="keys")
    service_account = models.ForeignKey(
        ServiceAccount, on_delete=models.PROTECT, related_name="keys", null=True
    )
    key_id = models.CharField(max_length=12, unique=True)
    """The public part of the key's text, and its id on the brokers."""
    name = models.CharField(max_length=KEY_NAME_LENGTH_MAX)
    principal_number = models.PositiveBigIntegerField(null=True)
    """By which usage records name it; None: the brokers have not said it yet."""
    pepper_version = models.PositiveIntegerField()
    secret_hmac = models.CharField(max_length=64)
    scram = models.JSONField()
    maker = models.ForeignKey(Person, on_delete=models.PROTECT, related_name="keys_made", null=True)
    """Who made it, or made the key that made it: it never may more than they may now. None = the service's own, or a
    service account's, which outlives who made it.
    """
    verifies = models.BooleanField(default=False)
    """It proves invoices and does nothing else: roles that hold no other key may hold it."""
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    """When it was last shown to the control plane; to the minute."""


class Session(models.Model):
    """A person who has signed in. The token itself is not here."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True, default=new_sign_in_id)
    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="sessions")
    token_hash = models.CharField(max_length=64, unique=True)
    source = models.CharField(max_length=64)
    """The address that it came from; empty if it is older than these columns."""
    browser = models.CharField(max_length=BROWSER_LENGTH_MAX)
    """What the browser or program calls itself."""
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()


class PasswordReset(models.Model):
    """A person may choose a new password, by a link. The link's token itself is not here."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="resets")
    token_hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    """When it was used, or a newer one or a changed password took its place."""
    # In the database too: processes of the release before write rows without it.
    mailed = models.BooleanField(default=False, db_default=False)
    """Only the reader of the person's e-mails has the link; else an operator passed it on."""


class PendingSignUp(models.Model):
    """An address that wants to sign up, until the link that it got is used. The link's token itself is not here."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    email = models.EmailField()
    tenant_name = models.CharField(max_length=TENANT_NAME_LENGTH_MAX)
    token_hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)


class AddressProof(models.Model):
    """A person shows by a link that they read the e-mails of their address. The link's token itself is not here."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="address_proofs")
    email = models.EmailField()
    token_hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)


class AddressChange(models.Model):
    """A person wants another address, has it since a link to it was used, and the address before can take it back.

    asked for -> confirmed -> taken back; the first ends with `expires_at`, the second with `undo_until`. The links'
    tokens themselves are not here.
    """

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="address_changes")
    before = models.EmailField()
    after = models.EmailField()
    token_hash = models.CharField(max_length=64, unique=True)
    undo_hash = models.CharField(max_length=64, unique=True, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    confirmed_at = models.DateTimeField(null=True)
    undo_until = models.DateTimeField(null=True)
    """Until then the address before belongs to no other person."""
    ended_at = models.DateTimeField(null=True)
    """When a newer one took its place, it was withdrawn or it was taken back."""

    class Meta:
        indexes = (models.Index(fields=["before"], name="tenants_address_before"),)


class PendingSignIn(models.Model):
    """A person whose password is right, until their second factor is too. Its token itself is not here."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="pending_sign_ins")
    token_hash = models.CharField(max_length=64, unique=True)
    challenge = models.JSONField(null=True)
    """What a passkey has to sign; None = a passkey was not asked for."""
    attempts = models.PositiveIntegerField(default=0)
    """Wrong codes so far."""
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)


class FactorSetup(models.Model):
    """A second factor that a person is about to add: what the next request is compared with."""

    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="factor_setups")
    kind = models.CharField(max_length=16)
    """totp or webauthn."""
    state = models.JSONField()
    """The secret, encrypted, and the hash of the token of the sign-in that got it; or what the passkey has to sign."""
    expires_at = models.DateTimeField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["person", "kind"], name="tenants_one_setup_a_kind"),)


class ProviderIdentity(models.Model):
    """A person as a provider of OpenID Connect knows them: by issuer and subject, never by an address."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=PROVIDER_TEXT_MAX)
    subject = models.CharField(max_length=PROVIDER_TEXT_MAX)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["issuer", "subject"], name="tenants_one_person_an_identity"),
        )


class ProviderAttempt(models.Model):
    """A browser that was sent to a provider and has not come back. What it comes back with is not here."""

    token_hash = models.CharField(max_length=64, unique=True)
    provider = models.CharField(max_length=32)
    nonce = models.CharField(max_length=64)
    verifier = models.CharField(max_length=64)
    """What the code is exchanged with (RFC 7636)."""
    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="+", null=True)
    """Who links their account; None = a person signs in."""
    wanted = models.CharField(max_length=500)
    """The page to go to."""
    expires_at = models.DateTimeField()


class OperatorToken(models.Model):
    """An operator of the service. The token itself is not stored."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    name = models.CharField(max_length=KEY_NAME_LENGTH_MAX)
    token_hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True)
