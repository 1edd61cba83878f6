"""Options and credentials of object stores, and the connections made from them.

Options are kept in this process by the URL they were passed for, and nowhere else: no error, ``repr`` or pickle
contains them.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from sparrow.errors import InvalidValueError, StorageError, UnsupportedError
from sparrow.runtime import settings
from sparrow.runtime.dependencies import missing_dependency
from sparrow.runtime.validation import check_path
from sparrow.storage.fs.paths import strip_secrets
from sparrow.storage.tuning import tuning

__all__ = [
    "OBJECT_STORES",
    "Provider",
    "check_process",
    "connect",
    "environment_variables",
    "options_for",
    "provider_of",
    "summarize_error",
    "use_storage_options",
]


class Provider(NamedTuple):
    """Names of the options of a kind of store."""

    credentials: str
    """Environment variables that hold credentials, as named in errors."""
    prefix: str
    """Prefix of its options."""


_AWS = Provider("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "aws_")
_AZURE = Provider("AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY", "azure_")

OBJECT_STORES: Mapping[str, Provider] = {
    "s3": _AWS,
    "s3a": _AWS,
    "gs": Provider("GOOGLE_APPLICATION_CREDENTIALS", "google_"),
    "az": _AZURE,
    "abfs": _AZURE,
}
"""Object stores by URL scheme."""

_VARIABLE_PREFIXES = ("AWS_", "GOOGLE_", "AZURE_")

_CLIENT_OPTIONS = frozenset(
    """allow_http allow_invalid_certificates connect_timeout default_content_type default_headers http1_only http2_only
    http2_keep_alive_interval http2_keep_alive_timeout http2_keep_alive_while_idle pool_idle_timeout
    pool_max_idle_per_host proxy_url proxy_ca_certificate proxy_excludes randomize_addresses read_timeout timeout
    user_agent""".split()  # noqa: SIM905 - thirty lines otherwise
)
"""Options of the connection, which ``obstore`` takes separately from those of the store."""

_LOG_OPTIONS = frozenset(("s3_locking_provider", "s3_allow_unsafe_rename", "allow_unsafe_rename"))
"""Options that only ``deltalake`` uses."""

_lock = threading.Lock()
_options: dict[str, dict[str, str]] = {}
"""Options by the URL they were passed for; they hold for everything below it."""
_first_pid: int | None = None
"""The process in which obstore started its threads."""


def provider_of(scheme: str) -> Provider:
    """Return the option names of a URL scheme; empty for web servers."""
    return OBJECT_STORES.get(scheme, Provider("", ""))


@contextmanager
def use_storage_options(path: str | os.PathLike[str], options: Mapping[str, str] | None) -> Iterator[None]:
    """Keep options for a URL and everything below it.

    Restore the former ones if the block fails.

    Without options, those of the settings are kept if none were passed for the URL before.

    Raises
    ------
    UnsupportedError
        If the path is not a URL.
    InvalidValueError
        If options are not strings.
    """
    where = strip_secrets(check_path(path)).rstrip("/")
    if not options and "://" in where and where not in _options:
        options = settings.current().storage_options
    if not options:
        yield
        return
    if "://" not in where:
        raise UnsupportedError(f"storage_options are for object stores, and {where!r} is a local folder")
    if not all(isinstance(each, str) for pair in options.items() for each in pair):
        raise InvalidValueError("storage_options must be strings by name, such as {'AWS_REGION': 'eu-west-1'}")
    with _lock:
        before = _options.get(where)
        _options[where] = dict(options)
    try:
        yield
    except BaseException:
        with _lock:
            _options.pop(where, None)
            if before is not None:
                _options[where] = before
        raise


def options_for(path: str) -> Mapping[str, str]:
    """Return the options kept for a URL or above it, else those of the settings."""
    above = path.rstrip("/") if _options else ""
    while above and not above.endswith(":/"):
        if above in _options:
            return _options[above]
        above = above.rpartition("/")[0]
    return settings.current().storage_options


def environment_variables() -> tuple[str, ...]:
    """Return the environment variables that configure a store, as ``NAME=value``."""
    return tuple(f"{name}={os.environ.get(name)}" for name in os.environ if name.startswith(_VARIABLE_PREFIXES))


def check_process() -> None:
    """Raise ``StorageError`` in a forked child of a process that used stores."""
    if _first_pid is not None and os.getpid() != _first_pid:
        raise StorageError(
            "this process was forked from one that had used object stores: start it by "
            "multiprocessing.get_context('spawn') or 'forkserver'"
        )


def connect(root: str, options: Mapping[str, str]) -> Any:
    """Return an ``obstore`` store.

    Parameters
    ----------
    root
        Scheme and bucket, or host of a web server.
    options
        Options of store and connection, in any spelling that ``obstore`` knows.

    Raises
    ------
    MissingDependencyError
        If ``obstore`` is not installed.
    InvalidValueError
        If an option is unknown.
    StorageError
        If the store cannot be reached.
    """
    try:
        from obstore import exceptions, store
    except ImportError:
        raise missing_dependency(f"the object store of {root}", "obstore") from None
    global _first_pid
    _first_pid = os.getpid() if _first_pid is None else _first_pid
    scheme = root.partition("://")[0]
    prefix = provider_of(scheme).prefix
    limits = tuning()
    config: dict[str, Any] = {}
    connection: dict[str, Any] = {
        "timeout": f"{limits.request_seconds}s",
        "read_timeout": f"{limits.silence_seconds}s",
        "connect_timeout": f"{limits.connect_seconds}s",
    }
    if scheme == "http":
        connection["allow_http"] = True
    known = {name: os.environ.get(f"{prefix}{name}".upper()) for name in _CLIENT_OPTIONS if prefix}
    connection |= {name: value for name, value in known.items() if value is not None}
    retries: dict[str, Any] = {}
    for name, value in ((name.lower(), value) for name, value in options.items()):
        plain = name.removeprefix(prefix) if prefix else name
        if plain in _CLIENT_OPTIONS:
            connection[plain] = value
        elif plain == "max_retries":
            retries[plain] = int(value)
        elif plain not in _LOG_OPTIONS:
            config[name] = value
    kwargs: dict[str, Any] = {"client_options": connection}
    if retries:
        kwargs["retry_config"] = retries
    try:
        if config and prefix:
            kwargs["config"] = config
        return store.from_url(root, **kwargs)
    except exceptions.UnknownConfigurationKeyError as error:
        name = (re.search(r"'([^']*)' is not valid", str(error)) or ["", "one"])[1]
        raise InvalidValueError(f"storage_options for {root}: {name!r} is not an option of this store") from None
    except (exceptions.BaseError, ValueError) as error:
        raise StorageError(f"{root} cannot be reached: {summarize_error(error)}") from None


def summarize_error(error: BaseException) -> str:
    """Return the first line of an error, without the queries of URLs."""
    text = str(error).split("\n\nDebug source")[0]
    message = re.search(r"<Message>([^<]*)</Message>", text)
    line = " ".join(text.split("<?xml")[0].split())
    line = re.sub(r"\?[^\s)]*", "", line)
    return f"{line[:300]} {message[1]}" if message else line[:300]


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
