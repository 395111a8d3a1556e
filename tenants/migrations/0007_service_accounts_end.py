"""Service accounts can be deleted: their keys stay as revoked ones, and the name is free."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("tenants", "0006_tenants_max"),)

    operations = (
        migrations.AddField(
            model_name="serviceaccount", name="ended_at", field=models.DateTimeField(null=True)
        ),
        migrations.RemoveConstraint(model_name="serviceaccount", name="tenants_one_account_a_name"),
        migrations.AddConstraint(
            model_name="serviceaccount",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at", None)),
                fields=("tenant", "name"),
                name="tenants_one_account_a_name",
            ),
        ),
    )
