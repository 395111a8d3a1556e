"""Where tenants are for taxes, and what Stripe Tax states of their drafts."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0017_currencies"),
        ("tenants", "0013_principal_numbers"),
    ]

    operations = [
        migrations.CreateModel(
            name="TaxAddress",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("country", models.CharField(max_length=2)),
                ("state", models.CharField(blank=True, max_length=200)),
                ("postal_code", models.CharField(blank=True, max_length=200)),
                ("city", models.CharField(blank=True, max_length=200)),
                ("line1", models.CharField(blank=True, max_length=200)),
                ("line2", models.CharField(blank=True, max_length=200)),
                ("tax_id_type", models.CharField(blank=True, max_length=20)),
                ("tax_id", models.CharField(blank=True, max_length=50)),
                ("changed_at", models.DateTimeField()),
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tax_address",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="TaxCalculation",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("question", models.PositiveIntegerField()),
                ("request", models.JSONField()),
                ("statement", models.JSONField(null=True)),
                ("problem", models.CharField(blank=True, max_length=500)),
                ("key_version", models.PositiveIntegerField(default=1)),
                ("generation", models.PositiveBigIntegerField(default=0)),
                ("unsent_since", models.DateTimeField(null=True)),
                ("retry_at", models.DateTimeField(null=True)),
                ("failures", models.PositiveIntegerField(default=0)),
                (
                    "invoice",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tax_calculation",
                        to="billing.invoice",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tax_calculations",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("unsent_since__isnull", False)),
                        fields=["unsent_since"],
                        name="billing_tax_unsent",
                    )
                ],
            },
        ),
    ]
