"""Files of web servers: read only, no folders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO
from urllib.parse import unquote

import pyarrow as pa

from sparrow.errors import NotFoundError, StorageError, UnsupportedError
from sparrow.storage.fs.objects import ObjectStore
from sparrow.storage.fs.remote_file import RemoteFile, pinned_versions, spooled_file, version_of
from sparrow.storage.fs.traffic import count_request
from sparrow.storage.tuning import tuning

__all__ = ["WebSite"]


class WebSite(ObjectStore):
    """Files of a web server."""

    def _key(self, path: str) -> str:
        return unquote(super()._key(path))

    def _metadata(self, path: str) -> Any:
        return self._request_first_byte(path)[0].meta

    def _request_first_byte(self, path: str) -> tuple[Any, bool]:
        """Return a response for a file, and whether it holds the first byte only.

        Many servers do not answer ``HEAD``; they send the file, by ranges or whole. The body is not read unless
        someone asks for it.
        """
        import obstore

        key = self._key(path)
        try:
            return self._request("read", path, obstore.get, key, options={"range": (0, 1)}), True
        except NotFoundError:
            raise
        except StorageError:  # an empty file, or a server without ranges
            return self._request("read", path, obstore.get, key), False

    def _translate_error(self, what: str, path: str, error: Exception) -> StorageError:
        if "Content-Length" in str(error):
            way_out = "have another program fetch it, curl -L URL | sparrow ingest FORMAT - DST"
            return StorageError(f"{path!r} cannot be {what}: the server does not say how long it is: {way_out}")
        return super()._translate_error(what, path, error)

    def open(
        self, path: str, sequential: bool = False, size: int | None = None, immutable: bool = False
    ) -> pa.NativeFile:
        """Open a file.

        If the server has no ranges, after fetching it into the temporary folder.
        """
        import obstore

        window = tuning().window_bytes
        response: Any
        response, has_ranges = self._request_first_byte(path)
        ranged = RemoteFile(self, path, window if sequential else 0, size, pinned_versions())
        ranged.compare(version_of(response.meta))
        if has_ranges:
            return pa.PythonFile(ranged, mode="r")
        file = spooled_file()

        def fetch(store: Any) -> None:
            nonlocal response
            file.seek(0)
            file.truncate()
            response = obstore.get(store, self._key(path)) if response is None else response
            unread, response = response, None
            for data in unread.stream(window):
                file.write(data)
                count_request(len(data))

        self._call("read", path, fetch)
        file.seek(0)
        return pa.PythonFile(file, mode="r")

    def is_folder(self, path: str) -> bool:
        """Return False: web servers do not list files."""
        return False

    def glob(self, pattern: str) -> list[str]:
        """Raise ``UnsupportedError``: web servers do not list files."""
        raise UnsupportedError(f"{pattern!r} is a pattern, and web servers do not list files: name the files")

    def _not_a_store(self, path: str) -> UnsupportedError:
        return UnsupportedError(
            f"{path!r} is on a web server, from which sp.ingest reads files: tensors are stored in local folders and "
            "on s3://, gs:// and az://"
        )

    def is_occupied(self, path: str) -> bool:
        """Raise ``UnsupportedError``: tensors are not stored on web servers."""
        raise self._not_a_store(path)

    def recover(self, path: str) -> None:
        """Raise ``UnsupportedError``: tensors are not stored on web servers."""
        raise self._not_a_store(path)

    @contextmanager
    def atomic_write(self, path: str) -> Iterator[BinaryIO]:
        """Raise ``UnsupportedError``: web servers are read only."""
        raise self._not_a_store(path)
        yield
