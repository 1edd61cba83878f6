"""In-memory stand-ins for Google Cloud Storage and Azure Blob Storage."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.storage.server import BUCKET, SECRET, Request, start_server

__all__ = ["Answer", "Azure", "Cloud", "Google", "running"]


class Answer(NamedTuple):
    """Response of a server."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


class Blob(NamedTuple):
    """An object, and the number of its version."""

    data: bytes
    generation: int

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the response."""
        return {"etag": f'"{self.generation}"', "x-goog-generation": str(self.generation),
                "last-modified": formatdate(1.7e9, usegmt=True)}  # fmt: skip


class Cloud:
    """Objects by name: the common part of both services."""

    scheme: str
    token: str
    """The parameter that a page begins with."""

    def __init__(self, page: int = 100) -> None:
        self.blobs: dict[str, Blob] = {}
        self.parts: dict[tuple[str, str], bytes] = {}
        self.requests: list[Request] = []
        self.before: Callable[[Request], int | None] = lambda request: None
        self.guard = threading.Lock()
        self.page = page
        self.count = 0

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer one request."""
        split = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(split.query, keep_blank_values=True).items()}
        _, bucket, *rest = unquote(split.path).split("/", 2)
        request = Request(method, path, headers.get("range", ""))
        with self.guard:
            self.requests.append(request)
            if (status := self.before(request)) is not None:
                return Answer(status, b"<Error><Code>AuthenticationFailed</Code></Error>")
            if bucket != BUCKET:
                return self.error("missing bucket")
            answer = self.respond(method, (rest or [""])[0], query, headers, body)
            return Answer(503) if request.lost else answer

    def options(self, address: str) -> dict[str, str]:
        """Return the options that lead to the stand-in, with a secret among them."""
        raise NotImplementedError

    def respond(
        self, method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        """Answer what is asked of an object, or of all of them."""
        raise NotImplementedError

    def error(self, what: str) -> Answer:
        """Return the answer to what cannot be done."""
        raise NotImplementedError

    def read(self, method: str, key: str, span: str) -> Answer:
        """Return an object or a stretch of it."""
        if (blob := self.blobs.get(key)) is None:
            return self.error("missing")
        size = len(blob.data)
        if method == "HEAD":
            return Answer(200, b"", {**blob.headers, "content-length": str(size)})
        if not span:
            return Answer(200, blob.data, blob.headers)
        first, last = re.fullmatch(r"bytes=(\d*)-(\d*)", span).groups()  # type: ignore[union-attr]
        if not first and not self.suffixes:
            return self.error("range")
        start, stop = (int(first), min(int(last or size) + 1, size)) if first else (max(size - int(last), 0), size)
        if start >= size:
            return self.error("range")
        span = f"bytes {start}-{stop - 1}/{size}"
        return Answer(206, blob.data[start:stop], {**blob.headers, "content-range": span})

    suffixes = True
    """Whether a range may be given by its length from the end."""

    def put(self, key: str, data: bytes) -> Answer:
        """Put an object."""
        self.count += 1
        self.blobs[key] = Blob(data, self.count)
        return Answer(201, b"", self.blobs[key].headers)

    def found(self, query: Mapping[str, str]) -> tuple[list[str], list[str], str]:
        """Return the names and folders of a page of a listing, and the next page."""
        prefix, parted = query.get("prefix", ""), query.get("delimiter", "")
        after = max(query.get(self.token, ""), query.get("start-after", ""))
        names = sorted(name for name in self.blobs
                       if name.startswith(prefix) and name > after and name >= query.get("startFrom", ""))  # fmt: skip
        folders = {name[: name.index(parted, len(prefix)) + 1] for name in names
                   if parted and parted in name[len(prefix) :]}  # fmt: skip
        plain = [name for name in names if not any(name.startswith(folder) for folder in folders)]
        if not parted and len(plain) > self.page:
            return plain[: self.page], [], plain[self.page - 1]
        return plain, sorted(folders), ""


class Google(Cloud):
    """Google Cloud Storage, XML API: writes conditional on a version."""

    scheme, token = "gs", "continuation-token"

    def options(self, address: str) -> dict[str, str]:
        """Return a service account that needs no token."""
        account = {"gcs_base_url": address, "disable_oauth": True, "client_email": "me", "private_key": SECRET,
                   "private_key_id": "1"}  # fmt: skip
        return {"google_service_account_key": json.dumps(account), "google_allow_http": "true"}

    def error(self, what: str) -> Answer:
        """Return the error."""
        status, code = {"missing": (404, "NoSuchKey"), "missing bucket": (404, "NoSuchBucket"),
                        "taken": (412, "PreconditionFailed"), "range": (416, "InvalidRange")}[what]  # fmt: skip
        return Answer(status, f"<Error><Code>{code}</Code></Error>".encode())

    def respond(
        self, method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        """Answer."""
        if not key:
            names, folders, after = self.found(query)
            entries = [f"<Contents><Key>{escape(name)}</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified>"
                       f"<ETag>{self.blobs[name].generation}</ETag><Size>{len(self.blobs[name].data)}</Size></Contents>"
                       for name in names]  # fmt: skip
            entries += [f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>" for folder in folders]
            told = f"<NextContinuationToken>{escape(after)}</NextContinuationToken>" if after else ""
            return Answer(200, f"<ListBucketResult>{''.join(entries)}{told}</ListBucketResult>".encode())
        upload = query.get("uploadId", "")
        if method in ("GET", "HEAD"):
            return self.read(method, key, headers.get("range", ""))
        if method == "DELETE":
            if upload or self.blobs.pop(key, None) is not None:
                return Answer(204)
            return self.error("missing")
        if method == "POST" and "uploads" in query:
            self.count += 1
            text = f"<InitiateMultipartUploadResult><UploadId>{self.count}</UploadId></InitiateMultipartUploadResult>"
            return Answer(200, text.encode())
        if method == "PUT" and upload:
            self.parts[upload, query["partNumber"]] = body
            return Answer(200, b"", {"etag": f'"{hashlib.md5(body).hexdigest()}"'})
        wanted = headers.get("x-goog-if-generation-match")
        at = self.blobs[key].generation if key in self.blobs else 0
        if wanted is not None and int(wanted) != at:
            return self.error("taken")
        if method == "POST":
            numbers = re.findall(r"<PartNumber>(\d+)", body.decode())
            done = self.put(key, b"".join(self.parts.pop((upload, number)) for number in numbers))
            text = f"<CompleteMultipartUploadResult><ETag>{done.headers['etag']}</ETag></CompleteMultipartUploadResult>"
            return Answer(200, text.encode(), done.headers)
        return self.put(key, body)._replace(status=200)


class Azure(Cloud):
    """Azure Blob Storage: blocks, ``If-None-Match``, and no suffix ranges."""

    scheme, token = "az", "marker"
    suffixes = False

    def options(self, address: str) -> dict[str, str]:
        """Return an account and its key."""
        return {"azure_storage_account_name": "me", "azure_storage_endpoint": address, "azure_allow_http": "true",
                "azure_storage_account_key": base64.b64encode(SECRET.encode()).decode()}  # fmt: skip

    def error(self, what: str) -> Answer:
        """Return the error."""
        status, code = {"missing": (404, "BlobNotFound"), "missing bucket": (404, "ContainerNotFound"),
                        "taken": (409, "BlobAlreadyExists"), "changed": (412, "ConditionNotMet"),
                        "range": (416, "InvalidRange")}[what]  # fmt: skip
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{what}</Message></Error>"
        return Answer(status, text.encode(), {"x-ms-error-code": code})

    def respond(
        self, method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Answer:
        """Answer."""
        if not headers.get("authorization", "").startswith("SharedKey me:"):
            return Answer(403, b"<Error><Code>AuthenticationFailed</Code></Error>")
        if query.get("comp") == "list":
            names, folders, after = self.found(query)
            entries = [f"<Blob><Name>{escape(name)}</Name><Properties>"
                       f"<Last-Modified>{self.blobs[name].headers['last-modified']}</Last-Modified>"
                       f"<Etag>{self.blobs[name].generation}</Etag><Content-Type>text/plain</Content-Type>"
                       f"<Content-Length>{len(self.blobs[name].data)}</Content-Length></Properties></Blob>"
                       for name in names]  # fmt: skip
            entries += [f"<BlobPrefix><Name>{escape(folder)}</Name></BlobPrefix>" for folder in folders]
            text = f"<Blobs>{''.join(entries)}</Blobs><NextMarker>{escape(after)}</NextMarker>"
            return Answer(200, f"<?xml version='1.0'?><EnumerationResults>{text}</EnumerationResults>".encode())
        if query.get("comp") == "batch":
            return self._batch(headers, body)
        if method in ("GET", "HEAD"):
            return self.read(method, key, headers.get("x-ms-range") or headers.get("range", ""))
        if method == "DELETE":
            return Answer(202) if self.blobs.pop(key, None) is not None else self.error("missing")
        if query.get("comp") == "block":
            self.parts[key, query["blockid"]] = body
            return Answer(201)
        if headers.get("if-none-match") == "*" and key in self.blobs:
            return self.error("taken")
        if (wanted := headers.get("if-match")) and wanted.strip('"') != str(self.blobs[key].generation):
            return self.error("changed")
        if query.get("comp") == "blocklist":
            names = re.findall(r"<(?:Uncommitted|Latest)>([^<]*)<", body.decode())
            return self.put(key, b"".join(self.parts.pop((key, name)) for name in names))
        return self.put(key, body)

    def _batch(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Delete many."""
        answers = []
        for number, path in enumerate(re.findall(r"(?m)^DELETE (\S+) HTTP", body.decode())):
            key = unquote(urlsplit(path).path).split("/", 2)[2]
            status = (
                "202 Accepted" if self.blobs.pop(key, None) is not None else "404 The specified blob does not exist."
            )
            answers.append(f"--b\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\nHTTP/1.1 {status}\r\n"
                           "x-ms-request-id: 1\r\nContent-Length: 0\r\n\r\n\r\n")  # fmt: skip
        return Answer(202, ("".join(answers) + "--b--\r\n").encode(), {"content-type": "multipart/mixed; boundary=b"})


@contextmanager
def running(cloud: Cloud) -> Iterator[str]:
    """Serve a stand-in at an address of this machine."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        given = {name.lower(): value for name, value in handler.headers.items()}
        found = cloud.answer(handler.command, handler.path, given, body)
        handler.send_response(found.status)
        for name, value in {"content-length": str(len(found.body)), **found.headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(b"" if handler.command == "HEAD" else found.body)
        handler.wfile.flush()

    server = start_server(reply)
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
