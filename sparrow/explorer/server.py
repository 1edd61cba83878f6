"""HTTP server of the explorer, for the browser of this machine only.

It listens on 127.0.0.1. Every request must have the token of the server in its path, compared in constant time, and
name this machine as its host: a page of another site whose name resolves to 127.0.0.1 (DNS rebinding) does not.
Requests for data are POST with JSON, which other sites cannot send without asking first. The page loads nothing from
elsewhere.
"""

from __future__ import annotations

import errno
import hmac
import json
import secrets
import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import suppress
from contextvars import copy_context
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from sparrow.errors import InvalidValueError, SparrowError
from sparrow.explorer.answers import Answers, Arrays
from sparrow.explorer.tuning import tuning
from sparrow.runtime.events import emit
from sparrow.runtime.threads import Waiters

__all__ = ["Server"]

_PAGES = {
    "": ("explorer.html", "text/html; charset=utf-8"),
    "explorer.js": ("explorer.js", "text/javascript; charset=utf-8"),
    "explorer.css": ("explorer.css", "text/css; charset=utf-8"),
}
"""Files of the page by the rest of the path: name and type."""
_HOSTS = {"127.0.0.1", "localhost"}
"""Names of this machine in the Host header, whatever the port: it may be forwarded."""
_FRAMES = "'self' http://127.0.0.1:* http://localhost:* https: vscode-webview:"
"""Sites that may show the page of a notebook in a frame; they need its token for it."""


class Server:
    """Server of the answers of one explorer, on a thread.

    Parameters
    ----------
    answers
        The answers.
    port
        Port to listen on, 0 for a free one.
    in_frames
        Whether notebooks may show the page in a frame.

    Raises
    ------
    InvalidValueError
        If the port is in use or not permitted.
    """

    def __init__(self, answers: Answers, port: int = 0, in_frames: bool = False) -> None:
        self.token = secrets.token_urlsafe(24)
        self._launches: list[str] = []
        context, launches = copy_context(), self._launches

        class Handler(_Handler):
            """Handler of this server's requests."""

            token, frames = self.token, _FRAMES if in_frames else "'none'"

            def answer(self, name: str, asked: Mapping[str, Any]) -> dict[str, Any] | Arrays:
                return context.copy().run(answers.by_name[name], asked)

            def knows(self, name: str) -> bool:
                return name in answers.by_name

            def launch(self, token: str) -> bool:
                known = [each for each in launches if hmac.compare_digest(each.encode(), token.encode())]
                for each in known:
                    launches.remove(each)
                return bool(known)

        try:
            self._http = _HTTPServer(("127.0.0.1", port), Handler)
        except (OSError, OverflowError) as error:
            problem = "in use" if getattr(error, "errno", None) == errno.EADDRINUSE else str(error)
            raise InvalidValueError(
                f"port must be free, {port} is not ({problem}): leave it out for any free one"
            ) from None
        self.port: int = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/{self.token}/"
        self._waiters = Waiters()
        self.is_closed = False
        """True after :meth:`close`."""
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.1,), name="sparrow-explorer", daemon=True
        )
        self._thread.start()

    def launch_url(self) -> str:
        """Return an address that leads to the page once.

        For the command line of a browser, which other users of the machine can read.
        """
        token = secrets.token_urlsafe(24)
        self._launches.append(token)
        return f"http://127.0.0.1:{self.port}/{token}/"

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the server is closed, at most ``seconds``; return whether it is."""
        self._waiters.wait_until(lambda: self.is_closed, -1 if seconds is None else seconds)
        return self.is_closed

    def close(self) -> None:
        """Stop listening and drop all connections; idempotent."""
        if not self.is_closed:
            self.is_closed = True
            self._waiters.notify()
            self._http.shutdown()
            self._http.close_connections()
            self._http.server_close()
            self._thread.join()


class _HTTPServer(ThreadingHTTPServer):
    """Server that knows its open connections."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._connections: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread."""
        with self._guard:
            self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._guard:
            self._connections.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        """Close all connections, which ends their threads."""
        with self._guard:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that the browser cut."""


class _Handler(BaseHTTPRequestHandler):
    """Requests of one connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sparrow", ""
    token: str
    frames: str

    def answer(self, name: str, asked: Mapping[str, Any]) -> dict[str, Any] | Arrays:
        """Return the answer of a name."""
        raise NotImplementedError

    def knows(self, name: str) -> bool:
        """Return whether there is such an answer."""
        raise NotImplementedError

    def launch(self, token: str) -> bool:
        """Return whether a token is one of a launch, and forget it."""
        raise NotImplementedError

    def setup(self) -> None:
        """Set the time limit of the connection."""
        super().setup()
        self.connection.settimeout(tuning().idle_seconds)

    def log_message(self, format: str, *args: Any) -> None:
        """Emit an event in place of a line on standard error."""
        emit("explorer.request", method=self.command, status=args[1] if len(args) > 1 else None)

    # -- checks -----------------------------------------------------------------------------------

    def _checked_path(self) -> str | None:
        """Return the path behind the token; refuse the request otherwise."""
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        origin = self.headers.get("Origin")
        if host not in _HOSTS or (origin is not None and urlsplit(origin).netloc != self.headers.get("Host")):
            self._refuse(HTTPStatus.FORBIDDEN)
            return None
        token, _, rest = urlsplit(self.path).path.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            if self.command == "GET" and not rest and self.launch(token):
                self._send(HTTPStatus.SEE_OTHER, b"", "text/plain; charset=utf-8", f"/{self.token}/")
            else:
                self._refuse(HTTPStatus.NOT_FOUND)
            return None
        return rest

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer with a status alone, and close the connection."""
        self.close_connection = True
        self._send(status, b"", "text/plain; charset=utf-8")

    def _send(self, status: HTTPStatus, body: bytes, kind: str, location: str | None = None) -> None:
        self.send_response(status)
        if location is not None:
            self.send_header("Location", location)
        policy = (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            f"base-uri 'none'; form-action 'none'; frame-ancestors {self.frames}"
        )
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Content-Security-Policy", policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            with suppress(OSError):  # the browser has moved on
                self.wfile.write(body)

    # -- methods ----------------------------------------------------------------------------------

    def do_GET(self) -> None:
        """Send a file of the page."""
        rest = self._checked_path()
        if rest is None:
            return
        if rest not in _PAGES:
            self._refuse(HTTPStatus.NOT_FOUND)
            return
        name, kind = _PAGES[rest]
        self._send(HTTPStatus.OK, files("sparrow.explorer").joinpath("page", name).read_bytes(), kind)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Answer a request for data."""
        rest = self._checked_path()
        if rest is None:
            return
        api, _, name = rest.partition("/")
        length = self.headers.get("Content-Length", "")
        if api != "api" or not self.knows(name):
            self._refuse(HTTPStatus.NOT_FOUND)
        elif self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        elif not length.isdecimal() or int(length) > tuning().request_bytes:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            self._send(HTTPStatus.OK, *self._reply(name, self.rfile.read(int(length))))

    def _reply(self, name: str, body: bytes) -> tuple[bytes, str]:
        """Return the body and type of an answer; errors are answers too."""
        found: dict[str, Any] | Arrays
        try:
            asked = json.loads(body)
            if not isinstance(asked, dict):
                raise InvalidValueError(f"a request must be an object, got {type(asked).__name__}")
            found = self.answer(name, asked)
        except (SparrowError, ValueError, RecursionError) as error:
            found = {"error": str(error)}
        except Exception as error:  # noqa: BLE001 - the page shows it, and the server goes on
            found = {"error": f"{type(error).__name__}: {error}"}
        if not isinstance(found, Arrays):
            return json.dumps(found, allow_nan=False).encode(), "application/json"
        header = json.dumps(found.header, allow_nan=False).encode()
        header += b" " * (-len(header) % 4)
        arrays = b"".join(array.astype("<f4", copy=False).tobytes() for array in found.arrays)
        return struct.pack("<I", len(header)) + header + arrays, "application/octet-stream"
