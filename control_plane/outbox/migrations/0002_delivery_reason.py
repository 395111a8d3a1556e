"""Why the last attempt of a delivery failed, beside the message: the request that waits for it asks."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("outbox", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="delivery",
            name="reason",
            field=models.CharField(blank=True, default="", max_length=40),
        ),
    ]
