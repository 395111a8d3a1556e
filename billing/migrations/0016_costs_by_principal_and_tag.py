"""Usage by principal, tags of costs, and imports of what the infrastructure costs."""

import django.db.models.deletion
from django.db import migrations, models

import billing.unit_cost_models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0015_start_of_service_levels"),
        ("tenants", "0013_principal_numbers"),
    ]

    operations = [
        migrations.CreateModel(
            name="CostSource",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=255, unique=True)),
            ],
        ),
        migrations.CreateModel(
            name="CostImport",
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
                        default=billing.unit_cost_models.new_import_id, max_length=40, unique=True
                    ),
                ),
                ("sha256", models.CharField(max_length=64)),
                ("months", models.JSONField()),
                ("rows", models.PositiveBigIntegerField()),
                ("costs", models.PositiveIntegerField()),
                ("totals", models.JSONField()),
                ("before", models.JSONField()),
                ("made_at", models.DateTimeField()),
                ("undone_at", models.DateTimeField(null=True)),
                (
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="imports",
                        to="billing.costsource",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="CostTag",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("kind", models.CharField(max_length=16)),
                ("name", models.CharField(max_length=255)),
                ("key", models.CharField(max_length=63)),
                ("value", models.CharField(max_length=63)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="cost_tags",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["tenant", "kind", "key"], name="billing_tags_by_key")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "kind", "name", "key"), name="billing_one_value_a_tag"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="PrincipalDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("topic_id", models.CharField(max_length=32)),
                ("topic", models.CharField(max_length=255)),
                ("day", models.DateField()),
                ("principal", models.PositiveBigIntegerField()),
                ("group", models.CharField(blank=True, max_length=255)),
                ("meter", models.CharField(max_length=64)),
                ("quantity", models.PositiveBigIntegerField()),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="principal_days",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["tenant", "day"], name="billing_used_by_principal")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "topic_id", "topic", "day", "principal", "group", "meter"),
                        name="billing_one_quantity_a_principal",
                    )
                ],
            },
        ),
    ]
