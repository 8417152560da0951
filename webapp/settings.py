"""Django settings, from environment variables with defaults for one machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from webapp.core import env
from webapp.operations import logs
from webapp.services import addresses

ROOT = Path(__file__).resolve().parent.parent
ECHOSCOPE_DATA_DIR = addresses.home_folder()
"""Everything written at run time: runs/<slug>/, the secret key, collected static files."""

EMBEDDED = addresses.environment(ECHOSCOPE_DATA_DIR)  # of the folder's embedded servers, if any
DATABASE_URL = os.environ.get("DATABASE_URL") or EMBEDDED.get("DATABASE_URL", "postgresql:///echoscope")
REDIS_URL = os.environ.get("REDIS_URL") or EMBEDDED.get("REDIS_URL", "redis://127.0.0.1:6379/0")

DEBUG = env.switch("ECHOSCOPE_DEBUG", default=False)
SECRET_KEY = os.environ.get("ECHOSCOPE_SECRET_KEY") or env.secret_key(ECHOSCOPE_DATA_DIR / "secret_key")
ALLOWED_HOSTS = env.items("ECHOSCOPE_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env.items("ECHOSCOPE_ORIGINS", "")
ECHOSCOPE_URL = os.environ.get("ECHOSCOPE_URL") or next(iter(CSRF_TRUSTED_ORIGINS), "http://localhost:8000")
"""Public URL of the site: for links in e-mails and alerts, which have no request."""
ECHOSCOPE_ALERT_PRIVATE_HOSTS = env.items("ECHOSCOPE_ALERT_PRIVATE_HOSTS", "")
"""Hosts in private networks that alerts may be sent to; * for all of them."""
ECHOSCOPE_ALERT_PORTS = env.items("ECHOSCOPE_ALERT_PORTS", "80,443,8443")
"""Ports that alerts may be sent to, as text; every port of the hosts above."""

ECHOSCOPE_HOSTED_URLS = env.items("ECHOSCOPE_HOSTED_URLS", "")
"""Endpoints that runs of this site may call, each with the variable of its key (runs/inputs/endpoints.py)."""
ECHOSCOPE_ENGINE_URLS = env.items("ECHOSCOPE_ENGINE_URLS", "")
"""vLLM servers that runs of this site may use."""
ECHOSCOPE_OPENENV_URLS = env.items("ECHOSCOPE_OPENENV_URLS", "")
"""OpenEnv servers that runs of this site may play on; the adapter lists them as its variants."""
ECHOSCOPE_MCP_URLS = env.items("ECHOSCOPE_MCP_URLS", "")
"""MCP servers whose tools the environment ToolMCP may call in runs of this site."""
ECHOSCOPE_MCP_COMMANDS = env.items("ECHOSCOPE_MCP_COMMANDS", "", separator=";")
"""Commands with which a worker may start such a server."""
ECHOSCOPE_MODEL_FOLDERS = env.items("ECHOSCOPE_MODEL_FOLDERS", "")
"""Folders below which `policy.model` may name a checkpoint (runs/inputs/folders.py)."""
ECHOSCOPE_HUB_MODELS = env.items("ECHOSCOPE_HUB_MODELS", "")
"""Hub ids and owners (with a slash at the end) that `policy.model` may name; empty: any."""
ECHOSCOPE_DATA_FOLDERS = env.items("ECHOSCOPE_DATA_FOLDERS", "")
"""Folders below which settings of environments may name data."""

if env.switch("ECHOSCOPE_HTTPS", default=False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = int(os.environ.get("ECHOSCOPE_HSTS_SECONDS") or 31_536_000)
    SECURE_HSTS_INCLUDE_SUBDOMAINS = env.switch("ECHOSCOPE_HSTS_SUBDOMAINS", default=False)
    SECURE_HSTS_PRELOAD = env.switch("ECHOSCOPE_HSTS_PRELOAD", default=False)
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]  # other sites' subdomains are not ours to decide
SESSION_COOKIE_NAME = "echoscope_session"
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_htmx",
    "channels",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.mfa",
    "allauth.usersessions",
    "webapp",
    "webapp.teams",
    "webapp.runs",
    "webapp.trajectories",
    "webapp.annotations",
    "webapp.branching",
    "webapp.saved_views",
    "webapp.notifications",
    "webapp.reports",
    "webapp.studies",
    "webapp.api",
    "webapp.worker",
    "webapp.operations",
]
CSRF_FAILURE_VIEW = "webapp.pages.error_pages.csrf_failure"
MIDDLEWARE = [
    "webapp.operations.requests.observe",
    "webapp.core.middleware.nul.reject_nul",
    "django.middleware.security.SecurityMiddleware",
    "webapp.core.middleware.csp.content_security_policy",
    "webapp.api.caching.private_responses",
    "webapp.api.rate_limit.rate_limit_headers",
    "webapp.core.middleware.static_files.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "webapp.teams.user_sessions.record_session_use",
    "webapp.teams.audit.audited_requests",
    "webapp.core.middleware.bidi.visible_controls",
]
ROOT_URLCONF = "webapp.urls"
ASGI_APPLICATION = "webapp.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "webapp.notifications.inbox.unread_inbox",
                "webapp.operations.site_status.site_status",
            ],
        },
    },
]

DATABASES = {
    "default": env.database(DATABASE_URL) | {"CONN_HEALTH_CHECKS": True},
}
if env.switch("ECHOSCOPE_DB_POOL", default=False):  # enabled by asgi.py; a pool does not survive the fork of a worker
    DATABASES["default"]["OPTIONS"]["pool"] = {"min_size": 1, "max_size": 16, "timeout": 10}
else:
    DATABASES["default"]["CONN_MAX_AGE"] = 600
env.set_timeouts(DATABASES["default"], web=env.switch("ECHOSCOPE_DB_POOL", default=False))
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "teams.User"
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]

ECHOSCOPE_MAIL = bool(os.environ.get("ECHOSCOPE_EMAIL_URL"))
"""Whether mail is sent; otherwise none is composed, and pages show that."""
MAIL = env.mail(os.environ.get("ECHOSCOPE_EMAIL_URL", ""))
EMAIL_BACKEND, EMAIL_HOST, EMAIL_PORT = MAIL.backend, MAIL.host, MAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = MAIL.user, MAIL.password
EMAIL_USE_TLS, EMAIL_USE_SSL, EMAIL_TIMEOUT = MAIL.starttls, MAIL.tls, 15
DEFAULT_FROM_EMAIL = SERVER_EMAIL = os.environ.get("ECHOSCOPE_EMAIL_FROM") or "echoscope@localhost"

ACCOUNT_ADAPTER = "webapp.teams.adapters.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "optional" if ECHOSCOPE_MAIL else "none"
ACCOUNT_CHANGE_EMAIL = True
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
ACCOUNT_EMAIL_SUBJECT_PREFIX = "Echoscope: "
ACCOUNT_EMAIL_NOTIFICATIONS = True  # of changes to passwords, addresses, second factors and connected accounts
ACCOUNT_SESSION_REMEMBER = True
MFA_ADAPTER = "webapp.teams.adapters.SecondFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_ALLOW_UNVERIFIED_EMAIL = True  # accounts are by invitation, and a site without mail verifies no address
SOCIALACCOUNT_ADAPTER = "webapp.teams.adapters.SocialAdapter"
SOCIALACCOUNT_PROVIDERS = env.openid("ECHOSCOPE_OIDC")
SOCIALACCOUNT_OPENID_CONNECT_URL_PREFIX = ""
SOCIALACCOUNT_LOGIN_ON_GET = True  # a link: the policy of our pages lets no form lead to another site
SOCIALACCOUNT_EMAIL_AUTHENTICATION = env.switch("ECHOSCOPE_OIDC_TRUST_EMAIL", default=False)
SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = SOCIALACCOUNT_EMAIL_AUTHENTICATION

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
BUNDLES = ROOT / "build" / "static"
"""Scripts of the pages as bootstrap.bundle writes them, each at the address of its source."""
STATICFILES_DIRS = [*([BUNDLES] if BUNDLES.exists() and not DEBUG else []), ROOT / "static"]
STATIC_ROOT = ECHOSCOPE_DATA_DIR / "static"
WHITENOISE_USE_FINDERS = DEBUG or not STATIC_ROOT.exists()  # before collectstatic, files are served from static/
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}

if COPIES := env.storage("ECHOSCOPE_STORAGE"):  # copies of runs, for workers that share no disk
    STORAGES["runs"] = COPIES

CACHES = {
    "default": {  # of allauth, for its rate limits: shared by all processes, and apart from what visitors can fill
        "BACKEND": "webapp.core.limits_cache.LimitsCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "echoscope:limits",
    },
    "hub": {  # sizes of models on the Hugging Face Hub
        "BACKEND": "webapp.core.limits_cache.LimitsCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "echoscope:hub",
    },
}

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {
            "hosts": [{"address": REDIS_URL, "socket_connect_timeout": 2}],
            "prefix": "echoscope",
        },
    },
}

CELERY_BROKER_URL = env.broker(REDIS_URL)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_connect_timeout": 2,
    "socket_timeout": 10,  # a Redis that hangs is given up; a consumer waits a second at most for each answer
    "global_keyprefix": "echoscope:",
}
CELERY_TASK_DEFAULT_QUEUE = "training"
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False  # the message only wakes a worker; the lease in PostgreSQL is the lock
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.2}
CELERY_WORKER_LOST_WAIT = 1.0  # results are ignored: the slot of a killed process is free without a wait for one
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_DISABLE_PREFETCH = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BEAT_SCHEDULER = "celery.beat:Scheduler"  # keeps no file: periodic jobs have their state in PostgreSQL
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False  # access to Redis would be enough to stop workers

LOGGING = logs.configuration(
    os.environ.get("ECHOSCOPE_LOG_FORMAT") or "line", os.environ.get("ECHOSCOPE_LOG_LEVEL") or "INFO"
)
ECHOSCOPE_TRUST_REQUEST_ID = env.switch("ECHOSCOPE_TRUST_REQUEST_ID", default=False)
"""Whether X-Request-ID comes from the proxy: without one, any visitor could choose the ids of log lines."""
ECHOSCOPE_METRICS_TOKEN = os.environ.get("ECHOSCOPE_METRICS_TOKEN", "")
ECHOSCOPE_SECURITY_CONTACT = os.environ.get("ECHOSCOPE_SECURITY_CONTACT", "")
"""Address for reports of vulnerabilities, in /.well-known/security.txt: of mail, or an https: page."""
ECHOSCOPE_BACKUP_DIR = os.environ.get("ECHOSCOPE_BACKUP_DIR", "")
"""Folder for a verified backup of each night; empty: none is made."""
ECHOSCOPE_BACKUPS_KEPT = env.number("ECHOSCOPE_BACKUPS_KEPT", 7)
ECHOSCOPE_UPLOAD_MB = float(os.environ.get("ECHOSCOPE_UPLOAD_MB") or "256")
"""Maximum size of a journal in one API request, after decompression."""

# Cost of a run (webapp/runs/run_cost.py)
ECHOSCOPE_PRICE_PER_GPU_HOUR = env.amount("ECHOSCOPE_PRICE_PER_GPU_HOUR")
ECHOSCOPE_PRICE_PER_MACHINE_HOUR = env.amount("ECHOSCOPE_PRICE_PER_MACHINE_HOUR")
"""Price of an hour without GPUs."""
ECHOSCOPE_CURRENCY = env.variable("ECHOSCOPE_CURRENCY", "USD")[:8]

# Quotas (webapp/core/quotas.py); 0 = no limit
ECHOSCOPE_MAX_QUEUED_RUNS_PER_TEAM = env.number("ECHOSCOPE_MAX_QUEUED_RUNS_PER_TEAM", 200)
ECHOSCOPE_MAX_RUNNING_RUNS_PER_TEAM = env.number("ECHOSCOPE_MAX_RUNNING_RUNS_PER_TEAM", 0)
ECHOSCOPE_MAX_IMPORTS_PER_DAY = env.number("ECHOSCOPE_MAX_IMPORTS_PER_DAY", 500)
ECHOSCOPE_MAX_REQUESTS_PER_MINUTE_PER_TOKEN = env.number("ECHOSCOPE_MAX_REQUESTS_PER_MINUTE_PER_TOKEN", 1200)
ECHOSCOPE_MAX_REQUESTS_PER_MINUTE_PER_TEAM = env.number("ECHOSCOPE_MAX_REQUESTS_PER_MINUTE_PER_TEAM", 6000)
ECHOSCOPE_MAX_MODELS_GB = env.number("ECHOSCOPE_MAX_MODELS_GB", 50)
"""Gigabytes that models downloaded by members may fill in each models folder; staff is not limited."""
ECHOSCOPE_MAX_IMAGES_PER_RUN = env.number("ECHOSCOPE_MAX_IMAGES_PER_RUN", 20_000)
ECHOSCOPE_MAX_IMAGE_MB_PER_RUN = env.number("ECHOSCOPE_MAX_IMAGE_MB_PER_RUN", 2000)
ECHOSCOPE_MAX_ITERATIONS_PER_RUN = env.number("ECHOSCOPE_MAX_ITERATIONS_PER_RUN", 0)
ECHOSCOPE_MAX_TEAMS_PER_PERSON = env.number("ECHOSCOPE_MAX_TEAMS_PER_PERSON", 10)
ECHOSCOPE_MAX_INVITATIONS_PER_DAY = env.number("ECHOSCOPE_MAX_INVITATIONS_PER_DAY", 20)
ECHOSCOPE_MAX_TEST_ALERTS_PER_DAY = env.number("ECHOSCOPE_MAX_TEST_ALERTS_PER_DAY", 20)
ECHOSCOPE_MAX_CONFIRMATIONS_PER_DAY = env.number("ECHOSCOPE_MAX_CONFIRMATIONS_PER_DAY", 20)
ECHOSCOPE_MAX_EXPORT_MB = env.number("ECHOSCOPE_MAX_EXPORT_MB", 10_000)
ECHOSCOPE_MAX_SOCKETS_PER_VISITOR = env.number("ECHOSCOPE_MAX_SOCKETS_PER_VISITOR", 500)
ECHOSCOPE_MAX_REPORTS_PER_TEAM = env.number("ECHOSCOPE_MAX_REPORTS_PER_TEAM", 1000)
ECHOSCOPE_MAX_RUNS_PER_STUDY = env.number("ECHOSCOPE_MAX_RUNS_PER_STUDY", 200)
ECHOSCOPE_MAX_TAGS_PER_RUN = 20  # no variable changes this one and the next three
ECHOSCOPE_MAX_REPORT_CHARACTERS = 50_000
ECHOSCOPE_MAX_EMBEDS_PER_REPORT = 24
ECHOSCOPE_MAX_REVISIONS_PER_REPORT = 200
ECHOSCOPE_AUDIT_DAYS = env.number("ECHOSCOPE_AUDIT_DAYS", 365)
"""Days for which entries of the audit log are kept; 0: for ever."""
ECHOSCOPE_IMPORT_SECONDS = env.number("ECHOSCOPE_IMPORT_SECONDS", 20)
"""Time after which a request that sends a journal is answered; the sender continues at the offset of the answer."""
