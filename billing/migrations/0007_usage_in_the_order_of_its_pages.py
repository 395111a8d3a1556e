"""Billed usage names its tenant, and a tenant's usage is found by topic and by day."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def name_tenants(apps: Any, schema_editor: Any) -> None:
    """Of each row, the tenant of its cut."""
    cuts = apps.get_model("billing", "Cut").objects.filter(pk=models.OuterRef("cut_id"))
    apps.get_model("billing", "CutUsage").objects.update(tenant_id=models.Subquery(cuts.values("tenant_id")))


def _of_tenant(**options: Any) -> models.ForeignKey[Any, Any]:
    return models.ForeignKey(
        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant", **options
    )


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0006_waivers_and_alerts"),
        ("tenants", "0002_invitations"),
    ]

    operations = [
        migrations.AddField(model_name="cutusage", name="tenant", field=_of_tenant(null=True)),
        migrations.RunPython(name_tenants, migrations.RunPython.noop),
        migrations.AlterField(model_name="cutusage", name="tenant", field=_of_tenant()),
        *(
            migrations.AddIndex(model_name=model, index=models.Index(fields=["tenant", *order], name=name))
            for model, name, order in (
                ("cutusage", "billing_billed_by_topic", ("topic", "day")),
                ("cutusage", "billing_billed_by_day", ("day", "topic")),
                ("usageday", "billing_used_by_topic", ("topic", "day")),
                ("usageday", "billing_used_by_day", ("day", "topic")),
            )
        ),
    ]
