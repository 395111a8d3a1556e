"""Answers of the brokers' Admin service as plain values."""

from control_plane.brokers import view
from data_plane.contract import admin_pb2 as pb
from penstock.rules.domains import Crowd


def loss_seen(loss: pb.DeclaredLoss) -> view.LossSeen:
    """The loss by which a log generation began."""
    return view.LossSeen(
        tenant=loss.tenant,
        topic=loss.topic,
        topic_id=loss.topic_id.hex(),
        partition=loss.partition,
        kind=loss.kind,
        log_generation=loss.log_generation,
        leader=loss.leader,
        leader_epoch=loss.leader_epoch,
        offset=loss.offset,
        known_end_offset=loss.known_end_offset,
        asked_by=loss.asked_by,
        declared_ms=loss.declared_ms,
    )


def topic_seen(topic: pb.DescribedTopic) -> view.TopicSeen:
    """One topic as the metadata has it."""
    return view.TopicSeen(
        tenant=topic.tenant,
        name=topic.name,
        topic_id=topic.topic_id.hex(),
        partitions=topic.partitions,
        settings_json=topic.settings_json,
        generation=topic.generation,
        together=Crowd(topic.copies_in_one_zone, topic.copies_on_one_host)
        if topic.copies_in_one_zone
        else None,
        binned=topic.binned,
    )


def move_seen(move: pb.DescribedMove) -> view.MoveSeen:
    """One partition on its way."""
    return view.MoveSeen(
        tenant=move.tenant,
        topic=move.topic,
        topic_id=move.topic_id.hex(),
        partition=move.partition,
        leader=move.leader,
        replicas=tuple(move.replicas),
        target=tuple(move.target),
        adding=tuple(move.adding),
        removing=tuple(move.removing),
        in_sync=tuple(move.in_sync),
        progress=tuple(
            view.MoveProgress(
                broker=p.broker, in_sync=p.in_sync, offsets_left=p.offsets_left, bytes_left=p.bytes_left
            )
            for p in move.progress
        ),
    )


def durability_seen(partition: pb.DescribedDurability) -> view.DurabilitySeen:
    """What was read back from the disks of one partition."""
    return view.DurabilitySeen(
        partition=partition.partition,
        log_start_offset=partition.log_start_offset,
        verified_end_offset=partition.verified_end_offset,
        high_watermark=partition.high_watermark,
        replicas=partition.replicas,
        verified_ms=partition.verified_ms if partition.verified_ms >= 0 else None,
        error=partition.message if partition.error else "",
    )


def hot_keys_seen(partition: pb.DescribedHotKeys) -> view.HotKeysSeen:
    """The frequent keys of one partition."""
    return view.HotKeysSeen(
        partition=partition.partition,
        messages=partition.messages,
        keys=tuple(
            view.HotKeySeen(key=key.key, size=key.size, messages=key.messages) for key in partition.keys
        ),
    )


def broker_seen(broker: pb.DescribedBroker) -> view.BrokerSeen:
    return view.BrokerSeen(
        id=broker.id,
        state=broker.state,
        client_address=broker.client_address,
        internal_address=broker.internal_address,
        zone=broker.zone,
        host=broker.host,
        leaders=broker.leaders,
        replicas=broker.replicas,
        cordoned=broker.cordoned,
        version=broker.version,
        level_min=broker.level_min or 1,
        level_max=broker.level_max or 1,
    )


def tenant_use_seen(use: pb.DescribeTenantUseResponse) -> view.TenantUseSeen:
    """What a tenant uses; numbers that are too low are none."""
    if use.silent:
        return view.TenantUseSeen()
    if use.leaderless:
        return view.TenantUseSeen(connections=use.connections)
    return view.TenantUseSeen(connections=use.connections, groups=use.groups, storage_bytes=use.storage_bytes)


def near_storage_seen(use: pb.DescribeKeyUseResponse) -> view.NearStorageSeen | None:
    """Who is near its storage limit; None where no controller answered."""
    if not use.HasField("near_storage"):
        return None
    return view.NearStorageSeen(
        uses=tuple(
            view.StorageUseSeen(tenant=one.tenant, used_bytes=one.used_bytes, limit=one.limit_bytes)
            for one in use.near_storage.tenants
        ),
        whole=use.near_storage.whole,
    )


def load_seen(load: pb.DescribeLoadResponse) -> view.BrokerLoadSeen:
    """One broker's load."""
    return view.BrokerLoadSeen(
        broker=load.broker,
        bytes_in_per_s=load.bytes_in_per_s,
        bytes_out_per_s=load.bytes_out_per_s,
        connections=load.connections,
        leaders=load.leaders,
        replicas=load.replicas,
        log_bytes=load.log_bytes,
        led_log_bytes=load.led_log_bytes,
        disk_used_bytes=load.disk_used_bytes,
        disk_total_bytes=load.disk_total_bytes,
        partitions=tuple(
            view.PartitionLoadSeen(
                topic_id=p.topic_id.hex(),
                partition=p.partition,
                leads=p.leads,
                log_bytes=p.log_bytes,
                bytes_in_per_s=p.bytes_in_per_s,
                bytes_out_per_s=p.bytes_out_per_s,
                batches_per_s=p.batches_per_1000_s / 1_000,
                slow_downs_per_s=p.slow_downs_per_1000_s / 1_000,
                hot_key_percent=min(100, p.hot_key_percent),
            )
            for p in load.partitions
        ),
    )


def cluster_view(answer: pb.DescribeClusterResponse) -> view.ClusterView:
    """One page of the cluster; further pages were put into it."""
    return view.ClusterView(
        losses=tuple(loss_seen(loss) for loss in answer.losses),
        cluster_id=answer.cluster_id,
        controller=answer.controller,
        revision=answer.revision,
        objects_revision=answer.objects_revision,
        feature_level=answer.feature_level or 1,
        levels=tuple(
            view.LevelSeen(level=known.level, release=known.release, brings=known.brings)
            for known in answer.levels
        ),
        brokers=tuple(broker_seen(broker) for broker in answer.brokers),
        partitions=tuple(
            view.PartitionSeen(
                tenant=p.tenant,
                topic=p.topic,
                topic_id=p.topic_id.hex(),
                partition=p.partition,
                leader=p.leader,
                leader_epoch=p.leader_epoch,
                replicas=tuple(p.replicas),
                in_sync=tuple(p.in_sync),
                last_known=tuple(p.last_known),
                log_generation=p.log_generation,
                target=tuple(p.target),
            )
            for p in answer.partitions
        ),
        tenants=tuple(
            view.TenantSeen(
                tenant=t.tenant,
                generation=t.generation,
                produce_bytes_per_s=t.quotas.produce_bytes_per_s,
                partitions_max=t.quotas.partitions_max,
                consume_bytes_per_s=t.quotas.consume_bytes_per_s,
                connections_max=t.quotas.connections_max,
                groups_max=t.quotas.groups_max,
                requests_per_s=t.quotas.requests_per_s,
                connection_attempts_per_s=t.quotas.connection_attempts_per_s,
                rate_burst_ms=t.quotas.rate_burst_ms,
                rate_floor_percent=t.quotas.rate_floor_percent,
                storage_bytes_max=t.quotas.storage_bytes_max,
                kept_bytes_max=t.quotas.kept_bytes_max,
                broker_processor_ms_per_s=t.quotas.broker_processor_ms_per_s,
                suspended=t.suspended,
                access_list_generation=t.access_list_generation,
                access_list_digest=t.access_list_digest,
                principal_limits_digest=t.principal_limits_digest,
                budgets_digest=t.budgets_digest,
            )
            for t in answer.tenants
        ),
        topics=tuple(topic_seen(topic) for topic in answer.topics),
        keys=tuple(
            view.KeySeen(
                key_id=k.key_id,
                tenant=k.tenant,
                revoked=k.revoked,
                expires_at_ms=k.expires_at_ms,
                generation=k.generation,
                bindings=tuple(
                    view.BindingSeen(
                        topic_prefix=b.topic_prefix,
                        operations=tuple(b.operations),
                        resource=b.resource,
                        literal=b.literal,
                    )
                    for b in k.bindings
                ),
                owner=k.owner,
                principal=k.principal,
            )
            for k in answer.keys
        ),
    )
