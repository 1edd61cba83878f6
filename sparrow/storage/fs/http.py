"""Files of web servers, which are read and never written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO
from urllib.parse import unquote

import pyarrow as pa

from sparrow.errors import NotFoundError, StorageError, UnsupportedError
from sparrow.storage.fs.filesystem import count_request, pinned_versions
from sparrow.storage.fs.objects import ObjectStore
from sparrow.storage.fs.remote_file import WINDOW, RemoteFile, spooled, version_of

__all__ = ["WebSite"]


class WebSite(ObjectStore):
    """Files of a web server, to be read."""

    def _key(self, path: str) -> str:
        return unquote(super()._key(path))

    def _known(self, path: str) -> Any:
        """Return what is known of a file."""
        return self._begun(path)[0].meta

    def _begun(self, path: str) -> tuple[Any, bool]:
        """Return the answer to a request for the first byte of a file, and whether that is all it holds.

        Many servers answer no question about a file (``HEAD``): they send it, in parts or whole. Of an answer no more
        is read than its head where nobody asks for its bytes.
        """
        import obstore

        key = self._key(path)
        try:
            return self._counted("read", path, obstore.get, key, options={"range": (0, 1)}), True
        except NotFoundError:
            raise
        except StorageError:  # there is no first byte, or none apart from the others
            return self._counted("read", path, obstore.get, key), False

    def _told(self, what: str, path: str, error: Exception) -> StorageError:
        """Return the error to raise for one of obstore."""
        if "Content-Length" in str(error):
            way = "have another program fetch it, curl -L URL | sparrow ingest FORMAT - DST"
            return StorageError(f"{path!r} cannot be {what}: the server does not say how long it is: {way}")
        return super()._told(what, path, error)

    def open(
        self, path: str, sequential: bool = False, size: int | None = None, immutable: bool = False
    ) -> pa.NativeFile:
        """Open a file; one of a server that sends whole files only is fetched into the temporary folder."""
        answer, parts = self._begun(path)
        whole = RemoteFile(self, path, WINDOW if sequential else 0, size, pinned_versions())
        whole.compare(version_of(answer.meta))
        if parts:
            return pa.PythonFile(whole, mode="r")
        file = spooled()

        def fetch(_: Any) -> None:
            for data in answer.stream(WINDOW):
                file.write(data)
                count_request(len(data))

        self._ask("read", path, fetch)
        file.seek(0)
        return pa.PythonFile(file, mode="r")

    def is_folder(self, path: str) -> bool:
        """Return False: servers list no files, so what lies below an address is not known."""
        return False

    def glob(self, pattern: str) -> list[str]:
        """Refuse a pattern: servers list no files."""
        raise UnsupportedError(f"{pattern!r} is a pattern, and web servers list no files: give the files one by one")

    def _refuse(self, path: str) -> UnsupportedError:
        return UnsupportedError(
            f"{path!r} is a URL of the web, where files are read that sp.ingest takes: tensors live in folders of this "
            "machine and on s3://, gs:// and az://"
        )

    def is_occupied(self, path: str) -> bool:
        """Refuse to write."""
        raise self._refuse(path)

    def recover(self, path: str) -> None:
        """Refuse to look for a tensor."""
        raise self._refuse(path)

    @contextmanager
    def replacing(self, path: str) -> Iterator[BinaryIO]:
        """Refuse to write."""
        raise self._refuse(path)
        yield
