"""Composes the client listener: streams, calls, consumer groups, and reads that prove an invoice."""

from collections.abc import Callable

from data_plane.metadata.port import MetaStore
from data_plane.node.admission.gate import Gate
from data_plane.node.environment import Environment
from data_plane.node.groups.wing import Groups
from data_plane.node.integrity.wing import Integrity
from data_plane.node.log_directory.disk_space import DiskSpace
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.metering.metering import Metering
from data_plane.node.replicas.committer import Committer
from data_plane.node.replicas.replica import Replica
from data_plane.node.replicas.replica_set import ReplicaSet
from data_plane.node.serving.allowance import Allowances
from data_plane.node.serving.client_calls import ClientCalls
from data_plane.node.serving.client_service import ClientParts, client_service
from data_plane.node.serving.client_streams import ClientStreams
from data_plane.node.serving.key_reports import KeyReports
from data_plane.node.serving.record_deletion import RecordDeletion
from data_plane.placement.hot_keys import HotKeyTable


class Serving:
    """`service` is what the client listener offers; `groups.coordinators.run` runs as long as the broker does."""

    def __init__(
        self,
        environment: Environment,
        *,
        view: MetadataView,
        store: MetaStore,
        gate: Gate,
        allowances: Allowances,
        replicas: ReplicaSet,
        disk_space: DiskSpace,
        committer: Committer,
        trim: Callable[[Replica, int], None],
        metering: Metering,
        integrity: Integrity,
        hot_keys: HotKeyTable,
        writing: Callable[[], bool],
        reading: Callable[[], bool],
        confident: Callable[[], bool],
    ) -> None:
        """`writing` and `reading`: may this broker do so by what it knows of the metadata?
        `confident`: was its session confirmed just now?"""
        requests, fairness = allowances.requests, allowances.fairness
        self.streams = ClientStreams(
            environment,
            gate=gate,
            allowances=allowances,
            replicas=replicas,
            disk_space=disk_space,
            committer=committer,
            client_use=metering.clients,
            writing=writing,
            reading=reading,
        )
        begin_turn = environment.begin_turn
        deletion = RecordDeletion(
            gate, replicas.find, trim, metering, environment.clock, confident, begin_turn
        )
        self.groups = Groups(
            environment,
            view=view,
            store=store,
            gate=gate,
            replicas=replicas,
            confident=confident,
            advance=deletion.advance,
        )
        calls = ClientCalls(
            environment.config,
            view,
            gate,
            store,
            replicas.find,
            metering.clients.count_call,
            fairness,
            requests=requests,
            begin_turn=begin_turn,
        )
        self.key_reports = KeyReports(environment, gate, replicas, hot_keys)
        parts = ClientParts(
            streams=self.streams,
            calls=calls,
            groups=self.groups.calls,
            proofs=integrity.proofs,
            commitments=integrity.commitments,
            deletion=deletion,
            scrubber=integrity.scrubber,
            key_reports=self.key_reports,
        )
        self.service = client_service(parts, gate, fairness, requests)

    def recheck(self) -> None:
        """Keys or tenants changed."""
        self.streams.recheck()
