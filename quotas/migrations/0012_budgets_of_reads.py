"""Budgets that count what is delivered."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("quotas", "0011_budgets")]

    operations = [
        migrations.AddField(
            model_name="budget",
            name="counts_reads",
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
