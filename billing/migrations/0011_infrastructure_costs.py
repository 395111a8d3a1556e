"""What the service's infrastructure costs."""

from django.db import migrations, models

import billing.unit_cost_models


class Migration(migrations.Migration):
    dependencies = [("billing", "0010_coupons")]

    operations = [
        migrations.CreateModel(
            name="InfrastructureCost",
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
                        default=billing.unit_cost_models.new_cost_id, max_length=40, unique=True
                    ),
                ),
                ("name", models.CharField(max_length=255)),
                ("kind", models.CharField(max_length=16)),
                ("driver", models.CharField(max_length=16)),
                ("amount", models.PositiveIntegerField()),
                ("price_micro", models.PositiveBigIntegerField()),
                ("per", models.CharField(max_length=16)),
                ("currency", models.CharField(max_length=3)),
                ("from_at", models.DateTimeField()),
                ("until_at", models.DateTimeField(null=True)),
                ("capacity_month", models.PositiveBigIntegerField(null=True)),
                ("source", models.CharField(blank=True, max_length=255)),
                ("revision", models.PositiveBigIntegerField(default=1)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "indexes": [models.Index(fields=["from_at"], name="billing_costs_by_time")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("until_at", None))
                        | models.Q(("until_at__gt", models.F("from_at"))),
                        name="billing_cost_ends_later",
                    )
                ],
            },
        ),
    ]
