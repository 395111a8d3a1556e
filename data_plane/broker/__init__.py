"""Shell: the broker process: asyncio, gRPC, real disk and clock."""

import os

# Read by grpc when it is first imported: its own lines would stand between the objects of the log.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
