"""A tenant's own consume rate."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("quotas", "0004_recycle_bin"),
    ]

    operations = [
        migrations.AddField(
            model_name="quota", name="consume_bytes_per_s", field=models.PositiveBigIntegerField(null=True)
        ),
    ]
