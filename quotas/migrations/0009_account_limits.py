"""Limits of service accounts beside their tenant's."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0008_storage_and_changes"),
        ("tenants", "0012_inviters"),
    ]

    operations = [
        migrations.CreateModel(
            name="AccountLimits",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("produce_bytes_per_s", models.PositiveBigIntegerField(null=True)),
                ("consume_bytes_per_s", models.PositiveBigIntegerField(null=True)),
                ("requests_per_s", models.PositiveIntegerField(null=True)),
                (
                    "account",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="limits",
                        to="tenants.serviceaccount",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="account_limits",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("account", None)),
                        fields=("tenant",),
                        name="one_default_of_accounts",
                    )
                ],
            },
        ),
    ]
