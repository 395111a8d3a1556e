"""Price books, cuts, invoices and imported data sets."""

import django.db.models.deletion
from django.db import migrations, models

import billing.models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("tenants", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="DataSetState",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("dataset", models.CharField(max_length=63, unique=True)),
                ("run_id", models.CharField(blank=True, max_length=32)),
                ("error", models.TextField(blank=True)),
            ],
        ),
        migrations.CreateModel(
            name="Cut",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "public_id",
                    models.CharField(default=billing.models.new_cut_id, max_length=40, unique=True),
                ),
                ("period_start", models.DateTimeField()),
                ("period_end", models.DateTimeField()),
                ("delivered_at", models.DateTimeField(null=True)),
                ("error", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="cuts", to="tenants.tenant"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="CutCoverage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("topic_id", models.CharField(max_length=32)),
                ("partition", models.PositiveIntegerField()),
                ("log_generation", models.PositiveBigIntegerField()),
                ("topic", models.CharField(max_length=255)),
                ("start_offset", models.PositiveBigIntegerField()),
                ("end_offset", models.PositiveBigIntegerField()),
                ("status", models.CharField(max_length=16)),
                ("reason", models.TextField(blank=True)),
                ("missing", models.TextField(blank=True)),
                (
                    "cut",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="coverage", to="billing.cut"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="CutReading",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("topic_id", models.CharField(max_length=32)),
                ("partition", models.PositiveIntegerField()),
                ("log_generation", models.PositiveBigIntegerField()),
                ("end_offset", models.PositiveBigIntegerField()),
                (
                    "cut",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="readings", to="billing.cut"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="CutUsage",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("topic_id", models.CharField(max_length=32)),
                ("partition", models.PositiveIntegerField()),
                ("log_generation", models.PositiveBigIntegerField()),
                ("topic", models.CharField(max_length=255)),
                ("day", models.DateField()),
                ("meter", models.CharField(max_length=64)),
                ("quantity", models.BigIntegerField()),
                ("first_offset", models.PositiveBigIntegerField()),
                ("end_offset", models.PositiveBigIntegerField()),
                (
                    "cut",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="usage", to="billing.cut"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="DataSetRun",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("dataset", models.CharField(max_length=63)),
                ("run_id", models.CharField(max_length=32)),
                ("digest", models.CharField(max_length=64)),
                ("code_version", models.CharField(max_length=64)),
                ("inputs", models.JSONField()),
                ("rows", models.PositiveBigIntegerField()),
                ("skipped", models.PositiveBigIntegerField()),
                ("disagreements", models.JSONField(default=list)),
                ("imported_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("dataset", "run_id"), name="billing_one_import_a_run")
                ],
            },
        ),
        migrations.CreateModel(
            name="Invoice",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "public_id",
                    models.CharField(default=billing.models.new_invoice_id, max_length=40, unique=True),
                ),
                ("number", models.PositiveIntegerField()),
                (
                    "status",
                    models.CharField(
                        choices=[("draft", "Draft"), ("issued", "Issued")], default="draft", max_length=16
                    ),
                ),
                ("total_micro", models.BigIntegerField(null=True)),
                ("gaps", models.JSONField(blank=True, default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("issued_at", models.DateTimeField(null=True)),
                (
                    "cut",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT, related_name="invoice", to="billing.cut"
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="invoices",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="InvoiceLine",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("line_id", models.CharField(max_length=40, unique=True)),
                ("position", models.PositiveIntegerField()),
                ("meter", models.CharField(max_length=64)),
                ("unit", models.CharField(max_length=20)),
                ("unit_size", models.PositiveBigIntegerField()),
                ("quantity", models.PositiveBigIntegerField()),
                ("amount_micro", models.BigIntegerField()),
                ("parts", models.JSONField()),
                ("price_book_sha256", models.CharField(max_length=64)),
                (
                    "invoice",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="lines",
                        to="billing.invoice",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="PriceBook",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "public_id",
                    models.CharField(default=billing.models.new_price_book_id, max_length=40, unique=True),
                ),
                ("name", models.CharField(max_length=63)),
                ("version", models.PositiveIntegerField()),
                ("currency", models.CharField(max_length=3)),
                ("document", models.JSONField()),
                ("sha256", models.CharField(max_length=64, unique=True)),
                ("effective_from", models.DateTimeField()),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("name", "version"), name="billing_one_book_a_version"),
                    models.UniqueConstraint(fields=("effective_from",), name="billing_one_book_at_a_time"),
                ],
            },
        ),
        migrations.AddField(
            model_name="invoice",
            name="price_book",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="invoices", to="billing.pricebook"
            ),
        ),
        migrations.CreateModel(
            name="Seal",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("topic_id", models.CharField(max_length=32)),
                ("partition", models.PositiveIntegerField()),
                ("log_generation", models.PositiveBigIntegerField()),
                ("base_offset", models.PositiveBigIntegerField()),
                ("end_offset", models.PositiveBigIntegerField()),
                ("seal", models.BinaryField()),
                ("src_partition", models.PositiveIntegerField()),
                ("src_offset", models.PositiveBigIntegerField()),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="seals", to="tenants.tenant"
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="SlaWindow",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("operation", models.CharField(max_length=32)),
                ("window", models.DateTimeField()),
                ("valid", models.PositiveBigIntegerField()),
                ("bad", models.PositiveBigIntegerField()),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="sla_windows",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="UsageDay",
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
                ("meter", models.CharField(max_length=64)),
                ("quantity", models.PositiveBigIntegerField()),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="usage_days",
                        to="tenants.tenant",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="CostHour",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("asset", models.CharField(max_length=255)),
                ("hour", models.DateTimeField()),
                ("method", models.CharField(max_length=255)),
                ("bytes", models.PositiveBigIntegerField()),
                ("cost_micro", models.PositiveBigIntegerField()),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="cost_hours",
                        to="tenants.tenant",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("tenant", "asset", "hour", "method"), name="billing_one_share_an_hour"
                    )
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="cut",
            constraint=models.UniqueConstraint(
                fields=("tenant", "period_start"), name="billing_one_cut_a_start"
            ),
        ),
        migrations.AddConstraint(
            model_name="cut",
            constraint=models.UniqueConstraint(
                fields=("tenant", "period_end"), name="billing_one_cut_an_end"
            ),
        ),
        migrations.AddConstraint(
            model_name="cut",
            constraint=models.CheckConstraint(
                condition=models.Q(("period_end__gt", models.F("period_start"))),
                name="billing_cut_ends_later",
            ),
        ),
        migrations.AddConstraint(
            model_name="cutcoverage",
            constraint=models.UniqueConstraint(
                fields=("cut", "topic_id", "partition", "log_generation"), name="billing_one_coverage"
            ),
        ),
        migrations.AddConstraint(
            model_name="cutreading",
            constraint=models.UniqueConstraint(
                fields=("cut", "topic_id", "partition", "log_generation"), name="billing_one_end_a_partition"
            ),
        ),
        migrations.AddConstraint(
            model_name="cutusage",
            constraint=models.UniqueConstraint(
                fields=("cut", "topic_id", "partition", "log_generation", "day", "meter"),
                name="billing_one_usage_a_day",
            ),
        ),
        migrations.AddConstraint(
            model_name="invoiceline",
            constraint=models.UniqueConstraint(fields=("invoice", "meter"), name="billing_one_line_a_meter"),
        ),
        migrations.AddConstraint(
            model_name="invoiceline",
            constraint=models.UniqueConstraint(
                fields=("invoice", "position"), name="billing_one_line_a_position"
            ),
        ),
        migrations.AddConstraint(
            model_name="invoice",
            constraint=models.UniqueConstraint(
                fields=("tenant", "number"), name="billing_one_invoice_a_number"
            ),
        ),
        migrations.AddConstraint(
            model_name="invoice",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("issued_at", None), ("status", "draft"), ("total_micro", None)),
                    models.Q(
                        ("issued_at__isnull", False), ("status", "issued"), ("total_micro__isnull", False)
                    ),
                    _connector="OR",
                ),
                name="billing_issued_has_a_total",
            ),
        ),
        migrations.AddConstraint(
            model_name="seal",
            constraint=models.UniqueConstraint(
                fields=("tenant", "topic_id", "partition", "log_generation", "base_offset"),
                name="billing_one_seal_a_segment",
            ),
        ),
        migrations.AddConstraint(
            model_name="slawindow",
            constraint=models.UniqueConstraint(
                fields=("tenant", "operation", "window"), name="billing_one_count_a_window"
            ),
        ),
        migrations.AddConstraint(
            model_name="usageday",
            constraint=models.UniqueConstraint(
                fields=("tenant", "topic_id", "topic", "day", "meter"), name="billing_one_quantity_a_day"
            ),
        ),
    ]
