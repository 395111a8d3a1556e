"""What an authenticator app shows (RFC 6238), for tests of second factors."""

import base64
import hashlib
import hmac
import time

_STEP_S = 30


def code_of(secret: str, *, steps: int = 0) -> str:
    """The code of the secret (base32), so many steps of 30 s from now."""
    counter = (int(time.time()) // _STEP_S + steps).to_bytes(8, "big")
    digest = hmac.digest(base64.b32decode(secret), counter, hashlib.sha1)
    at = digest[-1] & 0xF
    return f"{(int.from_bytes(digest[at : at + 4], 'big') & 0x7FFFFFFF) % 10**6:06}"
