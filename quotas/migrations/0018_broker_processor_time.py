"""A limit of the processor time that a tenant's work takes of one broker."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("quotas", "0017_failed_looks")]

    operations = [
        migrations.AddField(
            model_name="quota",
            name="broker_processor_ms_per_s",
            field=models.PositiveIntegerField(null=True),
        ),
    ]
