"""Billing accounts with their currency; price books are in effect by currency."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0016_costs_by_principal_and_tag"),
        ("tenants", "0012_inviters"),
    ]

    operations = [
        migrations.CreateModel(
            name="BillingAccount",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("currency", models.CharField(max_length=3)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="billing_account",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={"abstract": False},
        ),
        migrations.RemoveConstraint(model_name="pricebook", name="billing_one_book_at_a_time"),
        migrations.AddConstraint(
            model_name="pricebook",
            constraint=models.UniqueConstraint(
                fields=("currency", "effective_from"), name="billing_one_book_at_a_time"
            ),
        ),
    ]
