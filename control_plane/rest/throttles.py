"""Rate limits of REST calls: per caller, and per address for calls without a credential."""

import hashlib
from typing import TYPE_CHECKING

from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from control_plane.rate_counters import counters
from control_plane.rest.callers import caller_of

if TYPE_CHECKING:
    # The framework's views import the throttles that its settings name.
    from rest_framework.views import APIView


class CallerThrottle(SimpleRateThrottle):
    """Requests of one caller, or of one address without a credential. Counted over all web processes."""

    scope = "caller"
    num_requests: int | None
    duration: int | None
    _left_s = 0.0

    def allow_request(self, request: Request, view: "APIView") -> bool:
        if self.num_requests is None or self.duration is None:
            return True  # no rate is set for this scope
        name = self.get_cache_key(request, view)
        spent = counters().spend(name, most=self.num_requests, window_s=self.duration)
        self._left_s = spent.left_s
        return spent.allowed

    def wait(self) -> float:
        """Seconds until the caller may send the next request."""
        return self._left_s

    def get_cache_key(self, request: Request, view: "APIView") -> str:
        caller = caller_of(request)
        who = self.get_ident(request) if caller is None else caller.pk
        return f"throttle:{self.scope}:{who}"


class SignUpThrottle(CallerThrottle):
    scope = "sign-up"


class MailThrottle(CallerThrottle):
    """E-mails that an address of the network asks for."""

    scope = "mail"


class SignInThrottle(CallerThrottle):
    """Attempts to sign in from one address as one person: passwords cannot be guessed quickly."""

    scope = "sign-in"

    def get_cache_key(self, request: Request, view: "APIView") -> str:
        email = request.data.get("email", "") if isinstance(request.data, dict) else ""
        person = hashlib.sha256(str(email).strip().lower().encode(errors="backslashreplace")).hexdigest()
        return f"throttle:{self.scope}:{self.get_ident(request)}:{person}"


class PasswordThrottle(CallerThrottle):
    """Attempts to give one's present password: a stolen session cannot guess it quickly."""

    scope = "password"


class SignInAddressThrottle(CallerThrottle):
    """Attempts to sign in from one address as any person: one password cannot be tried on many people quickly."""

    scope = "sign-in-address"
