"""A broker with links in plain text: `python -m benchmarks.plain_broker --config FILE`."""

import json
import sys
from pathlib import Path

from benchmarks.plain_links import PlainListener, PlainTransport
from data_plane.broker import process

if __name__ == "__main__":
    PlainTransport.own = json.loads(Path(sys.argv[-1]).read_text())["broker_id"]
    vars(process).update(PeerListener=PlainListener, PeerTransport=PlainTransport)
    process.main(sys.argv[1:])
