"""Composes the proofs that records are unchanged: reading back, reported durability, reads that prove an invoice."""

from collections.abc import Callable

from data_plane.contract import methods
from data_plane.metadata.port import MetaStore
from data_plane.node.admission.gate import Gate
from data_plane.node.environment import Environment
from data_plane.node.integrity.commitments import Commitments
from data_plane.node.integrity.proof_reads import ProofReads
from data_plane.node.integrity.scrubber import Scrubber
from data_plane.node.integrity.topic_durability import TopicDurability
from data_plane.node.membership.metadata_view import MetadataView
from data_plane.node.ports import CallHandler
from data_plane.node.replicas.replica_set import ReplicaSet


class Integrity:
    """`scrubber.run` runs as long as the broker does; `internal_calls` and `peer_calls` are offered on those
    listeners."""

    def __init__(
        self,
        environment: Environment,
        *,
        view: MetadataView,
        store: MetaStore,
        gate: Gate,
        replicas: ReplicaSet,
        confident: Callable[[], bool],
    ) -> None:
        config, transport, clock = environment.config, environment.transport, environment.clock
        self.scrubber = Scrubber(
            config,
            view.image,
            environment.disk,
            transport,
            clock,
            environment.stats,
            gate,
            replicas,
            begin_turn=environment.begin_turn,
        )
        self.proofs = ProofReads(gate, replicas.find, environment.disk, clock, confident)
        self.commitments = Commitments(gate, view, store, clock)
        self._durability = TopicDurability(config, view, transport, self.scrubber)

    def internal_calls(self) -> dict[str, CallHandler]:
        return {methods.TOPIC_DURABILITY: self._durability.describe}

    def peer_calls(self) -> dict[str, CallHandler]:
        return {
            methods.COMPARE_SEGMENTS: self.scrubber.compare_segments,
            methods.TOPIC_DURABILITY: self._durability.describe,
        }
