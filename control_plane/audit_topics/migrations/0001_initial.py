"""The first form of the table of this app."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0010_address_changes"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditTopic",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("failures", models.PositiveIntegerField(default=0)),
                ("failing_since", models.DateTimeField(null=True)),
                ("due_at", models.DateTimeField()),
                ("delivered_at", models.DateTimeField(null=True)),
                ("lease_until", models.DateTimeField(null=True)),
                ("lease_number", models.PositiveBigIntegerField(default=0)),
                ("state", models.CharField(default="off", max_length=8)),
                ("retention_ms", models.BigIntegerField(default=-1)),
                ("position", models.PositiveBigIntegerField(default=0)),
                ("secret", models.TextField(blank=True)),
                ("problem", models.CharField(blank=True, max_length=300)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "key",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="audit_topic",
                        to="tenants.apikey",
                    ),
                ),
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="audit_topic",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["due_at"], name="audit_topics_by_due")],
            },
        ),
    ]
