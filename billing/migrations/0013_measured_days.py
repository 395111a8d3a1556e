"""What invoices bill by meters that count no offsets."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("billing", "0012_windows_of_data_sets"), ("tenants", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="MeasuredDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("topic_id", models.CharField(blank=True, max_length=32)),
                ("topic", models.CharField(blank=True, max_length=255)),
                ("day", models.DateField()),
                ("meter", models.CharField(max_length=64)),
                ("quantity", models.PositiveBigIntegerField()),
                (
                    "invoice",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="measured",
                        to="billing.invoice",
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
                "indexes": [
                    models.Index(fields=["tenant", "topic", "day"], name="billing_measured_by_topic"),
                    models.Index(fields=["tenant", "day", "topic"], name="billing_measured_by_day"),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("invoice", "topic_id", "topic", "day", "meter"),
                        name="billing_one_measure_a_day",
                    )
                ],
            },
        ),
    ]
