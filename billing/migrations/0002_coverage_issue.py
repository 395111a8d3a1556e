"""Offsets of the usage log that were lost."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="CoverageIssue",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("src_partition", models.PositiveIntegerField()),
                ("first_missing", models.PositiveBigIntegerField()),
                ("missing", models.PositiveBigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("src_partition", "first_missing"), name="billing_one_issue_a_place"
                    )
                ],
            },
        ),
    ]
