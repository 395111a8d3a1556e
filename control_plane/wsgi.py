"""The web application, as the HTTP server calls it."""

import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

from control_plane import logs

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "control_plane.settings")
logs.set_up("web")
_django = get_wsgi_application()
# Django imports every view with the first request, and a tenant would be charged for the processor time.
get_resolver().url_patterns  # noqa: B018
# It imports views, which need what Django has just set up.
from control_plane.rest.early_refusals import EarlyRefusals  # noqa: E402

application = EarlyRefusals(_django)
