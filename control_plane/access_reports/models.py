"""Access reports, which never change, and who wants no e-mail about them."""

from django.db import models

from control_plane.ids import LENGTH_MAX
from tenants.models import Person, Tenant


class AccessReport(models.Model):
    """The report of one month. It is written once, and removed as a whole when its time is over."""

    public_id = models.CharField(max_length=LENGTH_MAX, unique=True)
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="access_reports")
    month = models.CharField(max_length=7)
    """As 2026-10, so that their order is that of time."""
    made_at = models.DateTimeField()
    sha256 = models.CharField(max_length=64)
    """Of the document, which the audit log names too."""
    document = models.BinaryField()
    """The report as canonical JSON (`penstock.rules.access_report`), compressed with zlib."""
    counts = models.JSONField(default=dict)
    """How much it lists, by the name of the list."""

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["tenant", "month"], name="access_reports_one_a_month"),
        )
        indexes = (models.Index(fields=["month"], name="access_reports_by_month"),)


class ReportMailRefusal(models.Model):
    """No e-mails about reports: of the tenant to any owner, or, with a person, to this one."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    person = models.ForeignKey(Person, on_delete=models.CASCADE, related_name="+", null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["tenant"],
                condition=models.Q(person=None),
                name="access_reports_one_refusal_a_tenant",
            ),
            models.UniqueConstraint(
                fields=["tenant", "person"],
                condition=models.Q(person__isnull=False),
                name="access_reports_one_refusal_a_person",
            ),
        )
