"""Every address of the control plane."""

from django.urls import include, path

from control_plane.rest import health
from control_plane.rest.stripe_webhook import stripe_webhook

urlpatterns = [
    path("v1/", include("control_plane.rest.urls")),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("hooks/stripe", stripe_webhook),
    path("", include("web.urls")),
]

# Problem documents for programs, pages for people.
handler400 = "web.errors.bad_request"
handler404 = "web.errors.not_found"
handler500 = "web.errors.server_error"
