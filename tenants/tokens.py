"""Tokens of sessions, operators, invitations and reset links, and what is kept of them. Pure but for randomness."""

import hashlib

from control_plane.ids import random_text

SESSION_PREFIX = "pss_"
OPERATOR_PREFIX = "pso_"
INVITATION_PREFIX = "psi_"
ORGANISATION_INVITATION_PREFIX = "psj_"
RESET_PREFIX = "psr_"
SIGN_UP_PREFIX = "psu_"
PROOF_PREFIX = "psv_"
CHANGE_PREFIX = "psc_"
UNDO_PREFIX = "psw_"
PENDING_PREFIX = "psp_"
ATTEMPT_PREFIX = "psa_"
_RANDOM_LENGTH = 43
"""256 random bits, so that a plain hash of it can be kept."""


def new_token(prefix: str) -> str:
    return prefix + random_text(_RANDOM_LENGTH)


def token_hash(token: str) -> str:
    """What is kept: SHA-256, 64 hex digits."""
    return hashlib.sha256(token.encode()).hexdigest()
