"""Access reports, and who wants no e-mail about them."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0009_closing"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AccessReport",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("public_id", models.CharField(max_length=40, unique=True)),
                ("month", models.CharField(max_length=7)),
                ("made_at", models.DateTimeField()),
                ("sha256", models.CharField(max_length=64)),
                ("document", models.BinaryField()),
                ("counts", models.JSONField(default=dict)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="access_reports",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["month"], name="access_reports_by_month")],
                "constraints": [
                    models.UniqueConstraint(fields=("tenant", "month"), name="access_reports_one_a_month")
                ],
            },
        ),
        migrations.CreateModel(
            name="ReportMailRefusal",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="tenants.tenant"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("person", None)),
                        fields=("tenant",),
                        name="access_reports_one_refusal_a_tenant",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("person__isnull", False)),
                        fields=("tenant", "person"),
                        name="access_reports_one_refusal_a_person",
                    ),
                ],
            },
        ),
    ]
