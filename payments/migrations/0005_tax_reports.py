"""What was reported to Stripe Tax."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("payments", "0004_void"),
        ("tenants", "0013_principal_numbers"),
    ]

    operations = [
        migrations.CreateModel(
            name="TaxReport",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("part", models.CharField(max_length=255)),
                ("stripe_id", models.CharField(max_length=255, unique=True)),
                ("amount", models.BigIntegerField()),
                ("tax", models.BigIntegerField()),
                ("reported_at", models.DateTimeField(auto_now_add=True)),
                (
                    "receivable",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tax_reports",
                        to="payments.receivable",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tax_reports",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("receivable", "part"), name="payments_tax_reported_once")
                ],
            },
        ),
    ]
