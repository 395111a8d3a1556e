"""What keys and principals may do: scopes of keys, and a tenant's access list with its groups of principals."""

from django.db import models

from control_plane.ids import LENGTH_MAX
from control_plane.outbox.models import DesiredObject
from penstock.contract.limits import KEY_NAME_LENGTH_MAX, TOPIC_NAME_LENGTH_MAX
from penstock.rules.access import PRINCIPAL_LENGTH_MAX, Acl, Scope
from tenants.models import ApiKey, Tenant


class KeyBinding(models.Model):
    """A scope: operations on resources whose name begins with `topic_prefix`. A key without one may do everything."""

    key = models.ForeignKey(ApiKey, on_delete=models.PROTECT, related_name="bindings")
    topic_prefix = models.CharField(max_length=TOPIC_NAME_LENGTH_MAX, blank=True)
    operations = models.JSONField(default=list)
    """Names of operations; none = describe, produce, consume and delete."""
    resource = models.CharField(max_length=20, blank=True, default="")
    """Kind of resource; empty = topics and groups."""
    literal = models.BooleanField(default=False)
    """The one resource that is called `topic_prefix`."""

    @property
    def kind_in_words(self) -> str:
        """The kind of resource for people."""
        return self.resource.replace("_", " ")

    @property
    def scope(self) -> Scope:
        return Scope(
            resource=self.resource,
            name=self.topic_prefix,
            literal=self.literal,
            operations=tuple(self.operations),
        )


class TenantAccessList(DesiredObject):
    """A tenant's access list: what brokers get as a whole. A tenant without this row has set nothing."""

    tenant = models.OneToOneField(Tenant, on_delete=models.PROTECT, related_name="access")
    default = models.CharField(max_length=8, default="allow")
    """What holds for what no entry speaks of: `allow` or `deny`."""


class AclEntry(models.Model):
    """One entry of an access list. It never changes."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="acls")
    effect = models.CharField(max_length=8)
    principal = models.CharField(max_length=PRINCIPAL_LENGTH_MAX)
    resource = models.CharField(max_length=20)
    name = models.CharField(max_length=TOPIC_NAME_LENGTH_MAX, blank=True)
    literal = models.BooleanField(default=False)
    operations = models.JSONField(default=list)
    addresses = models.JSONField(default=list)
    fingerprint = models.CharField(max_length=64)
    """Of all that it says: no entry stands twice."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "fingerprint"], name="access_no_entry_twice"),
        )

    @property
    def acl(self) -> Acl:
        return Acl(
            effect=self.effect,
            principal=self.principal,
            resource=self.resource,
            name=self.name,
            literal=self.literal,
            operations=tuple(self.operations),
            addresses=tuple(self.addresses),
        )


class PrincipalGroup(models.Model):
    """People, service accounts and other groups that entries name together."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="principal_groups")
    name = models.CharField(max_length=KEY_NAME_LENGTH_MAX)
    members = models.JSONField(default=list)
    """Principals, sorted."""
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["tenant", "name"], name="access_one_group_a_name"),)
