"""Rate limits of REST calls: per caller, and per address for calls without a credential."""

from typing import TYPE_CHECKING

from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from control_plane.api.problems import RateReached
from control_plane.keyed_digests import keyed_digest
from control_plane.rate_counters import counters
from control_plane.rest import tenant_rates
from control_plane.rest.callers import Caller, caller_of
from quotas.queries import calls_name
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


def count_tenant_call(tenant: Tenant, caller: Caller) -> None:
    """A call of REST about the tenant, which `rest_calls_per_s` bounds over all its callers. Operators are not counted:
    they change the limit. Raises `RateReached`.
    """
    if caller.operator is not None:
        return
    most = tenant_rates.rest_calls_per_s(tenant)
    if most:
        _spend(calls_name(tenant), most, 1, tenant_rates.REST_CALLS, f"of tenant {tenant.public_id}")


def _spend(name: str, most: int, window_s: int, limit: str, whose: str) -> None:
    spent = counters().spend(name, most=most, window_s=window_s)
    if not spent.allowed:
        raise RateReached(limit=limit, whose=whose, most=most, window_s=window_s, clears_in_s=spent.left_s)


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
