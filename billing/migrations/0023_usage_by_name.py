"""A topic that is restored under another name has rows of one day with both names."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0022_announced_exclusions"),
    ]

    operations = [
        migrations.RemoveConstraint(model_name="cutusage", name="billing_one_usage_a_day"),
        migrations.AddConstraint(
            model_name="cutusage",
            constraint=models.UniqueConstraint(
                fields=["cut", "topic_id", "topic", "partition", "log_generation", "day", "meter"],
                name="billing_one_usage_a_day",
            ),
        ),
    ]
