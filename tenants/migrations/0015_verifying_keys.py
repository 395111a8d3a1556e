"""Keys that prove invoices and do nothing else."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tenants", "0014_closings"),
    ]

    operations = [
        migrations.AddField(
            model_name="apikey",
            name="verifies",
            field=models.BooleanField(default=False),
        ),
    ]
