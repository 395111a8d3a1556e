"""Brokers that answer cuts as a test says, behind a real gRPC port: what they were asked, and what they say."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from data_plane.contract import admin_pb2 as pb
from data_plane.contract import methods
from data_plane.contract.admin_client import AdminClient
from penstock.records.cut import CutEnd, cut_sha256
from tests.certificates import identity, server_credentials


@dataclass(slots=True)
class Answering:
    """One broker. `entries` are its readings of every cut but those of the waived; `failed` has no reading now."""

    asked: list[pb.CutRequest] = field(default_factory=list)
    entries: Sequence[CutEnd] = ()
    failed: Sequence[tuple[str, int]] = ()
    sha256: str | None = None
    """None: the right one."""

    def cut(self, request: pb.CutRequest, context: Any) -> pb.CutResponse:
        self.asked.append(request)
        waived = {(place.topic_id.hex(), place.partition) for place in request.waived}
        there = [
            entry
            for entry in self.entries
            if (entry.where.topic_id.hex(), entry.where.partition) not in waived
        ]
        failed = [
            entry for entry in there if (entry.where.topic_id.hex(), entry.where.partition) in self.failed
        ]
        answer = pb.CutResponse(
            readings=[
                pb.CutReading(
                    topic_id=entry.where.topic_id,
                    partition=entry.where.partition,
                    log_generation=entry.log_generation,
                    end_offset=entry.end_offset,
                    accepted_ms=entry.accepted_ms,
                    messages=entry.messages,
                    stored_bytes=entry.bytes,
                    last=entry.last,
                    error=11 if entry in failed else 0,
                    message="it has no leader" if entry in failed else "",
                )
                for entry in there
            ]
        )
        if not failed:
            right = cut_sha256(request.tenant, request.cut_id, request.end_ms, there)
            answer.sha256 = right if self.sha256 is None else self.sha256
        return answer


@contextmanager
def answering() -> Iterator[tuple[Answering, AdminClient]]:
    """A broker that runs, and the control plane's client of it."""
    broker = Answering()
    server = grpc.server(ThreadPoolExecutor(1))
    service, _, method = methods.CUT.lstrip("/").partition("/")
    handler = grpc.unary_unary_rpc_method_handler(
        broker.cut,
        request_deserializer=pb.CutRequest.FromString,
        response_serializer=pb.CutResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = server.add_secure_port("127.0.0.1:0", server_credentials(identity("broker-1")))
    server.start()
    client = AdminClient([f"127.0.0.1:{port}"], identity("control-plane"))
    try:
        yield broker, client
    finally:
        client.close()
        server.stop(None).wait()
