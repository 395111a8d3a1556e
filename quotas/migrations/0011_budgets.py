"""Budgets of tenants, their topics and their service accounts."""

import django.db.models.deletion
from django.db import migrations, models

import control_plane.ids


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0010_storage_warning"),
        ("tenants", "0012_inviters"),
    ]

    operations = [
        migrations.CreateModel(
            name="Budget",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "public_id",
                    models.CharField(default=control_plane.ids.new_budget_id, max_length=40, unique=True),
                ),
                ("name", models.CharField(max_length=100)),
                ("period", models.CharField(max_length=10)),
                ("measure", models.CharField(max_length=10)),
                ("amount", models.PositiveBigIntegerField()),
                ("thresholds", models.JSONField()),
                ("policy", models.CharField(max_length=20)),
                ("slow_bytes_per_s", models.PositiveBigIntegerField(default=0)),
                ("topic", models.CharField(blank=True, default="", max_length=249)),
                ("noted_period_ms", models.BigIntegerField(default=0)),
                ("noted_percent", models.PositiveIntegerField(default=0)),
                ("noted_used", models.PositiveBigIntegerField(default=0)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "account",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="budgets",
                        to="tenants.serviceaccount",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="budgets",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "name"), name="one_budget_of_a_name")
                ],
            },
        ),
    ]
