"""The first form of the tables of this app."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0009_closing"),
    ]

    operations = [
        migrations.CreateModel(
            name="Webhook",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("name", models.CharField(max_length=100)),
                ("url", models.CharField(max_length=1000)),
                ("events", models.JSONField(default=list)),
                ("secret", models.TextField()),
                ("previous_secret", models.TextField(blank=True)),
                ("previous_until", models.DateTimeField(null=True)),
                ("state", models.CharField(default="on", max_length=8)),
                ("reason", models.CharField(blank=True, max_length=16)),
                ("off_at", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("pings", models.PositiveIntegerField(default=0)),
                ("pings_sent", models.PositiveIntegerField(default=0)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("failing_since", models.DateTimeField(null=True)),
                ("due_at", models.DateTimeField()),
                ("delivered_at", models.DateTimeField(null=True)),
                ("lease_until", models.DateTimeField(null=True)),
                ("lease_number", models.PositiveBigIntegerField(default=0)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="webhooks",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="WebhookAttempt",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("event_id", models.CharField(max_length=100)),
                ("event_type", models.CharField(max_length=100)),
                ("number", models.PositiveIntegerField()),
                ("at", models.DateTimeField()),
                ("duration_ms", models.PositiveIntegerField()),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("delivered", models.BooleanField()),
                ("error", models.CharField(blank=True, max_length=200)),
                (
                    "webhook",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="attempts",
                        to="webhooks.webhook",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="WebhookPosition",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("source", models.CharField(max_length=32)),
                ("position", models.PositiveBigIntegerField()),
                (
                    "webhook",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="positions",
                        to="webhooks.webhook",
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="webhook",
            index=models.Index(fields=["due_at"], name="webhooks_by_due"),
        ),
        migrations.AddConstraint(
            model_name="webhook",
            constraint=models.UniqueConstraint(fields=("tenant", "name"), name="webhooks_one_webhook_a_name"),
        ),
        migrations.AddConstraint(
            model_name="webhookposition",
            constraint=models.UniqueConstraint(
                fields=("webhook", "source"), name="webhooks_one_position_a_source"
            ),
        ),
    ]
