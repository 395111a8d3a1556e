"""REST of payments: what is asked for and what came, how a tenant pays, and what operators decide of receivables."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing import queries as billing
from control_plane import config
from control_plane.api import etags, shapes
from control_plane.rest.views import OperatorView, TenantView
from payments import actions, customers, queries, reconciling
from payments.models import REFERENCE_LENGTH_MAX, TEXT_LENGTH_MAX, Payment, Receivable
from payments.states import State
from payments.stripe_adapter import Gateway, configured
from payments.stripe_shapes import AnsweredFault
from penstock.contract.errors import BrokerUnavailable, InvalidRequest
from tenants.roles import Permission

STATE = OpenApiParameter("state", enum=[one.value for one in State], description="Only those in this state.")
STATES = [one.value for one in State]
PAGES = ("setup", "portal")


class ReceivableShape(serializers.Serializer[Any]):
    """What is owed of one invoice. Amounts are micro-units of the currency."""

    id = serializers.CharField(source="public_id")
    tenant = serializers.CharField(source="tenant.public_id")
    invoice = serializers.CharField(source="invoice.public_id")
    invoice_number = serializers.IntegerField(source="invoice.number")
    issuer_number = serializers.CharField(
        source="invoice.issuer_number",
        help_text="The invoice's number over all tenants; empty: it is older than such numbers.",
    )
    payment_reference = serializers.SerializerMethodField(
        help_text="What to name when it is paid by bank; empty: the service says no bank account to pay to."
    )
    state = serializers.ChoiceField(choices=STATES)
    currency = serializers.CharField()
    minor_digits = serializers.IntegerField(source="invoice.price_book.document.minor_digits")
    total_micro = serializers.IntegerField()
    credited_micro = serializers.IntegerField(help_text="By credit notes.")
    voided_micro = serializers.IntegerField(help_text="Taken back by making it void.")
    paid_micro = serializers.IntegerField()
    refunded_micro = serializers.IntegerField()
    open_micro = serializers.IntegerField(help_text="What is still to be paid.")
    overpaid_micro = serializers.IntegerField(help_text="What is to be refunded.")
    due_at = shapes.Moment()
    closed_at = shapes.Moment(allow_null=True, help_text="When it became paid, uncollectible or void.")
    reminders = serializers.IntegerField(help_text="How many reminders were sent.")
    pay_url = serializers.CharField(
        source="page", help_text="Stripe's page on which it can be paid; empty: there is none."
    )
    problem = serializers.CharField(
        help_text="Why it is not collected, and what to do; empty: nothing is known of."
    )
    retry_at = shapes.Moment(
        allow_null=True, help_text="When Stripe is tried again; null: nothing was refused or unanswered."
    )
    unsent = serializers.SerializerMethodField(
        help_text="Whether Stripe has not heard of its last change yet; false where payment through Stripe is off."
    )
    waits = serializers.BooleanField(
        help_text="It is less than Stripe charges, and waits for a later invoice that carries it."
    )
    carried_by = serializers.SerializerMethodField(
        help_text="Id of the invoice with which it is collected; empty: it is collected alone."
    )

    def get_payment_reference(self, row: Receivable) -> str:
        return queries.bank_reference(row.invoice)

    def get_unsent(self, row: Receivable) -> bool:
        return row.unsent_since is not None and collection() == "stripe"

    def get_carried_by(self, row: Receivable) -> str:
        return "" if row.carried_by is None else row.carried_by.invoice.public_id


class PaymentShape(serializers.Serializer[Any]):
    id = serializers.CharField(source="public_id")
    invoice = serializers.CharField(source="receivable.invoice.public_id")
    kind = serializers.ChoiceField(choices=Payment.Kind.values)
    source = serializers.ChoiceField(choices=Payment.Source.values)  # type: ignore[assignment]
    reference = serializers.CharField(help_text="Stripe's id of it, or what the bank calls it.")
    amount_micro = serializers.IntegerField()
    currency = serializers.CharField(source="receivable.currency")
    minor_digits = serializers.IntegerField(source="receivable.invoice.price_book.document.minor_digits")
    at = shapes.Moment()


class PaymentMethodShape(serializers.Serializer[Any]):
    """How the tenant pays."""

    collection = serializers.ChoiceField(
        choices=["stripe", "off"], help_text="off: invoices are paid by bank, and operators note it."
    )
    method = serializers.CharField(help_text="As `visa ending in 4242`; empty: none is named.")


class PageInput(shapes.StrictSerializer):
    page = serializers.ChoiceField(
        choices=PAGES, help_text="`setup`: name a payment method; `portal`: change or remove one."
    )


class PageShape(serializers.Serializer[Any]):
    url = serializers.CharField(help_text="Stripe's page, for minutes to a day.")


class ReferenceInput(shapes.StrictSerializer):
    reference = serializers.CharField(
        max_length=REFERENCE_LENGTH_MAX,
        trim_whitespace=False,
        help_text="What the bank calls it. It is counted once.",
    )


class ReasonInput(shapes.StrictSerializer):
    reason = serializers.CharField(max_length=TEXT_LENGTH_MAX, trim_whitespace=False)


class DifferenceShape(serializers.Serializer[Any]):
    kind = serializers.CharField()
    tenant = serializers.CharField()
    invoice = serializers.CharField()
    stripe_invoice = serializers.CharField()
    ours = serializers.CharField()
    theirs = serializers.CharField()


class ReconciliationShape(serializers.Serializer[Any]):
    """The last comparison of all receivables with Stripe."""

    collection = serializers.ChoiceField(choices=["stripe", "off"])
    at = shapes.Moment(allow_null=True, help_text="null: none was made.")
    compared = serializers.IntegerField(
        help_text="Those that were open, or changed since the comparison before."
    )
    unsent = serializers.IntegerField(
        help_text="Receivables now whose last change Stripe has not heard of yet."
    )
    under_way = serializers.BooleanField(help_text="Whether a newer comparison is not finished yet.")
    differences = DifferenceShape(many=True)


def collection() -> str:
    """`off` where no key of Stripe is configured."""
    return "off" if config.current().payments.stripe_key_file is None else "stripe"


def gateway() -> Gateway:
    """Raises `InvalidRequest` where payment through Stripe is off."""
    found = configured()
    if found is None:
        raise InvalidRequest(
            "payment through Stripe is off; invoices are paid by bank, and operators note it"
        )
    return found


def tag_of(row: Receivable) -> str:
    return etags.of_content(
        row.public_id,
        row.state,
        row.credited_micro,
        row.paid_micro,
        row.refunded_micro,
        row.reminders,
        row.problem,
        row.waits,
        row.carried_by_id or 0,
    )


def _shown(row: Receivable) -> Response:
    return Response(ReceivableShape(row).data, headers={"ETag": tag_of(row)})


class InvoicePaymentView(TenantView):
    permissions: ClassVar = {"GET": Permission.INVOICES_READ}

    @extend_schema(
        operation_id="invoices_payment",
        parameters=[shapes.TENANT, shapes.ETAG],
        responses={200: ReceivableShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request, invoice: str) -> Response:
        """Whether the invoice is paid, when it is due, and where it can be paid."""
        return _shown(queries.receivable_of(billing.invoice(self.tenant, invoice)))


class PaymentsView(TenantView):
    permissions: ClassVar = {"GET": Permission.INVOICES_READ}

    @extend_schema(
        operation_id="payments_list",
        parameters=[shapes.TENANT, *shapes.PAGING],
        responses={200: shapes.listed("Payment", PaymentShape(many=True)), **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The tenant's payments and refunds, oldest first."""
        return self.paged(queries.payments(self.tenant), PaymentShape)


class PaymentMethodView(TenantView):
    permissions: ClassVar = {"GET": Permission.INVOICES_READ}

    @extend_schema(
        operation_id="payment_method_read",
        parameters=[shapes.TENANT],
        responses={200: PaymentMethodShape, **shapes.problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """How the tenant pays, as Stripe said last."""
        row = queries.customer(self.tenant)
        shown = {"collection": collection(), "method": "" if row is None else row.method}
        return Response(PaymentMethodShape(shown).data)


class PaymentPageView(TenantView):
    permissions: ClassVar = {"POST": Permission.PAYMENTS_WRITE}

    @extend_schema(
        operation_id="payment_method_page",
        request=PageInput,
        parameters=[shapes.TENANT, shapes.IDEMPOTENCY],
        responses={201: PageShape, **shapes.problems(403, 404)},
    )
    def post(self, request: Request) -> Response:
        """Make a page at Stripe on which the tenant names or changes its payment method."""
        given = PageInput(data=request.data)
        given.is_valid(raise_exception=True)
        url = page_at_stripe(self.tenant, given.validated_data["page"])
        return Response(PageShape({"url": url}).data, status=201)


def page_at_stripe(tenant: Any, page: str) -> str:
    """The address of Stripe's page, from which people come back to the tenant's invoices."""
    api = gateway()
    try:
        customer = customers.ensure_customer(api, tenant)
    except AnsweredFault as fault:
        raise BrokerUnavailable(f"Stripe: {fault}; retry later") from None
    back = f"{config.current().public_url.rstrip('/')}/t/{tenant.name}/invoices"
    if page == "portal":
        return api.portal_link(customer, back)
    owed = queries.payable_currency(tenant)
    return api.setup_link(customer, owed, back)


class ReceivablesView(OperatorView):
    permissions: ClassVar = {"GET": Permission.RECEIVABLES_READ}

    @extend_schema(
        operation_id="receivables_list",
        parameters=[*shapes.PAGING, STATE],
        responses={200: shapes.listed("Receivable", ReceivableShape(many=True)), **shapes.problems(403)},
    )
    def get(self, request: Request) -> Response:
        """Operators: what is owed of every issued invoice, oldest first."""
        state = request.query_params.get("state", "")
        if state and state not in list(State):
            raise InvalidRequest(f"state: {state[:30]!r}; one of {', '.join(State)} required")
        return self.paged(queries.receivables(state), ReceivableShape)


def _change(
    operation: str, says: str, taken: type[shapes.StrictSerializer] | None, act: Callable[..., Receivable]
) -> type[OperatorView]:
    """The view of what operators decide of a receivable: `act` gets the caller, the invoice and the members of the
    body.
    """

    class View(OperatorView):
        permissions: ClassVar = {"POST": Permission.RECEIVABLES_WRITE}
        dry_run = frozenset({"POST"})

        @extend_schema(
            operation_id=operation,
            description=says,
            request=taken,
            parameters=[shapes.IDEMPOTENCY],
            responses={200: ReceivableShape, **shapes.problems(403, 404)},
        )
        def post(self, request: Request, invoice: str) -> Response:
            facts: dict[str, Any] = {}
            if taken is not None:
                given = taken(data=request.data)
                given.is_valid(raise_exception=True)
                facts = given.validated_data
            return _shown(act(self.actor, queries.any_invoice(invoice), **facts))

    return View


ReceivablePaidView = _change(
    "receivables_paid",
    "Operators: all that is open of the invoice came by bank. The same reference again changes nothing.",
    ReferenceInput,
    actions.mark_paid,
)
ReceivableRefundedView = _change(
    "receivables_refunded",
    "Operators: what credit notes left overpaid was given back by bank. Stripe gives back what was paid there, "
    "unless that "
    "failed.",
    ReferenceInput,
    actions.mark_refunded,
)
ReceivableUncollectibleView = _change(
    "receivables_uncollectible",
    "Operators: the invoice is not asked for any more. A late payment still pays it.",
    ReasonInput,
    actions.give_up,
)
ReceivableVoidView = _change(
    "receivables_void",
    "Operators: take an unpaid invoice back. Nothing of it is asked for, now or later; its number and document stay.",
    ReasonInput,
    actions.void,
)
ReceivableRetryView = _change(
    "receivables_retry",
    "Operators: compare the invoice with Stripe at once, and charge the payment method once more.",
    None,
    actions.try_again,
)


class ReconciliationView(OperatorView):
    permissions: ClassVar = {"GET": Permission.RECEIVABLES_READ, "POST": Permission.RECEIVABLES_WRITE}

    @extend_schema(
        operation_id="reconciliation_read", responses={200: ReconciliationShape, **shapes.problems(403)}
    )
    def get(self, request: Request) -> Response:
        """Operators: every difference between receivables and Stripe that the last comparison found."""
        return self._report()

    @extend_schema(
        operation_id="reconciliation_make",
        request=None,
        parameters=[shapes.IDEMPOTENCY],
        responses={200: ReconciliationShape, **shapes.problems(403)},
    )
    def post(self, request: Request) -> Response:
        """Operators: compare with Stripe now. It is done each night in any case. What takes longer than the call goes
        on after it."""
        try:
            reconciling.reconcile(gateway(), timezone.now())
        except AnsweredFault as fault:
            raise BrokerUnavailable(f"Stripe: {fault}; retry later") from None
        return self._report()

    def _report(self) -> Response:
        row = queries.newest_report()
        shown = {
            "collection": collection(),
            "at": None if row is None else row.at,
            "compared": 0 if row is None else row.compared,
            "unsent": queries.unsent().count(),
            "under_way": queries.run_under_way() is not None,
            "differences": [] if row is None else row.differences,
        }
        return Response(ReconciliationShape(shown).data)
