"""Charges of invoices and credit notes, and what a tenant has beside the general prices."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0007_usage_in_the_order_of_its_pages"),
        ("tenants", "0012_inviters"),
    ]

    operations = [
        migrations.AddField(
            model_name="creditnote",
            name="charges",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name="invoice",
            name="charges",
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.CreateModel(
            name="TenantTerms",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("document", models.JSONField()),
                ("revision", models.PositiveBigIntegerField(default=1)),
                ("changed_at", models.DateTimeField(auto_now=True)),
                (
                    "price_book",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="billing.pricebook",
                    ),
                ),
                (
                    "tenant",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="billing_terms",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
    ]
