"""Files that go with e-mails."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mail", "0001_initial")]

    operations = [
        migrations.AddField("mail", "file", models.BinaryField(default=bytes)),
        migrations.AddField("mail", "file_name", models.CharField(default="", max_length=100)),
        migrations.AddField("mail", "file_kind", models.CharField(default="", max_length=100)),
    ]
