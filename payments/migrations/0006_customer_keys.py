"""Which idempotency key makes a tenant a customer at Stripe."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("payments", "0005_tax_reports"),
        ("tenants", "0013_principal_numbers"),
    ]

    operations = [
        migrations.CreateModel(
            name="CustomerKey",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("version", models.PositiveIntegerField(default=1)),
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="stripe_customer_key",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
    ]
