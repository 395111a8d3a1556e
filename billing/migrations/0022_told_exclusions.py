"""Exclusions from service levels say when they were announced, and how far tenants were told."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0021_granted_credits"),
    ]

    operations = [
        migrations.AddField(
            model_name="serviceexclusion",
            name="told_to",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name="serviceexclusion",
            name="withdrawal_told_to",
            field=models.BigIntegerField(default=0),
        ),
        migrations.AlterField(
            model_name="serviceexclusion",
            name="created_at",
            field=models.DateTimeField(),
        ),
    ]
