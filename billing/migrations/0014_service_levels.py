"""What service levels are measured with, and what was credited."""

import django.db.models.deletion
from django.db import migrations, models

import billing.service_level_models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0013_measured_days"),
        ("tenants", "0012_inviters"),
    ]

    operations = [
        migrations.CreateModel(
            name="ProbeMinute",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("prober", models.CharField(max_length=255)),
                ("operation", models.CharField(max_length=32)),
                ("minute", models.BigIntegerField()),
                ("valid", models.PositiveIntegerField()),
                ("bad", models.PositiveIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("operation", "minute", "prober"), name="billing_one_minute_a_prober"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="LatencyDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("operation", models.CharField(max_length=32)),
                ("day", models.DateField()),
                ("bucket", models.PositiveIntegerField()),
                ("requests", models.PositiveBigIntegerField()),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="latency_days",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "operation", "day", "bucket"), name="billing_one_latency_a_day"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ServiceExclusion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "public_id",
                    models.CharField(
                        default=billing.service_level_models.new_exclusion_id, max_length=40, unique=True
                    ),
                ),
                ("from_at", models.DateTimeField()),
                ("until_at", models.DateTimeField()),
                ("reason", models.CharField(max_length=200)),
                ("withdrawn_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="sla_exclusions",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["from_at"], name="billing_exclusions_by_time")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("until_at__gt", models.F("from_at"))),
                        name="billing_exclusion_ends_later",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ServiceLevelReport",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "public_id",
                    models.CharField(
                        default=billing.service_level_models.new_report_id, max_length=40, unique=True
                    ),
                ),
                ("month", models.DateField()),
                ("document", models.JSONField()),
                ("document_sha256", models.CharField(max_length=64)),
                ("credit_micro", models.PositiveBigIntegerField()),
                ("posted_at", models.DateTimeField()),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="sla_reports",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "month"), name="billing_one_sla_report_a_month")
                ],
            },
        ),
        migrations.CreateModel(
            name="SlaMinute",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("operation", models.CharField(max_length=32)),
                ("minute", models.BigIntegerField()),
                ("valid", models.PositiveBigIntegerField()),
                ("bad", models.PositiveBigIntegerField()),
                ("succeeded_seconds", models.PositiveBigIntegerField()),
                ("failed_seconds", models.PositiveBigIntegerField()),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="sla_minutes",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "operation", "minute"), name="billing_one_sla_minute"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SlaSlow",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("operation", models.CharField(max_length=32)),
                ("window", models.DateTimeField()),
                ("over_ms", models.PositiveIntegerField()),
                ("slow", models.PositiveBigIntegerField()),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="sla_slow",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "operation", "window", "over_ms"), name="billing_one_slow_a_window"
                    )
                ],
            },
        ),
    ]
