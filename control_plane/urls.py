"""Every address of the control plane."""

from django.urls import URLPattern, URLResolver, include, path
from drf_spectacular.renderers import OpenApiJsonRenderer
from drf_spectacular.views import SpectacularAPIView

from control_plane.api import audit_views, health, metrics

V1: list[URLPattern | URLResolver] = [
    path("", include("tenants.urls")),
    path("", include("tenants.people.urls")),
    path("", include("tenants.accounts.urls")),
    path("", include("control_plane.topics.urls")),
    path("", include("control_plane.access.urls")),
    path("", include("quotas.urls")),
    path("audit", audit_views.AuditView.as_view()),
    path("audit/head", audit_views.AuditHeadView.as_view()),
    path("", include("control_plane.cluster.urls")),
    path("", include("control_plane.placement.urls")),
    path("", include("billing.urls")),
    path(
        "openapi.json",
        SpectacularAPIView.as_view(
            authentication_classes=[], throttle_classes=[], renderer_classes=[OpenApiJsonRenderer]
        ),
    ),
]

urlpatterns = [
    path("v1/", include(V1)),
    path("healthz", health.healthz),
    path("readyz", health.readyz),
    path("metrics", metrics.metrics),
    path("", include("web.urls")),
]

# Problem documents for programs, pages for people.
handler400 = "web.errors.bad_request"
handler404 = "web.errors.not_found"
handler500 = "web.errors.server_error"
