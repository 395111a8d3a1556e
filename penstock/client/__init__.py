"""The client's core: every decision of the SDK, without I/O, clock, threads or an event loop.

`ClientCore` (core.py) is what a runtime drives. The runtime reports what happened and what time it is; the core answers
with actions (actions.py), frames to send, and batches whose outcome is known. The blocking runtime
(penstock/blocking) and the asyncio runtime (penstock/asyncio) are the only two users; both drive the same
core, so they cannot disagree about what a retry is.
"""
