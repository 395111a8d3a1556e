"""REST of credit notes that operators grant."""

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing import granted_credits, queries
from billing.granted_credits import PartAsked
from billing.models import REASON_LENGTH_MAX, REFERENCE_LENGTH_MAX
from control_plane.api import shapes
from control_plane.rest import billing_shapes
from control_plane.rest.views import OperatorView
from payments import queries as payments
from tenants.roles import Permission

PARTS_MAX = 200
AMOUNT_MAX = 2**62


class CreditedPartInput(shapes.StrictSerializer):
    part = serializers.CharField(
        max_length=255, help_text="Id of a line, a fee or the minimum; or its meter, or the fee's name."
    )
    amount_micro = serializers.IntegerField(
        min_value=1,
        max_value=AMOUNT_MAX,
        required=False,
        help_text="Micro-units before tax; without it all that is left of the part.",
    )


class GrantedCreditInput(shapes.StrictSerializer):
    reference = serializers.CharField(
        max_length=REFERENCE_LENGTH_MAX,
        trim_whitespace=False,
        help_text="What you call it. The same one again for this invoice gives the same credit note.",
    )
    reason = serializers.CharField(
        max_length=REASON_LENGTH_MAX, trim_whitespace=False, help_text="Why. The credit note says it."
    )
    parts = serializers.ListField(child=CreditedPartInput(), required=False, max_length=PARTS_MAX)
    amount_micro = serializers.IntegerField(
        min_value=1,
        max_value=AMOUNT_MAX,
        required=False,
        help_text="Micro-units off the whole invoice, with tax. Without it and without parts: all that is left.",
    )


class GrantedCreditsView(OperatorView):
    permissions: ClassVar[Any] = {"POST": Permission.RECEIVABLES_WRITE}
    dry_run = frozenset({"POST"})

    @extend_schema(
        operation_id="credit_notes_grant",
        request=GrantedCreditInput,
        parameters=[shapes.IDEMPOTENCY],
        responses={201: billing_shapes.CreditNoteShape, **shapes.problems(403, 404, 409, 422)},
    )
    def post(self, request: Request, invoice: str) -> Response:
        """Operators: issue a credit note for an invoice. What is open of it shrinks; what was paid is given back by
        Stripe, or by bank where it came by bank.
        """
        given = GrantedCreditInput(data=request.data)
        given.is_valid(raise_exception=True)
        asked = given.validated_data
        row = payments.any_invoice(invoice)
        note = granted_credits.grant_credit(
            self.actor,
            row,
            reference=asked["reference"],
            reason=asked["reason"],
            parts=[
                PartAsked(id=one["part"], amount_micro=one.get("amount_micro"))
                for one in asked.get("parts", ())
            ],
            amount_micro=asked.get("amount_micro"),
        )
        shown = queries.credit_note(row.tenant, note.public_id)
        return Response(billing_shapes.CreditNoteShape(shown).data, status=201)
