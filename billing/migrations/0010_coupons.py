"""Coupons, and who has redeemed them."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0009_history_of_terms"), ("tenants", "0012_inviters")]

    operations = [
        migrations.CreateModel(
            name="Coupon",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("code", models.CharField(max_length=40, unique=True)),
                ("basis_points", models.PositiveIntegerField()),
                ("amount_micro", models.PositiveBigIntegerField()),
                ("currency", models.CharField(blank=True, max_length=3)),
                ("days", models.PositiveIntegerField()),
                ("uses_max", models.PositiveIntegerField()),
                ("reason", models.CharField(max_length=255)),
                ("from_at", models.DateTimeField()),
                ("until_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="CouponRedemption",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField()),
                (
                    "coupon",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="redemptions",
                        to="billing.coupon",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="coupons",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="couponredemption",
            constraint=models.UniqueConstraint(
                fields=("coupon", "tenant"), name="billing_one_redemption_a_tenant"
            ),
        ),
    ]
