"""A service in which there is as much as a test asks for of everything that a page of the console lists."""

import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import grpc
from django.db import transaction
from django.utils import timezone

from billing import price_actions
from billing.cost_models import CostTag
from billing.coupon_models import Coupon, CouponRedemption
from billing.models import (
    Cut,
    CutReading,
    CutUsage,
    DataSetRun,
    DataSetState,
    Invoice,
    PriceBook,
    SlaWindow,
    TenantTerms,
    UsageDay,
)
from billing.unit_cost_models import CostImport, CostSource, InfrastructureCost
from control_plane.access.models import AclEntry, KeyBinding, PrincipalGroup
from control_plane.access_reports.models import AccessReport
from control_plane.audit import actions as audit
from control_plane.audit.actor import system
from control_plane.outbox.models import Delivery
from control_plane.topics.models import Topic
from control_plane.webhooks.models import Webhook, WebhookAttempt, WebhookPosition
from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.contract.admin_client import AdminClient
from payments.models import Receivable
from penstock.contract import documents
from penstock.contract.limits import PRINCIPAL_GROUPS_PER_TENANT_MAX
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.access_report import LISTS, canonical, digest
from quotas.models import AccountLimits, Budget, Quota
from tenants.models import (
    ApiKey,
    Invitation,
    Membership,
    OperatorToken,
    Organisation,
    OrganisationInvitation,
    OrganisationMember,
    Person,
    ServiceAccount,
    Session,
    Tenant,
)
from tenants.roles import OrganisationRole, Role
from tests.certificates import identity, server_credentials
from tests.control_plane.billing import invoice_rows
from tests.control_plane.billing.invoice_rows import METERS
from tests.control_plane.world import ACTOR
from web.broker_access import KEY_NAME

EMPTY_REPORT = {"month": "2000-01", "default": "allow", **{name: [] for name in LISTS}}
BEGINNING = datetime(2020, 1, 1, tzinfo=UTC)
FAR = datetime(2100, 1, 1, tzinfo=UTC)
TODAY = timezone.now().date()


def fill(tenant: Tenant, owner: Person, numbers: range) -> None:
    """One more of everything for each number: in the tenant, of the owner, and in the service."""
    if not PriceBook.objects.exists():
        price_actions.publish_first_price_book(BEGINNING)
    with transaction.atomic():
        _history(tenant, numbers)
        _topics(tenant, numbers)
        _keys(tenant, owner, numbers)
        _access(tenant, numbers)
        _webhooks(tenant, numbers)
        _budgets(tenant, numbers)
        _people(tenant, owner, numbers)
        _organisations(owner, numbers)
        _tenants(owner, numbers)
        _usage(tenant, numbers)
        _invoices(tenant, numbers)
        _what_waits(numbers)
        _terms(tenant, numbers)
        _coupons(numbers)
        _costs(tenant, numbers)


def _coupons(numbers: range) -> None:
    """The first is redeemed by tenants of its own."""
    Coupon.objects.bulk_create(
        Coupon(
            code=f"COUPON-{number}", basis_points=100, amount_micro=0, days=31, uses_max=1_000_000, reason="test",
            from_at=BEGINNING, until_at=FAR,
        )
        for number in numbers
    )  # fmt: skip
    first = Coupon.objects.get(code="COUPON-0")
    CouponRedemption.objects.bulk_create(
        CouponRedemption(coupon=first, tenant=Tenant.objects.create(name=f"redeemer-{number}"), at=BEGINNING)
        for number in numbers
    )


def _costs(tenant: Tenant, numbers: range) -> None:
    CostTag.objects.bulk_create(
        CostTag(tenant=tenant, kind="topic", name=f"topic-{number:03}", key="team", value=f"team-{number}")
        for number in numbers
    )
    InfrastructureCost.objects.bulk_create(
        InfrastructureCost(
            name=f"host-{number}", kind="hosts", driver="bytes", amount=1, price_micro=number, per="month",
            currency="USD", from_at=datetime(2026, 1, 1, tzinfo=UTC),
        )
        for number in numbers
    )  # fmt: skip
    source, _ = CostSource.objects.get_or_create(name="cloud")
    CostImport.objects.bulk_create(
        CostImport(
            public_id=f"cim_{number}", source=source, sha256=f"{number:064x}", months=["2026-01"], rows=1, costs=1,
            totals={"USD": number}, before=[], made_at=BEGINNING,
        )
        for number in numbers
    )  # fmt: skip


def _terms(tenant: Tenant, numbers: range) -> None:
    TenantTerms.objects.bulk_create(
        TenantTerms(
            tenant=tenant,
            document=documents.plain(documents.NO_TERMS),
            revision=number + 1,
            changed_at=BEGINNING + timedelta(days=number),
        )
        for number in numbers
    )


def _organisations(owner: Person, numbers: range) -> None:
    """Organisations of the owner; the first has members, invitations and tenants, all of which are the owner's."""
    Organisation.objects.bulk_create(
        Organisation(
            public_id=f"org_{number}", name=f"organisation-{number:03}", display_name=f"Number {number}"
        )
        for number in numbers
    )
    made = Organisation.objects.filter(public_id__in=[f"org_{number}" for number in numbers])
    OrganisationMember.objects.bulk_create(
        OrganisationMember(organisation=row, person=owner, role=OrganisationRole.OWNER) for row in made
    )
    first = Organisation.objects.get(public_id="org_0")
    OrganisationMember.objects.bulk_create(
        OrganisationMember(
            organisation=first,
            person=Person.objects.create(email=f"of-organisation-{number}@acme.example"),
            role=OrganisationRole.AUDITOR,
        )
        for number in numbers
    )
    entries = [
        audit.Entry(action="organisation.update", object_id=f"{first.public_id}_{number}")
        for number in numbers
    ]
    with transaction.atomic():
        audit.record_all(system("test"), tenant=first.public_id, entries=entries)
    OrganisationInvitation.objects.bulk_create(
        OrganisationInvitation(
            organisation=first,
            public_id=f"ivt_of_organisation_{number}",
            email=f"invited-{number}@acme.example",
            role=OrganisationRole.AUDITOR,
            token_hash=f"of organisation {number}",
            expires_at=FAR,
        )
        for number in numbers
    )
    tenants = Tenant.objects.bulk_create(
        Tenant(
            public_id=f"ten_of_organisation_{number}",
            name=f"of-organisation-{number:03}",
            organisation=first,
        )
        for number in numbers
    )
    Membership.objects.bulk_create(Membership(tenant=row, person=owner, role=Role.OWNER) for row in tenants)


def _hex(number: int, kind: int) -> str:
    return f"{kind:016x}{number:016x}"


def _topics(tenant: Tenant, numbers: range) -> None:
    Topic.objects.bulk_create(
        Topic(
            public_id=f"top_{number}",
            tenant=tenant,
            name=f"topic-{number:03}",
            topic_id=_hex(number, 1),
            partitions=1,
            settings=TopicSettings().to_dict(),
            conditions=[{"type": "copies", "reason": "few", "message": "two are missing", "since": ""}],
        )
        for number in numbers
    )
    Topic.objects.bulk_create(
        Topic(
            public_id=f"top_binned_{number}",
            tenant=tenant,
            name=f"topic-{number:03}",
            topic_id=_hex(number, 2),
            partitions=1,
            settings=TopicSettings().to_dict(),
            on_brokers=True,
            binned_at=BEGINNING,
            purge_at=FAR,
        )
        for number in numbers
    )


def _keys(tenant: Tenant, owner: Person, numbers: range) -> None:
    keys = ApiKey.objects.bulk_create(
        ApiKey(
            public_id=f"key_{number}",
            tenant=tenant,
            key_id=f"{number:012}",
            name=f"program {number}",
            pepper_version=1,
            secret_hmac="",
            scram={},
            maker=owner,
            verifies=number % 2 == 0,
        )
        for number in numbers
    )
    KeyBinding.objects.bulk_create(
        KeyBinding(key=key, topic_prefix="topic", operations=["produce"]) for key in keys
    )


def _access(tenant: Tenant, numbers: range) -> None:
    AccessReport.objects.bulk_create(
        AccessReport(
            tenant=tenant,
            public_id=f"arp_{number}",
            month=f"{2000 + number // 12}-{number % 12 + 1:02}",
            made_at=BEGINNING,
            sha256=digest(EMPTY_REPORT),
            document=zlib.compress(canonical(EMPTY_REPORT)),
            counts={"changes": 0, "unused": 0, "refusals": 0},
        )
        for number in numbers
    )
    ServiceAccount.objects.bulk_create(
        ServiceAccount(tenant=tenant, public_id=f"sa_{number}", name=f"account-{number:03}")
        for number in numbers
    )
    AccountLimits.objects.bulk_create(
        AccountLimits(tenant=tenant, account=account, requests_per_s=5)
        for account in ServiceAccount.objects.filter(public_id__in=[f"sa_{number}" for number in numbers])
    )
    AclEntry.objects.bulk_create(
        AclEntry(
            tenant=tenant,
            public_id=f"acl_{number}",
            effect="allow",
            principal=f"service_account:sa_{number}",
            resource="topic",
            name=f"topic-{number:03}",
            literal=True,
            operations=["consume"],
            addresses=[],
            fingerprint=f"fingerprint {number}",
        )
        for number in numbers
    )
    PrincipalGroup.objects.bulk_create(
        PrincipalGroup(
            tenant=tenant,
            public_id=f"grp_{number}",
            name=f"group-{number:03}",
            members=[f"service_account:sa_{number}"],
        )
        for number in numbers
        if number < PRINCIPAL_GROUPS_PER_TENANT_MAX
    )


def _history(tenant: Tenant, numbers: range) -> None:
    """Versions of one topic, of the access list and of one group; and removals, of which keys are none."""
    # The overview counts the last changes, and leaves out what is named so.
    named = {"name": KEY_NAME}
    state = {"settings": {"retention_ms": 7_200_000}, **named}
    entries = []
    for number in numbers:
        gone: dict[str, Any] = {"entry": f"allow topic {number}", **named}
        gone["acl"] = {
            "effect": "allow",
            "principal": "everyone",
            "resource": "topic",
            "name": f"gone-{number}",
        }
        entries += [
            audit.Entry(action="topic.update", object_id="top_0", after=state),
            audit.Entry(action="acl.delete", object_id=f"acl_gone_{number}", before=gone),
            audit.Entry(action="principal_group.change", object_id="grp_0", after={"members": [], **named}),
            audit.Entry(action="service_account.delete", object_id=f"sa_gone_{number}", before=named),
        ]
    audit.record_all(system("test"), tenant=tenant.public_id, entries=entries)
    ServiceAccount.objects.bulk_create(
        ServiceAccount(tenant=tenant, public_id=f"sa_gone_{n}", name=f"gone-{n}", ended_at=BEGINNING)
        for n in numbers
    )


def _budgets(tenant: Tenant, numbers: range) -> None:
    Budget.objects.bulk_create(
        Budget(
            public_id=f"bud_{number}",
            tenant=tenant,
            name=f"budget-{number}",
            period="month",
            measure="bytes",
            amount=10**9,
            thresholds=[50],
            policy="notify",
        )
        for number in numbers
    )


def _webhooks(tenant: Tenant, numbers: range) -> None:
    rows = Webhook.objects.bulk_create(
        Webhook(
            public_id=f"whk_{number}",
            tenant=tenant,
            name=f"webhook-{number}",
            url="https://hooks.example.com/",
            events=["audit.*"],
            secret="x",
            due_at=BEGINNING,
        )
        for number in numbers
    )
    WebhookPosition.objects.bulk_create(
        WebhookPosition(webhook=row, source="audit", position=0) for row in rows
    )
    WebhookAttempt.objects.bulk_create(
        WebhookAttempt(
            webhook=Webhook.objects.get(public_id="whk_0"),
            event_id=f"audit_{number}",
            event_type="audit.topic.create",
            number=1,
            at=BEGINNING,
            duration_ms=1,
            status=200,
            delivered=True,
        )
        for number in numbers
    )


def _people(tenant: Tenant, owner: Person, numbers: range) -> None:
    people = Person.objects.bulk_create(
        Person(email=f"person-{number:03}@acme.example", public_id=f"usr_{number}") for number in numbers
    )
    Membership.objects.bulk_create(
        Membership(tenant=tenant, person=person, role="developer") for person in people
    )
    Invitation.objects.bulk_create(
        Invitation(
            public_id=f"ivt_{number}",
            tenant=tenant,
            email=f"invited-{number:03}@acme.example",
            role="billing",
            token_hash=f"invitation {number}",
            expires_at=FAR,
        )
        for number in numbers
    )
    Session.objects.bulk_create(
        Session(
            person=owner,
            public_id=f"sin_{number}",
            token_hash=f"session {number}",
            source="192.0.2.1",
            browser="curl/8",
            expires_at=FAR,
        )
        for number in numbers
    )
    OperatorToken.objects.bulk_create(
        OperatorToken(public_id=f"opr_{number}", name=f"operator {number}", token_hash=f"operator {number}")
        for number in numbers
    )


def _tenants(owner: Person, numbers: range) -> None:
    tenants = Tenant.objects.bulk_create(
        Tenant(public_id=f"tn_{number}", name=f"tenant-{number:03}") for number in numbers
    )
    Membership.objects.bulk_create(Membership(tenant=one, person=owner, role="owner") for one in tenants)
    Quota.objects.bulk_create(Quota(tenant=one, partitions_max=7) for one in tenants)


def _usage(tenant: Tenant, numbers: range) -> None:
    UsageDay.objects.bulk_create(
        UsageDay(
            tenant=tenant,
            topic_id=_hex(number, 1),
            topic=f"topic-{number:03}",
            day=TODAY,
            meter=meter,
            quantity=number + 1,
        )
        for number in numbers
        for meter in METERS
    )
    SlaWindow.objects.bulk_create(
        SlaWindow(
            tenant=tenant,
            operation="produce",
            window=BEGINNING + timedelta(minutes=5 * number),
            valid=1,
            bad=0,
        )
        for number in numbers
    )


def _invoices(tenant: Tenant, numbers: range) -> None:
    """An invoice an hour; the first has evidence and credit notes too, one more for each number."""
    book = PriceBook.objects.get()
    cuts = invoice_rows.add_cuts(tenant, numbers, start=BEGINNING)
    entries = [
        audit.record(ACTOR, tenant=tenant.public_id, action="invoice.issue", object_id=f"inv_{number}")
        for number in numbers
    ]
    invoices = invoice_rows.add_drafts(numbers, cuts, [book] * len(cuts))
    invoice_rows.issue(invoices, BEGINNING, [(entry.sequence, entry.hash) for entry in entries])
    Receivable.objects.bulk_create(
        Receivable(
            tenant=tenant,
            invoice=invoice,
            state="open",
            currency="USD",
            total_micro=invoice.total_micro or 0,
            problem="visa was declined",
            due_at=FAR,
        )
        for invoice in invoices
    )
    first = Invoice.objects.get(public_id="inv_0")
    CutReading.objects.bulk_create(invoice_rows.reading(first.cut, _hex(number, 1), 0) for number in numbers)
    CutUsage.objects.bulk_create(
        CutUsage(
            cut=first.cut,
            tenant=first.tenant,
            topic_id=_hex(number, 1),
            topic=f"topic-{number:03}",
            partition=0,
            log_generation=1,
            day=date(2020, 1, 1),
            meter=meter,
            quantity=5,
            first_offset=0,
            end_offset=9,
        )
        for number in numbers
        for meter in METERS
    )
    invoice_rows.add_waivers(cuts, _hex(0, 2), 0)
    invoice_rows.credit(numbers, [first] * len(cuts), cuts)


def _what_waits(numbers: range) -> None:
    """Drafts of the owner's other tenants, data sets, and changes that are not on the brokers."""
    book = PriceBook.objects.get()
    for number in numbers:
        tenant = Tenant.objects.get(public_id=f"tn_{number}")
        cut = Cut.objects.create(
            tenant=tenant, period_start=BEGINNING, period_end=BEGINNING + timedelta(days=1)
        )
        Invoice.objects.create(tenant=tenant, number=1, cut=cut, price_book=book)
    DataSetRun.objects.bulk_create(
        DataSetRun(
            dataset=f"set_{number:03}",
            run_id=f"run_{number}",
            inputs={},
            rows=1,
            skipped=0,
            imported_at=BEGINNING,
        )
        for number in numbers
    )
    DataSetState.objects.bulk_create(
        DataSetState(dataset=f"set_{number:03}", run_id=f"run_{number}") for number in numbers
    )
    Delivery.objects.bulk_create(
        Delivery(
            kind="topic",
            object_id=f"top_{number}",
            tenant="tn_0",
            generation=1,
            created_at=BEGINNING,
            next_attempt_at=FAR,
        )
        for number in numbers
    )


# -- what brokers say of the whole cluster --------------------------------------------------------------


@dataclass(slots=True)
class Described:
    """A cluster of `count` brokers, each the leader of one partition of another tenant."""

    count: int = 1

    def describe(self, request: pb.DescribeClusterRequest, context: object) -> pb.DescribeClusterResponse:
        numbers = range(self.count)
        return pb.DescribeClusterResponse(
            cluster_id="c",
            controller=0,
            brokers=[pb.DescribedBroker(id=number, state="active", leaders=1) for number in numbers],
            partitions=[
                pb.DescribedPartition(
                    tenant=f"tn_{number}",
                    topic="orders",
                    topic_id=bytes(16),
                    leader=number,
                    replicas=[number],
                )
                for number in numbers
            ],
        )


@contextmanager
def described() -> Iterator[tuple[Described, AdminClient]]:
    """A broker that says so behind a real port, and the control plane's client of it."""
    cluster = Described()
    server = grpc.server(ThreadPoolExecutor(1))
    service, _, method = methods.DESCRIBE_CLUSTER.lstrip("/").partition("/")
    handler = grpc.unary_unary_rpc_method_handler(
        cluster.describe,
        request_deserializer=pb.DescribeClusterRequest.FromString,
        response_serializer=pb.DescribeClusterResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = server.add_secure_port("127.0.0.1:0", server_credentials(identity("broker-1")))
    server.start()
    client = AdminClient([f"127.0.0.1:{port}"], identity("control-plane"))
    try:
        yield cluster, client
    finally:
        client.close()
        server.stop(None).wait()
