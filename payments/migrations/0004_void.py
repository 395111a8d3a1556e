"""What operators took back of an invoice by making it void."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("payments", "0003_former_payers")]

    operations = [
        migrations.AddField(
            model_name="receivable",
            name="voided_micro",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.RemoveConstraint(model_name="receivable", name="payments_no_negative_amount"),
        migrations.RemoveConstraint(model_name="receivable", name="payments_no_more_back_than_forth"),
        migrations.AddConstraint(
            model_name="receivable",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    total_micro__gte=0,
                    credited_micro__gte=0,
                    voided_micro__gte=0,
                    paid_micro__gte=0,
                    refunded_micro__gte=0,
                ),
                name="payments_no_negative_amount",
            ),
        ),
        migrations.AddConstraint(
            model_name="receivable",
            constraint=models.CheckConstraint(
                condition=models.Q(credited_micro__lte=models.F("total_micro") - models.F("voided_micro"))
                & models.Q(refunded_micro__lte=models.F("paid_micro")),
                name="payments_no_more_back_than_forth",
            ),
        ),
    ]
