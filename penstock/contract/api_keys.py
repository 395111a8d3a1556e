"""The text of an API key: `penstock_<env>_<12 id>_<43 secret><6 crc32>`, letters and digits in base 62.

The id is public. The secret holds 256 random bits. The checksum is the CRC-32 of everything before it, so a
mistyped or cut key differs from a wrong one without a request, and secret scanners can recognise one.
"""

import re
import zlib
from dataclasses import dataclass

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
BRAND = "penstock"
ENV_LENGTH_MAX = 12
ID_LENGTH = 12
SECRET_LENGTH = 43
CHECKSUM_LENGTH = 6
RANDOM_BYTES = 48
"""What `make_api_key` needs: 16 bytes for the id, 32 for the secret."""

_KEY_ID = re.compile(rf"[0-9A-Za-z]{{{ID_LENGTH}}}")
_ENV = re.compile(rf"[a-z0-9]{{1,{ENV_LENGTH_MAX}}}")
PUBLIC_PART = rf"{BRAND}_({_ENV.pattern})_({_KEY_ID.pattern})_"
"""Pattern of what stands before a key's secret."""
_KEY = re.compile(rf"({PUBLIC_PART}([0-9A-Za-z]{{{SECRET_LENGTH}}}))([0-9A-Za-z]{{{CHECKSUM_LENGTH}}})")


class MalformedApiKey(ValueError):
    """The text is no API key. Its message never repeats the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key in parts. Its `repr` and `str` show no secret; `reveal()` is for the one time it is shown."""

    env: str
    key_id: str
    secret: str

    def __repr__(self) -> str:
        return f"ApiKey({BRAND}_{self.env}_{self.key_id}_…)"

    def __str__(self) -> str:
        return repr(self)

    def reveal(self) -> str:
        """The whole text."""
        text = f"{BRAND}_{self.env}_{self.key_id}_{self.secret}"
        return text + _base62(zlib.crc32(text.encode()), CHECKSUM_LENGTH)


def is_key_id(text: str) -> bool:
    """Whether the text has the form of a key's public id."""
    return _KEY_ID.fullmatch(text) is not None


def is_env(text: str) -> bool:
    """Whether keys can be of an environment of this name."""
    return _ENV.fullmatch(text) is not None


def make_api_key(env: str, random_bytes: bytes) -> ApiKey:
    """A new key from RANDOM_BYTES bytes of a cryptographic source. Raises `ValueError`."""
    if not is_env(env):
        raise ValueError(f"env {env!r}: 1 to {ENV_LENGTH_MAX} of a-z 0-9 required")
    if len(random_bytes) != RANDOM_BYTES:
        raise ValueError(f"{len(random_bytes)} random bytes, {RANDOM_BYTES} required")
    # 128 bits taken modulo 62^12: the bias is below 2^-56.
    number = int.from_bytes(random_bytes[:16], "big") % len(ALPHABET) ** ID_LENGTH
    secret = int.from_bytes(random_bytes[16:], "big")
    return ApiKey(env=env, key_id=_base62(number, ID_LENGTH), secret=_base62(secret, SECRET_LENGTH))


def parse_api_key(text: str) -> ApiKey:
    """The parts of a key. Raises `MalformedApiKey`, which says what is wrong but never shows the text."""
    match = _KEY.fullmatch(text)
    if match is None:
        raise MalformedApiKey(f"not of the form {BRAND}_<env>_<id>_<secret>, of {len(text)} characters")
    body, env, key_id, secret, checksum = match.groups()
    if _base62(zlib.crc32(body.encode()), CHECKSUM_LENGTH) != checksum:
        raise MalformedApiKey("its checksum is wrong: mistyped or cut")
    return ApiKey(env=env, key_id=key_id, secret=secret)


def _base62(number: int, length: int) -> str:
    """`number` in exactly `length` digits, most significant first."""
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
