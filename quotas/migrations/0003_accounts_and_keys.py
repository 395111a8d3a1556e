"""Limits of a tenant's own on its service accounts and keys."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0002_plans"),
    ]

    operations = [
        migrations.AddField(
            model_name="quota", name="service_accounts_max", field=models.PositiveIntegerField(null=True)
        ),
        migrations.AddField(
            model_name="quota", name="keys_max", field=models.PositiveIntegerField(null=True)
        ),
    ]
