"""The first form of the tables of this app."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Heartbeat",
            fields=[
                ("kind", models.CharField(max_length=20, primary_key=True, serialize=False)),
                ("holder", models.CharField(max_length=40)),
                ("state", models.CharField(max_length=20)),
                ("at", models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name="Lease",
            fields=[
                ("name", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("holder", models.CharField(max_length=40)),
                ("number", models.PositiveBigIntegerField()),
                ("until", models.FloatField()),
            ],
        ),
    ]
