"""A tenant's own time for topics in the recycle bin."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0003_accounts_and_keys"),
    ]

    operations = [
        migrations.AddField(
            model_name="quota", name="bin_days", field=models.PositiveIntegerField(null=True)
        ),
    ]
