"""Connections to object stores: kinds of URL, the options that hold for one, and what talks to it.

Options are kept in this process by the place that they were given for, and nowhere else: no error, no ``repr`` and no
pickle holds them.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sparrow.errors import InvalidValueError, MissingDependencyError, StorageError, UnsupportedError
from sparrow.runtime import settings
from sparrow.runtime.validation import check_path
from sparrow.storage.fs.filesystem import strip_secrets

__all__ = [
    "SCHEMES",
    "check_process",
    "connect",
    "environment_variables",
    "options_for",
    "summarize_error",
    "use_storage_options",
]

SCHEMES = {
    "s3": ("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "aws_"),
    "s3a": ("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", "aws_"),
    "gs": ("GOOGLE_APPLICATION_CREDENTIALS", "google_"),
    "az": ("AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY", "azure_"),
    "abfs": ("AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY", "azure_"),
    "http": ("", ""),
    "https": ("", ""),
}
"""Kinds of URL: the variables that hold credentials, and what names of options begin with."""

_VARIABLES = ("AWS_", "GOOGLE_", "AZURE_")
"""What variables of the environment begin with that a store is made from."""

_CLIENT = frozenset(
    """allow_http allow_invalid_certificates connect_timeout default_content_type default_headers http1_only http2_only
    http2_keep_alive_interval http2_keep_alive_timeout http2_keep_alive_while_idle pool_idle_timeout
    pool_max_idle_per_host proxy_url proxy_ca_certificate proxy_excludes randomize_addresses read_timeout timeout
    user_agent""".split()  # noqa: SIM905 - thirty lines otherwise
)
"""Options of the connection, which ``obstore`` takes apart from those of the store."""

_OF_LOGS = frozenset(("s3_locking_provider", "s3_allow_unsafe_rename", "allow_unsafe_rename"))
"""Options that only the log has a use for."""

_PATIENCE = {"timeout": "600s", "read_timeout": "30s", "connect_timeout": "10s"}
"""How long a request may take as a whole, without a byte, and to get through; then it is tried again."""

_lock = threading.Lock()
_given: dict[str, dict[str, str]] = {}
"""Options by the URL that they were given for, which hold for all that lies below it."""
_began: int | None = None
"""The process in which obstore began its threads."""


@contextmanager
def use_storage_options(path: str | os.PathLike[str], options: Mapping[str, str] | None) -> Iterator[None]:
    """Keep options for a URL and what lies below it; where the block fails, those that were in force before.

    Without any, those of the settings are kept, if none were given for the URL before.

    Raises
    ------
    UnsupportedError
        If the path is no URL.
    InvalidValueError
        If options are not texts by name.
    """
    where = strip_secrets(check_path(path)).rstrip("/")
    if not options and "://" in where and where not in _given:
        options = settings.current().storage_options
    if not options:
        yield
        return
    if "://" not in where:
        raise UnsupportedError(f"storage_options are for object stores, and {where!r} is a folder of this machine")
    if not all(isinstance(each, str) for pair in options.items() for each in pair):
        raise InvalidValueError("storage_options are texts by name, such as {'AWS_REGION': 'eu-west-1'}")
    with _lock:
        before = _given.get(where)
        _given[where] = dict(options)
    try:
        yield
    except BaseException:
        with _lock:
            _given.pop(where, None)
            if before is not None:
                _given[where] = before
        raise


def options_for(path: str) -> Mapping[str, str]:
    """Return the options given for a URL or for what it lies in, else those of the settings."""
    above = path.rstrip("/") if _given else ""
    while above and not above.endswith(":/"):
        if above in _given:
            return _given[above]
        above = above.rpartition("/")[0]
    return settings.current().storage_options


def environment_variables() -> tuple[str, ...]:
    """Return the variables of the environment that a store is made from."""
    return tuple(f"{name}={os.environ.get(name)}" for name in os.environ if name.startswith(_VARIABLES))


def check_process() -> None:
    """Raise ``StorageError`` in the child of a process that used stores: a fork leaves obstore's threads behind."""
    if _began is not None and os.getpid() != _began:
        raise StorageError(
            "this process was forked from one that had used object stores: start it by "
            "multiprocessing.get_context('spawn') or 'forkserver'"
        )


def connect(root: str, options: Mapping[str, str]) -> Any:
    """Return what talks to a store."""
    try:
        from obstore import exceptions, store
    except ImportError:
        raise MissingDependencyError(
            f"{root} is on an object store, which needs obstore: pip install 'sparrow-tensor[cloud]'"
        ) from None
    global _began
    _began = os.getpid() if _began is None else _began
    own = {name.lower(): value for name, value in options.items()}
    scheme = root.partition("://")[0]
    prefix = SCHEMES[scheme][1]
    config: dict[str, Any] = {}
    connection: dict[str, Any] = dict(_PATIENCE)
    if scheme == "http":
        connection["allow_http"] = True
    known = {name: os.environ.get(f"{prefix}{name}".upper()) for name in _CLIENT if prefix}
    connection |= {name: value for name, value in known.items() if value is not None}
    retries: dict[str, Any] = {}
    for name, value in own.items():
        plain = name.removeprefix(prefix) if prefix else name
        if plain in _CLIENT:
            connection[plain] = value
        elif plain == "max_retries":
            retries[plain] = int(value)
        elif plain not in _OF_LOGS:
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
        raise InvalidValueError(f"storage_options for {root}: {name!r} is no option of this kind of store") from None
    except (exceptions.BaseError, ValueError) as error:
        raise StorageError(f"{root} cannot be reached: {summarize_error(error)}") from None


def summarize_error(error: BaseException) -> str:
    """Return what an error says first, without what a URL carries after its path."""
    text = str(error).split("\n\nDebug source")[0]
    message = re.search(r"<Message>([^<]*)</Message>", text)
    line = " ".join(text.split("<?xml")[0].split())
    line = re.sub(r"\?[^\s)]*", "", line)
    return f"{line[:300]} {message[1]}" if message else line[:300]


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
