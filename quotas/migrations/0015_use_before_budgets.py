"""Budgets know what their first period had used before them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("quotas", "0014_service_levels")]

    operations = [
        migrations.AddField(
            model_name="budget",
            name="used_before",
            field=models.PositiveBigIntegerField(db_default=0, default=0),
        ),
    ]
