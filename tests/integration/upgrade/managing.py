"""A program that runs on the SDK of either release: makes, changes, lists and deletes with a tenant's key, and prints
what it found. Usage: python managing.py '{"bootstrap", "api_key", "api_url", "name", "group"}'
"""

import json
import sys

import penstock
from penstock import Client


def main(bootstrap: list[str], api_key: str, api_url: str, name: str, group: str) -> None:
    """One topic and one key are made; the key's place among the others is found, and the topic is used and deleted."""
    with Client(bootstrap=bootstrap, api_key=api_key, api_url=api_url) as client:
        admin = client.admin
        made = admin.create_topic(name, 2)
        changed = admin.update_topic(name, {"retention_ms": 7_200_000})
        with client.producer() as producer:
            receipt = producer.send(name, b"one", partition=1).result(60)
        with client.consumer([name]) as consumer:
            ends = consumer.end_offsets()
        listed = sorted(topic.name for topic in admin.topics())
        members = len(client.group(group).members)
        admin.delete_topic(name)
    print(
        json.dumps(
            {
                "version": penstock.__version__,
                "partitions": made.partitions,
                "retention_ms": changed.settings["retention_ms"],
                "offset": receipt.offset,
                "end": ends[name, 1],
                "listed": listed,
                "members": members,
            }
        )
    )


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
