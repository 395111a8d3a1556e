"""The web application, as the HTTP server calls it."""

import os

from django.core.wsgi import get_wsgi_application

from control_plane import logs

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "control_plane.settings")
logs.set_up("web")
application = get_wsgi_application()
