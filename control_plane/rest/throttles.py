"""Rate limits of REST calls: per caller, and per address for calls without a credential."""

from typing import TYPE_CHECKING

from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from control_plane.api.problems import RateReached
from control_plane.keyed_digests import keyed_digest
from control_plane.rate_counters import counters
from control_plane.rest.callers import Caller, caller_of
from control_plane.rest.processor_time import Call, processor_time
from control_plane.rest.tenant_rates import REST_CALLS, tenant_rates
from quotas.queries import call_time_name, calls_name
from tenants.models import Tenant

if TYPE_CHECKING:
    # The framework's views import the throttles that its settings name.
    from rest_framework.views import APIView


CALLER_RATE = "rest:caller"


class CallerThrottle(SimpleRateThrottle):
    """Requests of one caller, or of one address without a credential. Counted over all web processes."""

    scope = "caller"
    num_requests: int | None
    duration: int | None

    def allow_request(self, request: Request, view: "APIView") -> bool:
        """True, or raises `RateReached`."""
        if self.num_requests is None or self.duration is None:
            return True  # no rate is set for this scope
        name = self.get_cache_key(request, view)
        whose = "of this address" if caller_of(request) is None else "of this caller"
        _spend(name, self.num_requests, self.duration, f"rest:{self.scope}", whose)
        return True

    def get_cache_key(self, request: Request, view: "APIView") -> str:
        caller = caller_of(request)
        who = self.get_ident(request) if caller is None else caller.pk
        return f"throttle:{self.scope}:{who}"


def count_tenant_call(tenant: Tenant, caller: Caller) -> Call | None:
    """A call of REST about the tenant, of which `rest_calls_per_s` and `rest_processor_ms_per_s` are bounds over all
    its callers. Operators are not counted: they change the limits. Returns the call where what it takes is to be
    counted. Raises `RateReached`.
    """
    if caller.operator is not None:
        return None
    limits, whose = tenant_rates.of(tenant), f"of tenant {tenant.public_id}"
    if limits.rest_calls_per_s:
        _spend(calls_name(tenant), limits.rest_calls_per_s, 1, REST_CALLS, whose)
    if not limits.rest_processor_ms_per_s:
        return None
    return processor_time.begin(call_time_name(tenant), limits.rest_processor_ms_per_s, whose)


def _spend(name: str, most: int, window_s: int, limit: str, whose: str) -> None:
    spent = counters().spend(name, most=most, window_s=window_s)
    if not spent.allowed:
        span = "second" if window_s == 1 else "minute" if window_s == 60 else f"{window_s} s"
        raise RateReached(
            limit=limit,
            whose=whose,
            most=f"{most} a {span}",
            used=f"{most} were made",
            clears_in_s=spent.left_s,
        )


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
        # What is counted stands in a file or in Redis, where a plain hash of an address can be guessed.
        person = keyed_digest("throttle", str(email).strip().lower().encode(errors="backslashreplace"))
        return f"throttle:{self.scope}:{self.get_ident(request)}:{person}"


class PasswordThrottle(CallerThrottle):
    """Attempts to give one's present password: a stolen session cannot guess it quickly."""

    scope = "password"


class SignInAddressThrottle(CallerThrottle):
    """Attempts to sign in from one address as any person: one password cannot be tried on many people quickly."""

    scope = "sign-in-address"
