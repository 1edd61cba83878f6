"""Sparse arrays in .npz files, as SciPy and pydata/sparse write them, to a stored tensor."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sparrow import storage
from sparrow.errors import InvalidValueError
from sparrow.interop.conversion import from_object

__all__ = ["npz"]


def npz(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    dims: Sequence[str] | None = None,
    overwrite: bool = False,
    profile: str = "fast",
) -> str:
    """Store a sparse array of a .npz file; the array itself must fit in memory.

    Parameters
    ----------
    src
        A file that ``scipy.sparse.save_npz`` wrote (csr, csc, coo, bsr, dia; entries for one cell mean their sum), or
        ``sparse.save_npz`` of pydata/sparse (COO, GCXS; with a fill value).
    dst
        The folder to create.
    dims
        Names of the dimensions, ``d0, d1, ...`` by default.
    overwrite
        Replace what is at ``dst``.
    profile
        ``"fast"`` or ``"small"``.

    Returns
    -------
    str
        ``dst``.

    Raises
    ------
    InvalidValueError
        If the name does not end in ``.npz`` or the file holds no sparse array.
    FileNotFoundError
        If there is no such file.
    ExistsError
        If something is at ``dst`` and ``overwrite`` is not set.
    """
    if profile not in ("fast", "small"):
        raise InvalidValueError(f"profile={profile!r}: use 'fast' or 'small'")
    schema, block = from_object(os.fspath(src), dims=dims)
    storage.save(
        dst,
        schema,
        [block],
        profile=profile,
        overwrite=overwrite,
        operation="ingest npz",
        extra={"sources": [os.fspath(src)]},
    )
    return os.fspath(dst)
