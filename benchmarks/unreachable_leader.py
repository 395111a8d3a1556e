"""How long writes stand still when brokers, metadata store and clients no longer reach the broker that leads.

`python -m benchmarks.unreachable_leader --cuts N --folder DIR` goes into network namespaces of its own. Three brokers
and three etcd nodes have an address each there. It prints the longest time without an acknowledgement of each cut, in
seconds, as one JSON list. Cuts are in turn whole, of what comes in and of what goes out. Needs the rights of root.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.writer import FAULT_S, Writer, target_of, wait_whole
from hosts.cluster import TENANT, Cluster, Shape
from hosts.commands import CommandFailed
from hosts.isolation import go_inside
from hosts.switch import Switch
from penstock.contract.topic_settings import TopicSettings

_WAYS = ((True, True), (True, False), (False, True))
"""(inwards, outwards) of one cut after the other."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.unreachable_leader", description=__doc__)
    parser.add_argument("--cuts", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        go_inside("benchmarks.unreachable_leader", arguments)
        cluster = Cluster(options.folder, Shape(disks=("ext4",) * 3), Switch())
    except CommandFailed as failed:
        print(f"unreachable_leader: {failed}", file=sys.stderr)
        return 2
    try:
        cluster.boot()
        cluster.provision()
        gaps = _measure(cluster, options.cuts)
    except BaseException:
        print(cluster.last_words(), file=sys.stderr)
        raise
    finally:
        cluster.end()
        cluster.unmount()
    print(json.dumps(gaps))
    return 0


def _measure(cluster: Cluster, cuts: int) -> list[float]:
    gaps: list[float] = []
    admin = cluster.desk.admin
    writer = Writer(",".join(cluster.bootstrap), cluster.api_key, str(cluster.ca_file))
    for number in range(cuts):
        leaders, controller = wait_whole(admin, TENANT)
        target = target_of(number, cluster.shape.brokers, controller)
        topic = next((topic for topic, leader in leaders.items() if leader == target), "")
        if not topic:
            topic = f"led-{number}"
            rest = [broker for broker in cluster.shape.brokers if broker != target]
            admin.wait_until_seen(
                admin.create_topic(TENANT, topic, TopicSettings(), [[target, *rest]]).outcome
            )
        writer.write_to(topic)
        writer.wait_steady(0.0)
        inwards, outwards = _WAYS[number % len(_WAYS)]
        wire = cluster.brokers[target].host.wire
        began = time.monotonic()
        wire.cut(inwards=inwards, outwards=outwards)
        time.sleep(FAULT_S)
        writer.wait_steady(began)
        wire.heal()
        wait_whole(admin, TENANT)
        writer.wait_steady(time.monotonic())
        gaps.append(writer.longest_gap_s(began))
        cut = "whole" if inwards and outwards else "inwards" if inwards else "outwards"
        of = " of the controller" if target == controller else ""
        print(f"  cut {number + 1} of {cuts}, {cut}{of}: {gaps[-1]:.2f} s", file=sys.stderr, flush=True)
    writer.end()
    return gaps


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
