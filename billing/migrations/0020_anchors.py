"""What is published of all billing chains, a document a day, and the key that signs it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("billing", "0019_no_shares_of_assets"),
    ]

    operations = [
        migrations.CreateModel(
            name="AnchorKey",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("secret", models.TextField()),
                ("public", models.CharField(max_length=64, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="DayAnchor",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("day", models.DateField(unique=True)),
                ("content", models.TextField()),
                ("document_sha256", models.CharField(max_length=64)),
                ("published_at", models.DateTimeField()),
            ],
            options={
                "abstract": False,
            },
        ),
    ]
