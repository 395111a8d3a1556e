"""The first form of the tables of this app."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Quota",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("produce_bytes_per_s", models.PositiveBigIntegerField(null=True)),
                ("partitions_max", models.PositiveIntegerField(null=True)),
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="quota", to="tenants.tenant"
                    ),
                ),
            ],
        ),
    ]
