"""Shell: the broker process: asyncio, gRPC, real disk and clock."""
