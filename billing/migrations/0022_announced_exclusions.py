"""Exclusions from service levels say when they were announced, and how far tenants have heard of them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0021_granted_credits"),
    ]

    operations = [
        migrations.AddField(
            model_name="serviceexclusion",
            name="announced_to",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="serviceexclusion",
            name="withdrawal_announced_to",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AlterField(
            model_name="serviceexclusion",
            name="created_at",
            field=models.DateTimeField(),
        ),
    ]
