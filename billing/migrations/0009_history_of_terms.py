"""Terms of a tenant become rows that stay: the row that is there is the newest revision."""

from typing import Any

import django.db.models.deletion
from django.db import migrations, models


def keep_the_newest(apps: Any, _: Any) -> None:
    """On the way back: the release before has one row a tenant."""
    terms = apps.get_model("billing", "TenantTerms")
    newest = terms.objects.filter(tenant=models.OuterRef("tenant")).order_by("-revision").values("pk")[:1]
    terms.objects.exclude(pk=models.Subquery(newest)).delete()


class Migration(migrations.Migration):
    dependencies = [("billing", "0008_charges_and_terms"), ("tenants", "0012_inviters")]

    operations = [
        migrations.AlterField(
            model_name="tenantterms",
            name="tenant",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="billing_terms",
                to="tenants.tenant",
            ),
        ),
        migrations.AlterField(
            model_name="tenantterms",
            name="changed_at",
            field=models.DateTimeField(),
        ),
        migrations.AddConstraint(
            model_name="tenantterms",
            constraint=models.UniqueConstraint(
                fields=("tenant", "revision"), name="billing_one_terms_a_revision"
            ),
        ),
        migrations.RunPython(migrations.RunPython.noop, keep_the_newest),
    ]
