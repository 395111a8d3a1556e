"""Limits of a tenant's own on what its topics keep, and on changes of its topics and partitions."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0007_requests_attempts_bursts"),
    ]

    operations = [
        migrations.CreateModel(
            name="PartitionChanges",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("began_at", models.DateTimeField()),
                ("changes", models.PositiveBigIntegerField()),
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="partition_changes",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="quota", name="storage_bytes_max", field=models.PositiveBigIntegerField(null=True)
        ),
        migrations.AddField(
            model_name="quota",
            name="partition_changes_per_hour",
            field=models.PositiveIntegerField(null=True),
        ),
    ]
