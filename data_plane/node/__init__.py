"""The node: composes the cores of one broker in asyncio over ports."""
