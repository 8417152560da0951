"""Settings from environment variables: addresses, lists, switches, secret key, mail, storage, OpenID Connect."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from webapp.core.private_files import DataFolderError


def variable(name: str, default: str = "") -> str:
    """Return the value of a variable."""
    return os.environ.get(name, default)


def switch(name: str, default: bool) -> bool:
    """Return an on/off variable: 1, true, yes, on (any case) are on."""
    value = os.environ.get(name)
    return default if value is None else value.strip().lower() in {"1", "true", "yes", "on"}


def number(name: str, default: int) -> int:
    """Return a whole number from 0. Raises ValueError."""
    text = os.environ.get(name, "").strip() or str(default)
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{name} must be a whole number from 0, not {text!r}.")
    return int(text)


def amount(name: str) -> float:
    """Return an amount of money from 0, by default 0. Raises ValueError."""
    text = os.environ.get(name, "").strip() or "0"
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise ValueError(f"{name} must be a number from 0, not {text!r}.")
    return value


def stop_seconds() -> float:
    """Return the seconds in which a stopped run may write its checkpoint before it is killed."""
    return float(variable("ECHOSCOPE_STOP_SECONDS") or "120")


def items(name: str, default: str, separator: str = ",") -> list[str]:
    """Return the parts of a variable between commas; the default if it is empty, as Compose passes unset variables."""
    return [word.strip() for word in (variable(name) or default).split(separator) if word.strip()]


def database(url: str) -> dict[str, Any]:
    """Return Django's settings for `postgresql://user:password@host:port/name?host=/socket/folder&sslmode=…`."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ValueError(f"DATABASE_URL must begin with postgresql://, not {parts.scheme or 'nothing'}://")
    options: dict[str, Any] = dict(parse_qsl(parts.query))
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "postgres",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", "") or unquote(parts.hostname or ""),
        "PORT": options.pop("port", "") or str(parts.port or ""),
        "OPTIONS": options,
    }


TIMEOUTS = {"lock_timeout": "10s", "idle_in_transaction_session_timeout": "30s"}
WEB_TIMEOUTS = {"lock_timeout": "3s", "idle_in_transaction_session_timeout": "30s", "statement_timeout": "15s"}
CONNECTION_TIMEOUTS = {"connect_timeout": 10, "tcp_user_timeout": 30_000}
"""Timeouts of workers: s until a connection counts as refused, ms until a silent connection counts as lost."""


def set_timeouts(settings: dict[str, Any], *, web: bool) -> None:
    """Add timeouts to the connection settings, including PostgreSQL's unless DATABASE_URL has `options`.

    A process that is frozen within a transaction (a paused virtual machine, a lost network) keeps its locks until the
    database ends that transaction; nothing else waits for a lock for long.
    """
    if not web:
        for name, value in CONNECTION_TIMEOUTS.items():
            settings["OPTIONS"].setdefault(name, value)
    timeouts = WEB_TIMEOUTS if web else TIMEOUTS
    settings["OPTIONS"].setdefault("options", " ".join(f"-c {name}={value}" for name, value in timeouts.items()))


def broker(redis_url: str) -> str:
    """Return the Redis URL in Celery's spelling: `redis+socket://` for a Unix socket, `unix://` elsewhere."""
    return "redis+socket://" + redis_url.removeprefix("unix://") if redis_url.startswith("unix://") else redis_url


def secret_key(path: Path) -> str:
    """Return the key stored in `path`, created on first use; safe when two processes start together.

    Raises:
        DataFolderError: its folder cannot be written.
    """
    if not path.exists():
        try:
            _create_key(path)
        except OSError as error:
            raise DataFolderError(path.parent, error) from error
    return path.read_text(encoding="utf-8").strip()


def _create_key(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        fresh.touch(mode=0o600)
        fresh.write_text(secrets.token_urlsafe(50), encoding="utf-8")
        os.link(fresh, path)
    except FileExistsError:
        pass
    finally:
        fresh.unlink(missing_ok=True)


@dataclass(frozen=True)
class Mail:
    """Mail settings. By default mail is dropped, because other people could follow its links in a log."""

    backend: str = "django.core.mail.backends.dummy.EmailBackend"
    host: str = "localhost"
    port: int = 25
    user: str = ""
    password: str = ""
    starttls: bool = False
    tls: bool = False


def mail(url: str) -> Mail:
    """Parse `smtp://user:password@host:587` (STARTTLS, unless `?starttls=off`) or `smtps://host:465` (TLS)."""
    if not url:
        return Mail()
    parts = urlsplit(url)
    if parts.scheme not in {"smtp", "smtps"} or not parts.hostname:
        raise ValueError("ECHOSCOPE_EMAIL_URL must look like smtp://user:password@host:587 or smtps://host:465")
    tls = parts.scheme == "smtps"
    return Mail(
        backend="django.core.mail.backends.smtp.EmailBackend",
        host=parts.hostname,
        port=parts.port or (465 if tls else 587),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        starttls=not tls and dict(parse_qsl(parts.query)).get("starttls") != "off",
        tls=tls,
    )


def storage(name: str) -> dict[str, Any]:
    """Return Django's storage of `<name>`: `s3://bucket/prefix` (`<name>_ENDPOINT` for others) or `file:///folder`.

    Empty if unset. Credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the machine's role.
    """
    address = os.environ.get(name, "").strip()
    if not address:
        return {}
    parts = urlsplit(address)
    if parts.scheme == "file" and parts.path.startswith("/") and not parts.netloc:
        folder = unquote(parts.path)
        options: dict[str, Any] = {"location": folder, "allow_overwrite": True}
        return {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": options}
    if parts.scheme != "s3" or not parts.netloc or parts.query:
        raise ValueError(f"{name} must look like s3://bucket/prefix or file:///folder, not {address!r}.")
    from botocore.config import Config  # type: ignore[import-untyped]

    client_config = Config(connect_timeout=5, read_timeout=60, retries={"max_attempts": 3, "mode": "standard"})
    options = {
        "bucket_name": parts.netloc,
        "location": parts.path.strip("/"),
        "file_overwrite": True,
        "default_acl": None,
        "endpoint_url": os.environ.get(f"{name}_ENDPOINT") or None,
        "client_config": client_config,
        "region_name": os.environ.get(f"{name}_REGION") or os.environ.get("AWS_DEFAULT_REGION") or None,
    }
    return {"BACKEND": "storages.backends.s3.S3Storage", "OPTIONS": options}


def openid(name: str) -> dict[str, Any]:
    """Return the OpenID Connect provider in `<name>_ISSUER`, `_CLIENT_ID`, `_CLIENT_SECRET`, `_NAME`; {} if unset."""
    issuer, client = os.environ.get(f"{name}_ISSUER", ""), os.environ.get(f"{name}_CLIENT_ID", "")
    if not issuer and not client:
        return {}
    if not issuer or not client:
        raise ValueError(f"{name}_ISSUER and {name}_CLIENT_ID must be set together; one of them is missing.")
    app = {
        "provider_id": "oidc",
        "name": os.environ.get(f"{name}_NAME") or urlsplit(issuer).hostname or "OpenID Connect",
        "client_id": client,
        "secret": os.environ.get(f"{name}_CLIENT_SECRET", ""),
        "settings": {"server_url": issuer},
    }
    return {"openid_connect": {"APPS": [app], "OAUTH_PKCE_ENABLED": True}}
