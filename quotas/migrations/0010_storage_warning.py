"""Of which use of its storage limit a tenant's owners have got an e-mail."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0009_account_limits"),
        ("tenants", "0012_inviters"),
    ]

    operations = [
        migrations.CreateModel(
            name="StorageWarning",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("percent", models.PositiveSmallIntegerField()),
                ("warned_at", models.DateTimeField()),
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="storage_warning",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
    ]
