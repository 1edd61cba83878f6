"""S3 server for tests, and a proxy that counts, delays and refuses requests."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

SECRET = "hunter2"
OPTIONS = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
BUCKET = "bucket"
_HOP = {"connection", "transfer-encoding", "content-length", "date", "server"}


SERVER = """
import logging
from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import make_server

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = make_server("127.0.0.1", 0, create_backend_app("s3"), threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
"""
"""S3 and nothing else: what dispatches to all services of AWS looks through their folders at every request."""


@contextmanager
def moto() -> Iterator[str]:
    """Run a server in a process of its own and yield its address."""
    process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        address = f"127.0.0.1:{int(process.stdout.readline())}"
        connection = http.client.HTTPConnection(address)
        connection.request("PUT", f"/{BUCKET}")
        assert connection.getresponse().read() is not None
        connection.close()
        yield address
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class Request:
    """A request."""

    def __init__(self, method: str, path: str, span: str) -> None:
        self.method, self.path, self.span = method, path, span
        self.key = urlsplit(path).path.removeprefix(f"/{BUCKET}/")
        self.lost = False
        """Whether the answer does not come back, though what was asked is done."""
        self.cut = False
        """Whether the connection ends in the middle of the answer."""

    def __repr__(self) -> str:
        return f"{self.method} {self.path} {self.span}"

    @property
    def writes(self) -> bool:
        """Whether it changes something."""
        return self.method in ("PUT", "POST", "DELETE")


def start_server(answer: Callable[[BaseHTTPRequestHandler], None]) -> ThreadingHTTPServer:
    """Return a local server that answers requests of every method on threads."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 20  # head and body in one packet: else the other side waits 40 ms before it says so
        disable_nagle_algorithm = True

        def log_message(self, *args: object) -> None:
            pass

        def handle_one_request(self) -> None:
            with suppress(ConnectionError):
                super().handle_one_request()

        def reply(self) -> None:
            answer(self)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = reply

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


class Proxy:
    """Proxy of a server; ``before`` may answer a request with a status."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.before: Callable[[Request], int | None] = lambda request: None
        self.requests: list[Request] = []
        self.bytes = self.most = self._now = 0
        self.guard = threading.Lock()
        self._http = start_server(self.pass_on)
        self.address = f"http://127.0.0.1:{self._http.server_address[1]}"

    def close(self) -> None:
        """End it."""
        self._http.shutdown()
        self._http.server_close()

    def reset(self) -> None:
        """Forget what was asked, and let everything through."""
        self.before = lambda request: None
        self.requests, self.bytes, self.most = [], 0, 0

    def pass_on(self, handler: Any) -> None:
        """Answer one request."""
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        request = Request(handler.command, handler.path, handler.headers.get("range", ""))
        with self.guard:
            self.requests.append(request)
            self._now += 1
            self.most = max(self.most, self._now)
        try:
            status = self.before(request)
            if status is not None:
                headers: list[tuple[str, str]] = []
                text = b"<Error><Code>AccessDenied</Code></Error>" if status == 403 else b""
            else:
                upstream = http.client.HTTPConnection(self.server)
                upstream.request(handler.command, handler.path, body, dict(handler.headers.items()))
                found = upstream.getresponse()
                status, headers, text = found.status, found.getheaders(), found.read()
                length = found.getheader("content-length", "0")
                upstream.close()
                if request.lost:
                    status, headers, text, length = 503, [], b"", "0"
            if handler.command != "HEAD":
                length = str(len(text))
            elif not headers:
                length = "0"
            handler.send_response(status)
            for name, value in headers:
                if name.lower() not in _HOP:
                    handler.send_header(name, value)
            handler.send_header("content-length", length)
            handler.end_headers()
            if handler.command != "HEAD":
                handler.wfile.write(text[: len(text) // 2] if request.cut else text)
                self.bytes += len(text)
            handler.wfile.flush()
            handler.close_connection |= request.cut
        finally:
            with self.guard:
                self._now -= 1


def refusing_from(number: int) -> tuple[Callable[[Request], int | None], list[Request]]:
    """Return a hook that refuses writes from the n-th on, and those it passed."""
    passed: list[Request] = []
    dead = threading.Event()

    def before(request: Request) -> int | None:
        if request.writes and not dead.is_set():
            passed.append(request)
            if len(passed) >= number:
                dead.set()
        return 403 if dead.is_set() else None

    return before, passed


def slow(seconds: float) -> Callable[[Request], int | None]:
    """Return a hook that delays every request."""

    def before(request: Request) -> int | None:
        time.sleep(seconds)
        return None

    return before
