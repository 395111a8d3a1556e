"""Django's settings, derived from the one configuration file."""

from urllib.parse import urlsplit

from control_plane import clock, config

HSTS_S = 365 * 24 * 3600
"""How long browsers use only TLS after their first request over TLS."""

CONFIG = config.current()
clock.set_up()

SECRET_KEY = CONFIG.secret_key
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost", urlsplit(CONFIG.public_url).hostname or "localhost"]
ROOT_URLCONF = "control_plane.urls"
WSGI_APPLICATION = "control_plane.wsgi.application"
APPEND_SLASH = False

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    "control_plane.processes",
    "control_plane.audit",
    "control_plane.outbox",
    "control_plane.mail",
    "tenants",
    "quotas",
    "control_plane.topics",
    "control_plane.access",
    "control_plane.access_reports",
    "control_plane.webhooks",
    "control_plane.audit_topics",
    "control_plane.brokers",
    "control_plane.reconciliation",
    "control_plane.rest",
    "control_plane.placement",
    "control_plane.api",
    "billing",
    "payments",
    "web",
]
MIDDLEWARE = [
    "control_plane.api.client_address.ClientAddress",
    "control_plane.api.middleware.ProcessorTime",
    "control_plane.api.middleware.RequestLog",
    "control_plane.api.middleware.NoNul",
    "control_plane.api.middleware.Deliveries",
    "django.middleware.security.SecurityMiddleware",
    "web.middleware.Delivery",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.common.CommonMiddleware",
    "web.middleware.Console",
    "allauth.account.middleware.AccountMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
]
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = HSTS_S if CONFIG.over_tls else 0

# The console: pages, forms and static files. WhiteNoise serves static files from the packages that ship them.
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.csrf",
                "web.context.console",
            ]
        },
    }
]
STATIC_URL = "/static/"
WHITENOISE_USE_FINDERS = True
CSRF_COOKIE_NAME = "penstock-csrf"
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = CONFIG.over_tls
# The console's public URL, also when a proxy requests it under another scheme or port.
CSRF_TRUSTED_ORIGINS = ["{0.scheme}://{0.netloc}".format(urlsplit(CONFIG.public_url))]
CSRF_FAILURE_VIEW = "web.errors.csrf_failure"

DATABASES = {"default": config.database(CONFIG.database_url, CONFIG.database_tls)}
config.keep_private(DATABASES["default"])
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "tenants.Person"
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.ScryptPasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]

# Of allauth the models of addresses and of second factors, and what checks those; its pages and sessions are not used.
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
MFA_ADAPTER = "tenants.factors.adapter.FactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_TOTP_ISSUER = "Penstock"
MFA_TOTP_TOLERANCE = 1
# Browsers take passkeys over TLS, and from this machine itself.
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = False

USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = False
LANGUAGE_CODE = "en-us"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["control_plane.rest.authentication.BearerAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["control_plane.api.parsing.JsonParser"],
    "DEFAULT_SCHEMA_CLASS": "control_plane.rest.schema.DryRunSchema",
    "DEFAULT_THROTTLE_CLASSES": ["control_plane.rest.throttles.CallerThrottle"],
    "DEFAULT_THROTTLE_RATES": {
        "caller": "100/second",
        "sign-up": "120/minute",
        "sign-in": "30/minute",
        "password": "30/minute",
        "mail": "10/minute",
        "sign-in-address": "120/minute",
    },
    "EXCEPTION_HANDLER": "control_plane.api.problems.answer_problem",
    "UNAUTHENTICATED_USER": None,
    "NUM_PROXIES": 0,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Penstock",
    "DESCRIPTION": "Topics, keys, quotas, usage and invoices of a Penstock service.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVERS": [{"url": CONFIG.public_url}],
    "SCHEMA_PATH_PREFIX": "/v1",
    "DISABLE_ERRORS_AND_WARNINGS": False,
    "ENUM_NAME_OVERRIDES": {
        "CostKindEnum": "control_plane.rest.unit_costs.KINDS",
        "EffectEnum": "control_plane.rest.access_shapes.EFFECTS",
        "ReceivableStateEnum": "control_plane.rest.payments.STATES",
        "SwitchEnum": ["on", "off"],
        "OrganisationRoleEnum": "control_plane.rest.organisation_shapes.ROLES",
        "RoleEnum": "control_plane.rest.people_shapes.ROLES",
    },
}

LOGGING_CONFIG = None
"""control_plane.logs sets logging up, the same for every process."""
