"""The first form of the tables of this app."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="KnownBroker",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("broker", models.PositiveIntegerField(unique=True)),
                ("internal_address", models.CharField(max_length=300)),
                ("changed_at", models.DateTimeField()),
            ],
        ),
    ]
