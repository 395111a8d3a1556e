"""How the SDK reaches brokers: the port of the asyncio runtime, and what both gRPC stacks share."""
