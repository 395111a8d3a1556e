"""Every list of REST with what fills it: rows that belong together as the service's own do, and brokers that answer."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import grpc
from allauth.mfa.models import Authenticator

from control_plane.access.models import AclEntry, KeyBinding, PrincipalGroup
from control_plane.access_reports.models import AccessReport
from control_plane.audit.models import AuditEntry
from control_plane.placement.models import (
    BrokerOrder,
    Cell,
    LoadReport,
    Move,
    MoveState,
    PlacementPlan,
    PlanKind,
)
from control_plane.topics.models import Topic
from control_plane.webhooks.models import Webhook
from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.contract.admin_client import AdminClient
from quotas.models import AccountLimits, Budget
from tenants.models import (
    ApiKey,
    Invitation,
    Membership,
    Organisation,
    OrganisationInvitation,
    OrganisationMember,
    Person,
    ServiceAccount,
    Session,
    Tenant,
)
from tenants.roles import OrganisationRole, Role, Standing
from tests.certificates import identity, server_credentials
from tests.control_plane.api import lists_of_terms as of_terms
from tests.control_plane.api.lists_of_billing import (
    availability,
    chain,
    data_sets,
    drafts,
    invoices,
    payments,
    plans,
    price_books,
    receivables,
    usage,
)
from tests.control_plane.world import House

BEGINNING, LATER = of_terms.BEGINNING, of_terms.LATER


@dataclass(slots=True)
class Cluster:
    """What the brokers say."""

    described: pb.DescribeClusterResponse = field(default_factory=pb.DescribeClusterResponse)
    moves: pb.DescribeMovesResponse = field(default_factory=pb.DescribeMovesResponse)


@contextmanager
def cluster() -> Iterator[tuple[Cluster, AdminClient]]:
    """A broker that runs, and the control plane's client of it."""
    said = Cluster()
    server = grpc.server(ThreadPoolExecutor(1))
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        methods.DESCRIBE_CLUSTER: grpc.unary_unary_rpc_method_handler(
            lambda request, context: said.described,
            request_deserializer=pb.DescribeClusterRequest.FromString,
            response_serializer=pb.DescribeClusterResponse.SerializeToString,
        ),
        methods.DESCRIBE_MOVES: grpc.unary_unary_rpc_method_handler(
            lambda request, context: said.moves,
            request_deserializer=pb.DescribeMovesRequest.FromString,
            response_serializer=pb.DescribeMovesResponse.SerializeToString,
        ),
    }
    service = methods.DESCRIBE_CLUSTER.split("/")[1]
    by_name = {path.rpartition("/")[2]: handler for path, handler in handlers.items()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, by_name),))
    port = server.add_secure_port("127.0.0.1:0", server_credentials(identity("broker-1")))
    server.start()
    client = AdminClient([f"127.0.0.1:{port}"], identity("control-plane"))
    try:
        yield said, client
    finally:
        client.close()
        server.stop(None).wait()


# -- tenants, people, topics, keys ---------------------------------------------------------------------


def tenants(house: House, said: Cluster, numbers: range) -> None:
    Tenant.objects.bulk_create(Tenant(public_id=f"ten_{n}", name=f"tenant-{n}") for n in numbers)


def _persons(word: str, numbers: range) -> list[Person]:
    return Person.objects.bulk_create(Person(email=f"{word}-{n}@acme.example") for n in numbers)


def people(house: House, said: Cluster, numbers: range) -> None:
    Membership.objects.bulk_create(
        Membership(tenant=house.tenant, person=person, role=Role.DEVELOPER)
        for person in _persons("member", numbers)
    )


def invitations(house: House, said: Cluster, numbers: range) -> None:
    Invitation.objects.bulk_create(
        Invitation(
            public_id=f"ivt_{n}",
            tenant=house.tenant,
            email=f"invited-{n}@acme.example",
            role=Role.DEVELOPER,
            token_hash=f"{n:064x}",
            expires_at=LATER,
        )
        for n in numbers
    )


def organisation_of(house: House) -> Organisation:
    """The one that the lists below are about; the house's owner owns it."""
    made, new = Organisation.objects.get_or_create(
        public_id="org_listed", defaults={"name": "listed", "display_name": "listed"}
    )
    if new:
        OrganisationMember.objects.create(
            organisation=made, person=_owner(house), role=OrganisationRole.OWNER
        )
    return made


def _owner(house: House) -> Person:
    return Person.objects.get(memberships__tenant=house.tenant, memberships__role=Role.OWNER)


def organisations(house: House, said: Cluster, numbers: range) -> None:
    made = Organisation.objects.bulk_create(
        Organisation(public_id=f"org_{n}", name=f"organisation-{n}", display_name=f"{n}") for n in numbers
    )
    OrganisationMember.objects.bulk_create(
        OrganisationMember(organisation=row, person=_owner(house), role=OrganisationRole.AUDITOR)
        for row in made
    )


def organisation_members(house: House, said: Cluster, numbers: range) -> None:
    OrganisationMember.objects.bulk_create(
        OrganisationMember(organisation=organisation_of(house), person=person, role=OrganisationRole.AUDITOR)
        for person in _persons("member", numbers)
    )


def organisation_invitations(house: House, said: Cluster, numbers: range) -> None:
    OrganisationInvitation.objects.bulk_create(
        OrganisationInvitation(
            public_id=f"ivt_{n}",
            organisation=organisation_of(house),
            email=f"invited-{n}@acme.example",
            role=OrganisationRole.AUDITOR,
            token_hash=f"{n:064x}",
            expires_at=LATER,
        )
        for n in numbers
    )


def organisation_tenants(house: House, said: Cluster, numbers: range) -> None:
    Tenant.objects.bulk_create(
        Tenant(public_id=f"ten_{n}", name=f"tenant-{n}", organisation=organisation_of(house)) for n in numbers
    )


def organisation_audit(house: House, said: Cluster, numbers: range) -> None:
    AuditEntry.objects.bulk_create(
        AuditEntry(
            tenant=organisation_of(house).public_id,
            sequence=1_000 + n,
            at=BEGINNING,
            actor_kind="system",
            actor_id="test",
            action="member.join",
            object_id=f"usr_{n}",
            previous_hash=f"{n:064x}",
            hash=f"{n + 1:064x}",
        )
        for n in numbers
    )


def sign_ins(house: House, said: Cluster, numbers: range) -> None:
    owner = Person.objects.get(memberships__tenant=house.tenant, memberships__role=Role.OWNER)
    Session.objects.bulk_create(
        Session(
            public_id=f"sin_{n}",
            person=owner,
            token_hash=f"{n:064x}",
            source="127.0.0.1",
            browser="test",
            expires_at=LATER,
        )
        for n in numbers
    )


def second_factors(house: House, said: Cluster, numbers: range) -> None:
    owner = Person.objects.get(memberships__tenant=house.tenant, memberships__role=Role.OWNER)
    Authenticator.objects.bulk_create(
        Authenticator(user=owner, type=Authenticator.Type.WEBAUTHN, data={"name": f"passkey {n}"})
        for n in numbers
    )


def binned_topics(house: House, said: Cluster, numbers: range) -> None:
    topics(house, said, numbers)
    rows = Topic.objects.filter(public_id__in=[f"top_{n}" for n in numbers])
    rows.update(on_brokers=True, binned_at=BEGINNING, purge_at=BEGINNING)


def topics(house: House, said: Cluster, numbers: range) -> None:
    Topic.objects.bulk_create(
        Topic(
            public_id=f"top_{n}",
            tenant=house.tenant,
            name=f"topic-{n}",
            topic_id=f"{n:032x}",
            partitions=1,
            settings={"retention_ms": -1},
            conditions=[{"type": "delivery", "reason": "timeout", "message": "", "since": "2026-01-01"}],
        )
        for n in numbers
    )


def keys(house: House, said: Cluster, numbers: range) -> None:
    accounts = ServiceAccount.objects.bulk_create(
        ServiceAccount(public_id=f"sac_{n}", tenant=house.tenant, name=f"program-{n}") for n in numbers
    )
    rows = ApiKey.objects.bulk_create(
        ApiKey(
            public_id=f"key_{n}",
            tenant=house.tenant,
            service_account=account,
            key_id=f"{n:012x}",
            name=f"key-{n}",
            pepper_version=1,
            secret_hmac="",
            scram={},
            maker=maker,
        )
        for n, account, maker in zip(numbers, accounts, _persons("maker", numbers), strict=True)
    )
    KeyBinding.objects.bulk_create(
        KeyBinding(key=row, topic_prefix=prefix, operations=["produce"])
        for row in rows
        for prefix in ("orders", "returns")
    )


def verifying_keys(house: House, said: Cluster, numbers: range) -> None:
    keys(house, said, numbers)
    ApiKey.objects.filter(tenant=house.tenant).update(verifies=True)


def service_accounts(house: House, said: Cluster, numbers: range) -> None:
    ServiceAccount.objects.bulk_create(
        ServiceAccount(public_id=f"sa_{n}", tenant=house.tenant, name=f"program-{n}") for n in numbers
    )


def account_limits(house: House, said: Cluster, numbers: range) -> None:
    service_accounts(house, said, numbers)
    AccountLimits.objects.bulk_create(
        AccountLimits(tenant=house.tenant, account=account, requests_per_s=1)
        for account in ServiceAccount.objects.filter(public_id__in=[f"sa_{n}" for n in numbers])
    )


def budgets(house: House, said: Cluster, numbers: range) -> None:
    rows = [Budget(public_id=f"bud_{n}", name=f"budget-{n}", tenant=house.tenant, amount=1) for n in numbers]
    for row in rows:
        row.period, row.measure, row.policy, row.thresholds = "month", "bytes", "notify", [50]
    Budget.objects.bulk_create(rows)


def principal_groups(house: House, said: Cluster, numbers: range) -> None:
    PrincipalGroup.objects.bulk_create(
        PrincipalGroup(public_id=f"grp_{n}", tenant=house.tenant, name=f"group-{n}", members=["person:usr_1"])
        for n in numbers
    )


def webhooks(house: House, said: Cluster, numbers: range) -> None:
    Webhook.objects.bulk_create(
        Webhook(
            public_id=f"whk_{n}",
            tenant=house.tenant,
            name=f"webhook-{n}",
            url="https://hooks.example.com/",
            events=["audit.*"],
            secret="x",
            due_at=BEGINNING,
        )
        for n in numbers
    )


def acls(house: House, said: Cluster, numbers: range) -> None:
    AclEntry.objects.bulk_create(
        AclEntry(
            public_id=f"acl_{n}",
            tenant=house.tenant,
            effect="deny",
            principal="everyone",
            resource="topic",
            name=f"topic-{n}",
            fingerprint=f"{n:064x}",
        )
        for n in numbers
    )


def access_reports(house: House, said: Cluster, numbers: range) -> None:
    AccessReport.objects.bulk_create(
        AccessReport(
            public_id=f"arp_{n}",
            tenant=house.tenant,
            month=f"{2000 + n // 12}-{n % 12 + 1:02}",
            made_at=BEGINNING,
            sha256=f"{n:064x}",
            document=b"",
            counts={"people": n},
        )
        for n in numbers
    )


def audit(house: House, said: Cluster, numbers: range) -> None:
    AuditEntry.objects.bulk_create(
        AuditEntry(
            tenant=house.tenant.public_id,
            sequence=1_000 + n,
            at=BEGINNING,
            actor_kind="system",
            actor_id="test",
            action="topic.create",
            object_id=f"top_{n}",
            after={"partitions": n},
            previous_hash=f"{n:064x}",
            hash=f"{n + 1:064x}",
        )
        for n in numbers
    )


def _changes(house: House, numbers: range, action: str, object_id: str, **before: object) -> None:
    AuditEntry.objects.bulk_create(
        AuditEntry(
            tenant=house.tenant.public_id,
            sequence=2_000 + n,
            at=datetime.now(UTC),
            actor_kind="system",
            actor_id="test",
            action=action,
            object_kind=action.partition(".")[0],
            object_id=object_id.format(n),
            before=before,
            after={"n": n},
            previous_hash=f"{n:064x}",
            hash=f"{n + 1:064x}",
        )
        for n in numbers
    )


def removed_access(house: House, said: Cluster, numbers: range) -> None:
    _changes(house, numbers, "acl.delete", "acl_{}", entry="allow everyone")


def access_history(house: House, said: Cluster, numbers: range) -> None:
    _changes(house, numbers, "acl.create", "acl_{}")


def topic_history(house: House, said: Cluster, numbers: range) -> None:
    if not Topic.objects.filter(public_id="top_history").exists():
        Topic.objects.create(
            public_id="top_history",
            tenant=house.tenant,
            name="history",
            topic_id="f" * 32,
            partitions=1,
            settings={"retention_ms": -1},
        )
    _changes(house, numbers, "topic.update", "top_history")


def group_history(house: House, said: Cluster, numbers: range) -> None:
    _changes(house, numbers, "principal_group.change", "grp_history")


# -- the cluster ---------------------------------------------------------------------------------------


def brokers(house: House, said: Cluster, numbers: range) -> None:
    # Not active, or the client would ask them.
    said.described.brokers.extend(
        pb.DescribedBroker(id=n, state="fenced", client_address=f"broker-{n}:9092") for n in numbers
    )
    BrokerOrder.objects.bulk_create(BrokerOrder(public_id=f"bro_{n}", broker=n, use="drain") for n in numbers)


def losses(house: House, said: Cluster, numbers: range) -> None:
    # Of each moment there are several, and the brokers name them in no order.
    said.described.losses.extend(
        pb.DeclaredLoss(
            tenant=house.tenant.public_id,
            topic="orders",
            topic_id=bytes(16),
            partition=n,
            kind="elected",
            log_generation=2,
            declared_ms=n // 4,
        )
        for n in reversed(numbers)
    )


def placement_plans(house: House, said: Cluster, numbers: range) -> None:
    skew = {"replicas": 50.0, "log_bytes": 0.0, "leaders": 0.0, "bytes_per_s": 0.0}
    PlacementPlan.objects.bulk_create(
        PlacementPlan(public_id=f"plc_{n}", kind=PlanKind.DRAIN, broker=n, skew_before=skew, skew_after=skew)
        for n in numbers
    )


def cells(house: House, said: Cluster, numbers: range) -> None:
    Cell.objects.bulk_create(Cell(public_id=f"cel_{n}", name=f"cell-{n}", brokers=[n]) for n in numbers)


def hot_partitions(house: House, said: Cluster, numbers: range) -> None:
    """Of a broker each, with a topic of its own."""
    topics(house, said, numbers)
    for n in numbers:
        rate = 2**30 - n
        LoadReport.objects.create(
            broker=n,
            seen_at=datetime.now(UTC),
            sums={
                "bytes_in_per_s": rate,
                "bytes_out_per_s": 0,
                "connections": 1,
                "leaders": 1,
                "replicas": 1,
                "log_bytes": 1,
                "led_log_bytes": 1,
                "disk_used_bytes": 1,
                "disk_total_bytes": 2,
            },
            partitions=[[f"{n:032x}", 0, True, 1, rate, 0, 1.0]],
        )


def moves(house: House, said: Cluster, numbers: range) -> None:
    Move.objects.bulk_create(
        Move(
            public_id=f"mov_{n}",
            cause="rebalance",
            topic_id=f"{n:032x}",
            tenant=house.tenant.public_id,
            topic="orders",
            partition=n,
            source=1,
            destination=2,
            target=[2, 3],
            state=MoveState.MOVING,
        )
        for n in numbers
    )
    said.moves.moves.extend(
        pb.DescribedMove(
            topic_id=n.to_bytes(16, "big"),
            partition=n,
            progress=[pb.MoveProgress(broker=2, offsets_left=n, bytes_left=n)],
        )
        for n in numbers
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A list: who reads it here, and what fills it for these numbers."""

    fill: Callable[[House, Cluster, range], object]
    by: Standing = Standing.OWNER
    query: str = ""
    of: str = ""
    """The id or name of what it is the list of."""
    a_number: int = 1
    """How many items there are for each number."""


OPERATOR = Standing.OPERATOR
LISTS: Mapping[str, Listed] = {
    "/v1/tenants": Listed(fill=tenants, by=OPERATOR),
    "/v1/tenants/{tenant}/terms/history": Listed(fill=of_terms.terms),
    "/v1/people": Listed(fill=people),
    "/v1/invitations": Listed(fill=invitations),
    "/v1/organisations": Listed(fill=organisations),
    "/v1/all-organisations": Listed(fill=organisations, by=OPERATOR),
    "/v1/organisations/{organisation}/members": Listed(fill=organisation_members, of="org_listed"),
    "/v1/organisations/{organisation}/invitations": Listed(fill=organisation_invitations, of="org_listed"),
    "/v1/organisations/{organisation}/tenants": Listed(fill=organisation_tenants, of="org_listed"),
    "/v1/organisations/{organisation}/audit": Listed(fill=organisation_audit, of="org_listed"),
    "/v1/sign-ins": Listed(fill=sign_ins),
    "/v1/second-factors": Listed(fill=second_factors),
    "/v1/topics": Listed(fill=topics),
    "/v1/bin/topics": Listed(fill=binned_topics),
    "/v1/bin/access": Listed(fill=removed_access),
    "/v1/access/history": Listed(fill=access_history),
    "/v1/topics/{name}/history": Listed(fill=topic_history, of="history"),
    "/v1/principal-groups/{group}/history": Listed(fill=group_history, of="grp_history"),
    "/v1/keys": Listed(fill=keys),
    "/v1/keys:verifying": Listed(fill=verifying_keys),
    "/v1/service-accounts": Listed(fill=service_accounts),
    "/v1/service-account-limits": Listed(fill=account_limits),
    "/v1/budgets": Listed(fill=budgets),
    "/v1/principal-groups": Listed(fill=principal_groups),
    "/v1/acls": Listed(fill=acls),
    "/v1/access/reports": Listed(fill=access_reports),
    "/v1/webhooks": Listed(fill=webhooks),
    "/v1/audit": Listed(fill=audit),
    "/v1/cluster/brokers": Listed(fill=brokers, by=OPERATOR),
    "/v1/cluster/losses": Listed(fill=losses, by=OPERATOR),
    "/v1/cluster/moves": Listed(fill=moves, by=OPERATOR),
    "/v1/placement/plans": Listed(fill=placement_plans, by=OPERATOR),
    "/v1/placement/cells": Listed(fill=cells, by=OPERATOR),
    "/v1/placement/hot": Listed(fill=hot_partitions, by=OPERATOR),
    "/v1/hot-partitions": Listed(fill=hot_partitions),
    "/v1/usage": Listed(fill=usage, query="by=topic,day"),
    "/v1/costs": Listed(fill=usage, query="by=topic,day&month=2026-01"),
    "/v1/cost-tags": Listed(fill=of_terms.cost_tags),
    "/v1/availability": Listed(fill=availability),
    "/v1/invoices": Listed(fill=invoices),
    "/v1/payments": Listed(fill=payments),
    "/v1/billing/receivables": Listed(fill=receivables, by=OPERATOR),
    "/v1/credit-notes": Listed(fill=invoices, a_number=2),
    **{at: Listed(fill=fill, by=OPERATOR, query=how) for at, (fill, how) in of_terms.ASKED.items()},
    "/v1/price-books": Listed(fill=price_books),
    "/v1/plans": Listed(fill=plans),
    "/v1/billing/chain": Listed(fill=chain),
    "/v1/billing/drafts": Listed(fill=drafts, by=OPERATOR),
    "/v1/billing/data-sets": Listed(fill=data_sets, by=OPERATOR),
}
