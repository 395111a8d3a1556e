"""One more process on the embedded metadata store; the tests start it with a task and read its lines.

increment PATH COUNT   add one to /n that often by compare-and-set, print each revision once it is answered
hold PATH              take the write lock, say `held`, and wait to be killed
full PATH              write until the file may not grow any more, and say what was raised then, and what goes on
"""

import asyncio
import resource
import sqlite3
import sys
import time
from pathlib import Path

from data_plane.broker.sqlite_store import SqliteStore
from data_plane.metadata.port import Compare, Put, StoreUnavailable


async def increment(path: Path, count: int) -> None:
    store = await SqliteStore.open(path)
    done = 0
    while done < count:
        items = (await store.range("/n")).items
        number, revision = (int(items[0].value), items[0].mod_revision) if items else (0, 0)
        result = await store.txn([Compare("/n", revision)], [Put("/n", b"%d" % (number + 1))])
        if result.succeeded:
            done += 1
            print(result.revision, number + 1, flush=True)
    await store.close()


async def full(path: Path) -> None:
    store = await SqliteStore.open(path)
    session = await store.session(60_000)
    await store.txn([], [Put("/a", b"1")])
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    longest = max(file.stat().st_size for file in path.parent.iterdir())
    resource.setrlimit(resource.RLIMIT_FSIZE, (longest, hard))
    for number in range(300):
        await store.txn([], [Put("/small", b"%d" % number)])
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM meta").fetchall()
    asyncio.get_running_loop().call_later(0.3, reader.close)
    for number in range(300):
        await store.txn([], [Put("/small", b"%d" % number)])
    listing = await store.range("/")
    try:
        await store.txn([], [Put("/a", b"lost"), Put("/big", b"x" * 4_000_000)])
        print("never full", flush=True)
    except StoreUnavailable as error:
        print(error, flush=True)
    for _ in range(300):
        await session.keep_alive()
    print("kept alive", (await store.range("/")) == listing, flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    result = await store.txn([], [Put("/a", b"2")])
    print("space again", result.revision - listing.revision, flush=True)
    await store.close()


def hold(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    print("held", flush=True)
    time.sleep(600)


def main() -> None:
    task, path = sys.argv[1], Path(sys.argv[2])
    if task == "increment":
        asyncio.run(increment(path, int(sys.argv[3])))
    elif task == "full":
        asyncio.run(full(path))
    else:
        hold(path)


if __name__ == "__main__":
    main()
