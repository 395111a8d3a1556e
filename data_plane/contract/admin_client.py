"""Blocking client of the brokers' Admin service: what can be asked of them, and what they answer.

Any broker takes Admin calls. Changes that carry a generation or an id of the caller's may be repeated.
"""

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Self

from daemon.tls import OwnIdentity
from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.contract.broker_calls import CALL_S, BrokerCalls
from penstock.contract.topic_settings import TopicSettings
from penstock.rules.access import AccessList
from penstock.rules.access_document import access_list_json
from penstock.rules.budgets import Budget
from penstock.rules.credentials import Credential
from penstock.rules.principal_limits import PrincipalLimits

CHANGE_S = 10.0
"""Of one change with all its attempts; below the lease of a delivery."""
CUT_S = 30.0
_CUT_CALL_S = 15.0
"""A broker answers a cut within 12 s, when it has waited 9 s for a silent one."""
_SEEN_S = 5.0
"""For the brokers to see a change: a few ms when all is well."""


class AdminClient:
    """One process's channels to the brokers. Raises `PenstockError` subclasses. Safe between threads.

    Opens a channel at the first call; close it or use it in a `with`. Topic ids are 16 bytes.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        identity: OwnIdentity,
        remembered: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        """`addresses` are host:port of internal listeners; `remembered` gives more that were seen before.
        `identity` says who this process is."""
        self._calls = BrokerCalls(addresses, identity, remembered)
        self._lately: tuple[float, tuple[pb.DescribedBroker, ...]] = (-math.inf, ())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._calls.close()

    @property
    def sent(self) -> Counter[str]:
        """How many calls were sent, by name."""
        return self._calls.sent

    # -- reading ---------------------------------------------------------------------------------------------

    def describe_cluster(
        self,
        *,
        partitions: bool = False,
        objects: bool = False,
        address: str | None = None,
        timeout_s: float = CHANGE_S,
    ) -> pb.DescribeClusterResponse:
        """The cluster as one broker sees it: the one at `address`, or the first that answers.

        Objects (tenants, topics, keys) and partitions come in pages: the answer is only as new as the oldest of
        them. Raises `BrokerUnavailable`.
        """

        def page(after: str) -> pb.DescribeClusterResponse:
            request = pb.DescribeClusterRequest(partitions=partitions, objects=objects, after=after)
            method, answer_type = methods.DESCRIBE_CLUSTER, pb.DescribeClusterResponse
            if address is None:
                return self._calls.ask(method, request, answer_type, timeout_s)
            return self._calls.call(address, method, request, answer_type, timeout_s)

        answer = page("")
        after = answer.next
        while after:
            more = page(after)
            answer.tenants.extend(more.tenants)
            answer.topics.extend(more.topics)
            answer.keys.extend(more.keys)
            answer.partitions.extend(more.partitions)
            answer.revision = min(answer.revision, more.revision)
            answer.objects_revision = min(answer.objects_revision, more.objects_revision)
            after = more.next
        self._calls.addresses.learn(
            [broker.internal_address for broker in answer.brokers if broker.state == "active"]
        )
        self._described(answer)
        return answer

    def describe_topic(
        self, *, topic_id: bytes = b"", tenant: str = "", name: str = "", timeout_s: float = CHANGE_S
    ) -> pb.DescribedTopic:
        """One topic, by its id or by tenant and name. Raises `NotFound`."""
        request = pb.DescribeTopicRequest(topic_id=topic_id, tenant=tenant, name=name)
        return self._calls.ask(methods.DESCRIBE_TOPIC, request, pb.DescribeTopicResponse, timeout_s).topic

    def describe_moves(self, timeout_s: float = CALL_S) -> list[pb.DescribedMove]:
        """Reassignments under way, with what is left of each."""
        request = pb.DescribeMovesRequest()
        return list(
            self._calls.ask(methods.DESCRIBE_MOVES, request, pb.DescribeMovesResponse, timeout_s).moves
        )

    def key_use(
        self, *, within_ms: int, after: str, pepper_version: int = 0, timeout_s: float = CALL_S
    ) -> pb.DescribeKeyUseResponse:
        """Keys that were used at any broker within that time: the first by id behind `after`. With the peppers that all
        active brokers have, and the hashes of keys under `pepper_version`.
        """
        request = pb.DescribeKeyUseRequest(within_ms=within_ms, after=after, pepper_version=pepper_version)
        return self._calls.ask(methods.DESCRIBE_KEY_USE, request, pb.DescribeKeyUseResponse, timeout_s)

    def describe_load(
        self, address: str, partitions_max: int, timeout_s: float = CALL_S
    ) -> pb.DescribeLoadResponse:
        """What the broker at this internal address takes, gives and stores, with its weightiest partitions.

        Raises `BrokerUnavailable`, and `NotSupported` for a broker of a release before.
        """
        request = pb.DescribeLoadRequest(partitions_max=partitions_max)
        return self._calls.call(address, methods.DESCRIBE_LOAD, request, pb.DescribeLoadResponse, timeout_s)

    def hot_keys(self, address: str, topic_id: bytes, timeout_s: float = CALL_S) -> list[pb.DescribedHotKeys]:
        """Frequent keys of the topic's partitions that the broker at this internal address leads.

        Raises `BrokerUnavailable`, and `NotSupported` for a broker of a release before.
        """
        request = pb.DescribeHotKeysRequest(topic_id=topic_id)
        answer = self._calls.call(
            address, methods.DESCRIBE_HOT_KEYS, request, pb.DescribeHotKeysResponse, timeout_s
        )
        return list(answer.partitions)

    def tenant_use(self, tenant: str, timeout_s: float = CALL_S) -> pb.DescribeTenantUseResponse:
        """What the tenant uses of the limits that brokers know."""
        request = pb.DescribeTenantUseRequest(tenant=tenant)
        return self._calls.ask(methods.DESCRIBE_TENANT_USE, request, pb.DescribeTenantUseResponse, timeout_s)

    def budgets(self, tenants: Sequence[str], timeout_s: float = CALL_S) -> list[pb.BudgetUsed]:
        """What was counted of these tenants' budgets, as one broker's metadata have it."""
        request = pb.DescribeBudgetsRequest(tenants=tenants)
        answer = self._calls.ask(methods.DESCRIBE_BUDGETS, request, pb.DescribeBudgetsResponse, timeout_s)
        return list(answer.budgets)

    def topic_durability(self, topic_id: bytes, timeout_s: float = CALL_S) -> list[pb.DescribedDurability]:
        """All partitions by number, as their leaders say. Raises `NotFound`."""
        request = pb.TopicDurabilityRequest(topic_id=topic_id)
        answer = self._calls.ask(methods.TOPIC_DURABILITY, request, pb.TopicDurabilityResponse, timeout_s)
        return list(answer.partitions)

    def wait_until_seen(self, outcome: pb.Outcome, timeout_s: float = _SEEN_S) -> None:
        """Wait until every broker that was active at the change has seen it, so that no client meets one that has not.

        One call to each but the broker that made the change; each answers once it has seen it. A broker that does not
        answer in time is passed over.
        """
        newest = self._calls.wait_for_revision(outcome.other_brokers, outcome.revision, timeout_s)
        if newest is not None:
            self._described(newest)

    def brokers_lately(self, within_s: float) -> Sequence[pb.DescribedBroker]:
        """The brokers as one of them described them to this client within that time; none if none did. No call."""
        at, brokers = self._lately
        return brokers if time.monotonic() - at <= within_s else ()

    def _described(self, answer: pb.DescribeClusterResponse) -> None:
        self._lately = (time.monotonic(), tuple(answer.brokers))

    # -- changing --------------------------------------------------------------------------------------------

    def put_tenant(
        self,
        tenant: str,
        *,
        generation: int = 0,
        produce_bytes_per_s: int | None = None,
        partitions_max: int | None = None,
        consume_bytes_per_s: int | None = None,
        connections_max: int = 0,
        groups_max: int = 0,
        requests_per_s: int = 0,
        connection_attempts_per_s: int = 0,
        rate_burst_ms: int = 0,
        rate_floor_percent: int = 0,
        storage_bytes_max: int = 0,
        kept_bytes_max: int = 0,
        broker_processor_ms_per_s: int = 0,
        suspended: bool = False,
        principals: Mapping[str, PrincipalLimits] | None = None,
        budgets: Sequence[Budget] = (),
        timeout_s: float = CHANGE_S,
    ) -> pb.Outcome:
        """Make the tenant exist in this state. Limits: 0 = none. Without a generation and without limits a tenant that
        exists keeps its own. `principals`: whose service accounts' are beside the tenant's, all of them; `budgets`:
        all of the tenant.
        """
        quotas = None
        given = (produce_bytes_per_s, partitions_max, consume_bytes_per_s)
        later = (
            connections_max, groups_max, requests_per_s, connection_attempts_per_s, rate_burst_ms, rate_floor_percent,
            storage_bytes_max, kept_bytes_max, broker_processor_ms_per_s,
        )  # fmt: skip
        if suspended or principals or budgets or any(later) or any(limit is not None for limit in given):
            quotas = pb.TenantQuotas(
                produce_bytes_per_s=produce_bytes_per_s or 0,
                partitions_max=partitions_max or 0,
                consume_bytes_per_s=consume_bytes_per_s or 0,
                connections_max=connections_max,
                groups_max=groups_max,
                requests_per_s=requests_per_s,
                connection_attempts_per_s=connection_attempts_per_s,
                rate_burst_ms=rate_burst_ms,
                rate_floor_percent=rate_floor_percent,
                storage_bytes_max=storage_bytes_max,
                kept_bytes_max=kept_bytes_max,
                broker_processor_ms_per_s=broker_processor_ms_per_s,
            )
        request = pb.PutTenantRequest(
            tenant=tenant,
            generation=generation,
            quotas=quotas,
            suspended=suspended,
            budgets=[pb.Budget(**asdict(budget)) for budget in budgets],
            principals=[
                pb.PrincipalLimits(
                    principal=principal,
                    produce_bytes_per_s=own.produce_bytes_per_s,
                    consume_bytes_per_s=own.consume_bytes_per_s,
                    requests_per_s=own.requests_per_s,
                )
                for principal, own in (principals or {}).items()
            ],
        )
        return self._calls.change(methods.PUT_TENANT, request, pb.Outcome, timeout_s, repeatable=True)

    def put_key(
        self,
        credential: Credential,
        *,
        tenant: str,
        name: str,
        expires_at_ms: int = 0,
        generation: int = 0,
        bindings: Sequence[pb.Binding] = (),
        owner: str = "",
        timeout_s: float = CHANGE_S,
    ) -> pb.PutKeyResponse:
        """Make the key valid, or change it. No bindings: everything within the tenant. `owner` is its principal."""
        request = pb.PutKeyRequest(
            key_id=credential.key_id,
            tenant=tenant,
            name=name,
            pepper_version=credential.pepper_version,
            secret_hmac=bytes.fromhex(credential.secret_hmac),
            scram_json=json.dumps(credential.scram),
            expires_at_ms=expires_at_ms,
            generation=generation,
            bindings=bindings,
            owner=owner,
        )
        return self._calls.change(methods.PUT_KEY, request, pb.PutKeyResponse, timeout_s, repeatable=True)

    def put_access_list(
        self, tenant: str, rules: AccessList, *, generation: int = 0, timeout_s: float = CHANGE_S
    ) -> pb.Outcome:
        """Who may do what in the tenant, as a whole. Raises `LimitExceeded`, `InvalidRequest`, `NotFound`."""
        request = pb.PutAccessListRequest(
            tenant=tenant, generation=generation, rules_json=access_list_json(rules)
        )
        return self._calls.change(methods.PUT_ACCESS_LIST, request, pb.Outcome, timeout_s, repeatable=True)

    def revoke_key(self, key_id: str, *, generation: int = 0, timeout_s: float = CHANGE_S) -> pb.Outcome:
        """Make the key invalid for good. Raises `NotFound` for one that the brokers never had."""
        request = pb.RevokeKeyRequest(key_id=key_id, generation=generation)
        return self._calls.change(methods.REVOKE_KEY, request, pb.Outcome, timeout_s, repeatable=True)

    def create_topic(
        self,
        tenant: str,
        name: str,
        settings: TopicSettings,
        assignments: Sequence[Sequence[int]],
        *,
        generation: int = 0,
        topic_id: bytes = b"",
        timeout_s: float = CHANGE_S,
    ) -> pb.CreateTopicResponse:
        """Create a topic on the brokers assigned. Only with a `topic_id` may it be repeated. Raises `AlreadyExists`."""
        request = new_topic(tenant, name, settings, assignments, generation=generation, topic_id=topic_id)
        repeatable = bool(topic_id)
        return self._calls.change(
            methods.CREATE_TOPIC, request, pb.CreateTopicResponse, timeout_s, repeatable=repeatable
        )

    def create_topics(
        self, topics: Sequence[pb.CreateTopicRequest], *, timeout_s: float = CHANGE_S
    ) -> pb.CreateTopicsResponse:
        """Create topics, each made by `new_topic` with a `topic_id`; at most `TOPICS_PER_CALL_MAX`.

        The answer has an outcome for each of them, in order: refused ones are not raised. May be repeated.
        """
        request = pb.CreateTopicsRequest(topics=topics)
        return self._calls.change(
            methods.CREATE_TOPICS, request, pb.CreateTopicsResponse, timeout_s, repeatable=True
        )

    def update_topic(
        self,
        tenant: str,
        topic_id: bytes,
        settings: TopicSettings,
        added: Sequence[Sequence[int]] = (),
        *,
        generation: int = 0,
        timeout_s: float = CHANGE_S,
    ) -> pb.Outcome:
        """Replace the topic's settings and add partitions on the brokers assigned. With a generation, or without new
        partitions, it may be repeated.
        """
        request = pb.UpdateTopicRequest(
            tenant=tenant,
            topic_id=topic_id,
            settings_json=json.dumps(settings.to_dict()),
            added=_assignments(added),
            generation=generation,
        )
        repeatable = bool(generation) or not added
        return self._calls.change(methods.UPDATE_TOPIC, request, pb.Outcome, timeout_s, repeatable=repeatable)

    def delete_topic(
        self,
        tenant: str,
        name: str,
        *,
        generation: int = 0,
        topic_id: bytes = b"",
        timeout_s: float = CHANGE_S,
    ) -> pb.Outcome:
        """Delete a topic with all of its messages. With a `topic_id` only the topic of this id, and only then may it
        be repeated. Raises `NotFound`.
        """
        request = pb.DeleteTopicRequest(tenant=tenant, name=name, generation=generation, topic_id=topic_id)
        repeatable = bool(topic_id)
        return self._calls.change(methods.DELETE_TOPIC, request, pb.Outcome, timeout_s, repeatable=repeatable)

    def bin_topic(
        self, tenant: str, topic_id: bytes, *, generation: int = 0, timeout_s: float = CHANGE_S
    ) -> pb.Outcome:
        """Put the topic into the recycle bin. Raises `InvalidRequest` (the feature level is too low), `NotFound`."""
        request = pb.BinTopicRequest(tenant=tenant, topic_id=topic_id, generation=generation)
        return self._calls.change(methods.BIN_TOPIC, request, pb.Outcome, timeout_s, repeatable=True)

    def restore_topic(
        self, tenant: str, topic_id: bytes, name: str, *, generation: int = 0, timeout_s: float = CHANGE_S
    ) -> pb.Outcome:
        """Take the topic out of the recycle bin, under this name. Raises `AlreadyExists`, `NotFound`."""
        request = pb.RestoreTopicRequest(tenant=tenant, topic_id=topic_id, name=name, generation=generation)
        return self._calls.change(methods.RESTORE_TOPIC, request, pb.Outcome, timeout_s, repeatable=True)

    def cut(
        self,
        cut_id: str,
        tenant: str,
        end_ms: int,
        *,
        previous_end_ms: int = 0,
        billing: tuple[int, str] = (0, ""),
        waived: Sequence[tuple[bytes, int]] = (),
        timeout_s: float = CUT_S,
    ) -> pb.CutResponse:
        """End a tenant's period: one reading a partition, at the last batch before `end_ms`. Those with an `error` may
        be asked for again with the same id.

        `previous_end_ms`: where the tenant's cut before ended, 0 for the first. `billing`: number and hash of the
        billing chain's newest entry, which the brokers keep with the cut. `waived`: (topic id, partition) that no cut
        has any more.
        """
        request = pb.CutRequest(
            cut_id=cut_id,
            tenant=tenant,
            end_ms=end_ms,
            previous_end_ms=previous_end_ms,
            billing_sequence=billing[0],
            billing_hash=billing[1],
            waived=[pb.CutPlace(topic_id=topic_id, partition=number) for topic_id, number in waived],
        )
        return self._calls.change(
            methods.CUT, request, pb.CutResponse, timeout_s, repeatable=True, call_s=_CUT_CALL_S
        )

    def declare_loss(
        self,
        topic_id: bytes,
        partition: int,
        broker: int | None,
        *,
        accept: bool,
        asked_by: str = "",
        timeout_s: float = CHANGE_S,
    ) -> pb.DeclareLossResponse:
        """Let the broker's replica lead whatever is lost by it, or (None) repair the only copy; without `accept` only
        what would be declared. Raises `InvalidRequest` when a leader or a clean election is there.
        """
        request = pb.DeclareLossRequest(
            topic_id=topic_id, partition=partition, broker=broker, accept_loss=accept, asked_by=asked_by
        )
        return self._calls.change(
            methods.DECLARE_LOSS, request, pb.DeclareLossResponse, timeout_s, repeatable=not accept
        )

    # -- where partitions are ----------------------------------------------------------------------------------

    def alter_replicas(
        self,
        topic_id: bytes,
        partition: int,
        replicas: Sequence[int] | None,
        *,
        timeout_s: float = CHANGE_S,
    ) -> pb.Outcome:
        """Change which brokers hold a partition, in order of preference; None takes back what is under way."""
        request = pb.AlterReplicasRequest(
            topic_id=topic_id, partition=partition, replicas=replicas or [], cancel=replicas is None
        )
        return self._calls.change(methods.ALTER_REPLICAS, request, pb.Outcome, timeout_s, repeatable=True)

    def move_leader(
        self, topic_id: bytes, partition: int, broker: int, *, timeout_s: float = CHANGE_S
    ) -> pb.Outcome:
        """Have the leader hand over to an in-sync replica."""
        request = pb.MoveLeaderRequest(topic_id=topic_id, partition=partition, broker=broker)
        return self._calls.change(methods.MOVE_LEADER, request, pb.Outcome, timeout_s, repeatable=True)

    def cordon_broker(
        self, broker: int, cordoned: bool, *, generation: int = 0, timeout_s: float = CHANGE_S
    ) -> pb.Outcome:
        """Take a broker out of use, or back."""
        request = pb.CordonBrokerRequest(broker=broker, cordoned=cordoned, generation=generation)
        return self._calls.change(methods.CORDON_BROKER, request, pb.Outcome, timeout_s, repeatable=True)

    def forget_broker(self, broker: int, *, timeout_s: float = CHANGE_S) -> pb.Outcome:
        """Remove what the metadata knows of a broker that was drained and stopped."""
        request = pb.ForgetBrokerRequest(broker=broker)
        return self._calls.change(methods.FORGET_BROKER, request, pb.Outcome, timeout_s, repeatable=True)

    def set_feature_level(self, level: int, *, timeout_s: float = CHANGE_S) -> pb.Outcome:
        """Put a feature level in force. Raises `InvalidRequest` with the brokers that do not support it."""
        request = pb.SetFeatureLevelRequest(level=level)
        return self._calls.change(methods.SET_FEATURE_LEVEL, request, pb.Outcome, timeout_s, repeatable=True)


def new_topic(
    tenant: str,
    name: str,
    settings: TopicSettings,
    assignments: Sequence[Sequence[int]],
    *,
    generation: int = 0,
    topic_id: bytes = b"",
) -> pb.CreateTopicRequest:
    """A topic to be created on the brokers assigned to its partitions."""
    return pb.CreateTopicRequest(
        tenant=tenant,
        name=name,
        settings_json=json.dumps(settings.to_dict()),
        assignments=_assignments(assignments),
        generation=generation,
        topic_id=topic_id,
    )


def _assignments(brokers: Sequence[Sequence[int]]) -> list[pb.Assignment]:
    return [pb.Assignment(brokers=each) for each in brokers]
