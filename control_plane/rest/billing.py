"""REST of usage, invoices with their documents, cuts and prices."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any, ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.db.backends.sqlite3.base import DatabaseWrapper as SqliteDatabase
from django.http import FileResponse, HttpResponse, StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from billing import (
    draft_actions,
    draft_queries,
    evidence_bundles,
    focus,
    focus_exports,
    period_actions,
    price_actions,
    queries,
)
from billing.cut_delivery import KIND_CUT
from billing.models import CreditNote, Invoice
from control_plane import config
from control_plane.api.pages import in_memory
from control_plane.api.parameters import moment
from control_plane.api.shapes import IDEMPOTENCY, PAGING, TENANT, listed, problems
from control_plane.brokers import client as brokers
from control_plane.outbox import in_request
from control_plane.rest import billing_shapes as shapes
from control_plane.rest.usage import in_order
from control_plane.rest.views import CallerView, OperatorView, TenantView
from payments import printing
from penstock.contract.errors import Forbidden
from penstock.contract.ids import TopicId, TopicPartition
from penstock.verification.commitments import KeptLoss
from tenants.roles import Permission, Standing, allowed

ALL = "all"
CSV = "text/csv"
PDF = "application/pdf"
BUNDLE = "application/vnd.penstock.evidence"


class InvoicesView(TenantView):
    permissions: ClassVar = {"GET": Permission.INVOICES_READ}

    @extend_schema(
        operation_id="invoices_list",
        parameters=[TENANT, *PAGING],
        responses={200: listed("Invoice", shapes.InvoiceShape(many=True)), **problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The tenant's invoices, oldest first."""
        return self.paged(queries.invoices(self.tenant).select_related("receivable"), shapes.InvoiceShape)


class InvoiceView(TenantView):
    permissions: ClassVar = {"GET": Permission.INVOICES_READ}

    @extend_schema(
        operation_id="invoices_read",
        parameters=[TENANT],
        responses={200: shapes.InvoiceShape, **problems(403, 404)},
    )
    def get(self, request: Request, invoice: str) -> Response:
        """One invoice with its lines."""
        return Response(shapes.InvoiceShape(queries.invoice(self.tenant, invoice)).data)


class EvidenceView(TenantView):
    permissions: ClassVar = {"GET": Permission.INVOICES_READ}

    @extend_schema(
        operation_id="invoices_evidence",
        parameters=[TENANT],
        responses={200: shapes.EvidenceShape, **problems(403, 404)},
    )
    def get(self, request: Request, invoice: str) -> Response:
        """The invoice's document: what `penstock verify-invoice` compares with the log."""
        evidence = queries.evidence(queries.invoice(self.tenant, invoice))
        return Response(shapes.EvidenceShape(evidence).data)


class EvidenceBundleView(TenantView):
    permissions: ClassVar = {"GET": Permission.INVOICES_READ}

    @extend_schema(
        operation_id="invoices_evidence_bundle",
        parameters=[TENANT],
        responses={(200, BUNDLE): OpenApiTypes.BINARY, **problems(403, 404, 503)},
    )
    def get(self, request: Request, invoice: str) -> FileResponse:
        """All that proving the issued invoice asks for but the messages, as one file: `penstock verify-invoice
        --bundle FILE` checks it without any connection. Its size is the Content-Length.
        """
        return bundle_answer(queries.invoice(self.tenant, invoice))


def bundle_answer(invoice: Invoice) -> FileResponse:
    """The invoice's evidence bundle. It is written to the disk first: so its size is known, it shows one moment, and no
    slow reader keeps the database waiting. Raises `BrokerUnavailable`: brokers say what was lost.
    """
    tenant = invoice.tenant.public_id
    evidence_bundles.require_issued(invoice)
    losses = [
        KeptLoss(
            where=TopicPartition(TopicId(bytes.fromhex(loss.topic_id)), loss.partition),
            log_generation=loss.log_generation,
            offset=loss.offset,
        )
        for loss in brokers.describe(partitions=True, timeout_s=5).losses
        if loss.tenant == tenant
    ]
    # The answer closes it, which deletes it.
    file = TemporaryFile(prefix="penstock-evidence-")  # noqa: SIM115
    try:
        with _one_moment():
            evidence_bundles.write_bundle(
                invoice,
                as_sent(shapes.InvoiceShape(invoice).data),
                chain_item=lambda entry: as_sent(shapes.ChainEntryShape(entry).data),
                losses=losses,
                now=timezone.now(),
                write=file.write,
            )
        file.seek(0)
        return FileResponse(
            file, as_attachment=True, filename=f"invoice-{invoice.number}.evidence", content_type=BUNDLE
        )
    except BaseException:
        file.close()
        raise


@contextmanager
def _one_moment() -> Iterator[None]:
    """A transaction whose statements all see the database as it is at the first of them: a credit note that is issued
    while a bundle is written would be in its chain and not in its invoice, which is wrong for those who prove it.

    It only reads, so on SQLite it must not begin as the others do, with the one lock for writing: a large bundle would
    keep every change of the service waiting.
    """
    if connection.in_atomic_block:
        yield
        return
    database = connections[DEFAULT_DB_ALIAS]
    if isinstance(database, SqliteDatabase):
        # Its types leave this attribute out.
        before = database.transaction_mode  # type: ignore[attr-defined]
        database.transaction_mode = "DEFERRED"  # type: ignore[attr-defined]
        try:
            with transaction.atomic():
                yield
        finally:
            database.transaction_mode = before  # type: ignore[attr-defined]
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def as_sent(value: Any) -> Any:
    """What a shape shows, as a client reads it."""
    return json.loads(json.dumps(value, cls=DjangoJSONEncoder))


class InvoicePdfView(TenantView):
    permissions: ClassVar = {"GET": Permission.INVOICES_READ}

    @extend_schema(
        operation_id="invoices_pdf",
        parameters=[TENANT],
        responses={(200, PDF): OpenApiTypes.BINARY, **problems(403, 404)},
    )
    def get(self, request: Request, invoice: str) -> HttpResponse:
        """The issued invoice as PDF. A draft has none."""
        return pdf_answer(queries.invoice(self.tenant, invoice))


def pdf_answer(invoice: Invoice) -> HttpResponse:
    """The invoice as a file to print."""
    name = invoice.issuer_number or invoice.number
    return HttpResponse(printing.printed(invoice), content_type=PDF, headers=_named(f"invoice-{name}.pdf"))


def _named(file: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{file}"'}


class FocusView(TenantView):
    permissions: ClassVar = {"GET": Permission.INVOICES_READ}

    @extend_schema(
        operation_id="billing_focus",
        parameters=[TENANT, shapes.FROM, shapes.TO, shapes.OF_INVOICE],
        responses={(200, CSV): OpenApiTypes.STR, **problems(403, 404)},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """What was invoiced and credited, as a file of FOCUS 1.2: by topic, day and price. With `from` and `to`: what
        was issued in that time, and corrections of what was made void in it. Amounts of one InvoiceId add up to what
        that document charges or gives back, to 0 if it is void. A name that a spreadsheet would take as a formula
        begins with an apostrophe.
        """
        first, end = in_order(moment(request, "from"), moment(request, "to"))
        rows = focus_exports.rows(
            self.tenant,
            issuer=config.current().invoices.issuer,
            first=first,
            end=end,
            invoice=request.query_params.get("invoice"),
        )
        return StreamingHttpResponse(
            (line.encode() for line in focus.as_csv(rows)),
            content_type=f"{CSV}; charset=utf-8",
            headers=_named(f"focus-{focus.VERSION}.csv"),
        )


class ChainView(TenantView):
    permissions: ClassVar = {"GET": Permission.INVOICES_READ}

    @extend_schema(
        operation_id="billing_chain_list",
        parameters=[TENANT, *PAGING],
        responses={200: listed("ChainEntry", shapes.ChainEntryShape(many=True)), **problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """The tenant's prices, credit notes and invoices, oldest first, each hashed over the one before."""
        return self.paged(queries.chain(self.tenant), shapes.ChainEntryShape)


class CreditNotesView(TenantView):
    permissions: ClassVar = {"GET": Permission.INVOICES_READ}

    @extend_schema(
        operation_id="credit_notes_list",
        parameters=[TENANT, *PAGING],
        responses={200: listed("CreditNote", shapes.CreditNoteShape(many=True)), **problems(403, 404)},
    )
    def get(self, request: Request) -> Response:
        """Credit notes: each lowers an invoice after a declared loss. Oldest first."""
        return self.paged(queries.credit_notes(self.tenant), shapes.CreditNoteShape)


class CreditNoteView(TenantView):
    permissions: ClassVar = {"GET": Permission.INVOICES_READ}

    @extend_schema(
        operation_id="credit_notes_read",
        parameters=[TENANT],
        responses={200: shapes.CreditNoteShape, **problems(403, 404)},
    )
    def get(self, request: Request, credit_note: str) -> Response:
        """One credit note: the invoice, its lines, the offsets that are lost."""
        return Response(shapes.CreditNoteShape(queries.credit_note(self.tenant, credit_note)).data)


class CreditNotePdfView(TenantView):
    permissions: ClassVar = {"GET": Permission.INVOICES_READ}

    @extend_schema(
        operation_id="credit_notes_pdf",
        parameters=[TENANT],
        responses={(200, PDF): OpenApiTypes.BINARY, **problems(403, 404)},
    )
    def get(self, request: Request, credit_note: str) -> HttpResponse:
        """The credit note as PDF."""
        return credit_note_answer(queries.credit_note(self.tenant, credit_note))


def credit_note_answer(note: CreditNote) -> HttpResponse:
    """The credit note as a file to print."""
    name = note.issuer_number or note.number
    headers = _named(f"credit-note-{name}.pdf")
    return HttpResponse(printing.printed_credit_note(note), content_type=PDF, headers=headers)


class PriceBooksView(CallerView):
    """Every caller reads prices; operators publish them."""

    def admit(self, request: Request) -> None:
        super().admit(request)
        if request.method == "POST" and (
            self.caller.operator is None or not allowed(Standing.OPERATOR, Permission.PRICES_WRITE)
        ):
            raise Forbidden("an operator's token is required")

    @extend_schema(
        operation_id="price_books_list",
        parameters=[*PAGING],
        responses={200: listed("PriceBook", shapes.PriceBookShape(many=True)), **problems()},
    )
    def get(self, request: Request) -> Response:
        """Every version of the price book, with the hash that invoice lines name."""
        return self.paged(queries.price_books(), shapes.PriceBookShape)

    @extend_schema(
        operation_id="price_books_publish",
        parameters=[IDEMPOTENCY],
        request=shapes.PriceBookRequest,
        responses={
            200: shapes.PublishedBookShape,
            201: shapes.PublishedBookShape,
            **problems(403, 409),
        },
    )
    def post(self, request: Request) -> Response:
        """Operators: publish a price book. It rates every billing period that begins at or after its effective time.

        Publishing the same document again changes nothing.
        """
        asked = shapes.PriceBookRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        document, effective_from = asked.validated_data["document"], asked.validated_data["effective_from"]
        now = timezone.now()
        if asked.validated_data["dry_run"]:
            book = price_actions.checked_price_book(document, effective_from=effective_from, now=now)
            known = queries.price_books().filter(sha256=book.sha256).first()
            planned = {
                "public_id": None,
                "sha256": book.sha256,
                "effective_from": effective_from,
                "document": book.document(),
            }
            return Response(shapes.PublishedBookShape(planned if known is None else known).data)
        row = price_actions.publish_price_book(
            self.actor, document=document, effective_from=effective_from, now=now
        )
        return Response(shapes.PublishedBookShape(row).data, status=201)


class CutsView(OperatorView):
    permissions: ClassVar = {"POST": Permission.BILLING_CUT}

    @extend_schema(
        operation_id="cuts_create",
        parameters=[IDEMPOTENCY],
        request=shapes.CutRequest,
        responses={201: shapes.CutsShape, **problems(403, 404)},
    )
    def post(self, request: Request) -> Response:
        """Operators: close the billing period of one tenant or of all. Waits up to 2 s for the brokers' answers."""
        asked = shapes.CutRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        end = asked.validated_data.get("end") or timezone.now()
        wanted = asked.validated_data["tenant"]
        tenants = queries.tenants_to_close(end) if wanted == ALL else [wanted]
        cuts = [period_actions.close_period(self.actor, tenant, end=end) for tenant in tenants]
        if cuts:
            in_request.deliver_now(KIND_CUT, cuts[-1].public_id, 1)
        made = [queries.cut(cut.public_id) for cut in cuts]
        return Response(shapes.CutsShape({"items": made}).data, status=201)


class CutView(OperatorView):
    permissions: ClassVar = {"GET": Permission.BILLING_CUT}

    @extend_schema(operation_id="cuts_read", responses={200: shapes.CutShape, **problems(403, 404)})
    def get(self, request: Request, cut: str) -> Response:
        """One cut, with its vector once the brokers have answered."""
        return Response(shapes.CutShape(queries.cut(cut)).data)


class DraftsView(OperatorView):
    permissions: ClassVar = {"GET": Permission.BILLING_CUT}

    @extend_schema(
        operation_id="drafts_list",
        parameters=[*PAGING],
        responses={
            200: listed("Draft", shapes.DraftShape(many=True), alerts=shapes.ALERTS),
            **problems(403),
        },
    )
    def get(self, request: Request) -> Response:
        """Operators: every draft, with the reasons why it is not issued and the next steps."""
        now = timezone.now()
        refused = draft_queries.refused_data_sets()
        return self.paged(
            draft_queries.drafts(),
            shapes.DraftShape,
            shown_as=lambda rows: draft_queries.explained(rows, now, refused),
            extra={"alerts": draft_queries.alerts(now)},
        )


class FinalizeView(OperatorView):
    permissions: ClassVar = {"POST": Permission.BILLING_CUT}

    @extend_schema(
        operation_id="cuts_finalize",
        parameters=[IDEMPOTENCY],
        request=shapes.FinalizeRequest,
        responses={200: shapes.FinalizeShape, **problems(403, 404, 503)},
    )
    def post(self, request: Request, cut: str) -> Response:
        """Operators: take every step that can finalize the cut's invoice. The brokers are asked again, the usage
        pipeline is woken, and the invoice is issued if it is complete. The answer says what was done and why the
        invoice is still a draft.

        Partitions in `waive` are not billed from this cut on.
        """
        asked = shapes.FinalizeRequest(data=request.data)
        asked.is_valid(raise_exception=True)
        waive = [
            (topic_id, int(partition))
            for topic_id, _, partition in (text.partition("-") for text in asked.validated_data["waive"])
        ]
        outcome = draft_actions.finalize_draft(
            self.actor, cut, waive=waive, reason=asked.validated_data["reason"]
        )
        return Response(shapes.FinalizeShape(outcome).data)


class DataSetsView(OperatorView):
    permissions: ClassVar = {"GET": Permission.BILLING_CUT}

    @extend_schema(
        operation_id="data_sets_list",
        parameters=[*PAGING],
        responses={
            200: listed("DataSet", shapes.DataSetShape(many=True), missing_usage=shapes.MISSING_USAGE),
            **problems(403),
        },
    )
    def get(self, request: Request) -> Response:
        """Operators: the imported run of each data set, and why a later one was refused."""
        missing = shapes.MissingUsageShape(queries.missing_usage(), many=True)
        rows = in_memory(queries.data_set_states, key=lambda state: (state["dataset"],))
        return self.paged(rows, shapes.DataSetShape, extra={"missing_usage": missing.data})
