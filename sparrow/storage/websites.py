"""Files of web servers, which are read and never written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO
from urllib.parse import unquote

import pyarrow as pa

from sparrow.errors import NotFoundError, StorageError, UnsupportedError
from sparrow.storage.filesystem import count_request
from sparrow.storage.objects import ObjectStore
from sparrow.storage.remote import WINDOW, spooled

__all__ = ["WebSite"]


class WebSite(ObjectStore):
    """Files of a web server, to be read."""

    def _key(self, path: str) -> str:
        return unquote(super()._key(path))

    def _known(self, path: str) -> Any:
        """Return what is known of a file; where a server answers no question about it, by asking for its first byte."""
        import obstore

        try:
            return super()._known(path)
        except NotFoundError:
            pass
        except StorageError as error:
            if "status code: 501" not in str(error):  # to say that it knows no such question
                raise
        try:
            return self._counted("read", path, obstore.get, self._key(path), options={"range": (0, 1)}).meta
        except NotFoundError:
            raise
        except StorageError:  # there is none, or it sends whole files only; of this one no more is read than its head
            return self._counted("read", path, obstore.get, self._key(path)).meta

    def _told(self, what: str, path: str, error: Exception) -> StorageError:
        """Return the error to raise for one of obstore."""
        if "Content-Length" in str(error):
            way = "have another program fetch it, curl -L URL | sparrow ingest FORMAT - DST"
            return StorageError(f"{path!r} cannot be {what}: the server does not say how long it is: {way}")
        return super()._told(what, path, error)

    def open(self, path: str, through: bool = False, size: int | None = None) -> pa.NativeFile:
        """Open a file; one of a server that sends whole files only is fetched into the temporary folder."""
        import obstore

        key = self._key(path)
        try:
            self._counted("read", path, obstore.get_range, key, start=0, length=1)
        except NotFoundError:
            raise
        except StorageError:
            file = spooled()

            def fetch(store: Any) -> None:
                for data in obstore.get(store, key).stream(WINDOW):
                    file.write(data)
                    count_request(len(data))

            self._ask("read", path, fetch)
            file.seek(0)
            return pa.PythonFile(file, mode="r")
        return super().open(path, through, size)

    def is_folder(self, path: str) -> bool:
        """Return False: servers list no files, so what lies below an address is not known."""
        return False

    def matching(self, pattern: str) -> list[str]:
        """Refuse a pattern: servers list no files."""
        raise UnsupportedError(f"{pattern!r} is a pattern, and web servers list no files: give the files one by one")

    def _refuse(self, path: str) -> UnsupportedError:
        return UnsupportedError(
            f"{path!r} is a URL of the web, where files are read that sp.ingest takes: tensors live in folders of this "
            "machine and on s3://, gs:// and az://"
        )

    def occupied(self, path: str) -> bool:
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
