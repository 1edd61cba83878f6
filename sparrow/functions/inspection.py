"""Inspection of the namespace, as the array API standard defines it."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.errors import InvalidValueError

__all__ = ["NamespaceInfo", "__array_namespace_info__", "check_device"]

_MAX_DIMENSIONS = 64
"""Limit of NumPy arrays, which dense results are; tensors may have more."""


def check_device(device: Any) -> None:
    """Raise ``InvalidValueError`` unless a device is "cpu" or None."""
    if device not in (None, "cpu"):
        raise InvalidValueError(f"device must be 'cpu' or None, got {device!r}; A.to_cupy() moves a tensor to a GPU")


def __array_namespace_info__() -> NamespaceInfo:
    """Return the capabilities, devices and dtypes of this namespace.

    Returns
    -------
    NamespaceInfo

    Examples
    --------
    >>> import sparrow as sp
    >>> sp.__array_namespace_info__().capabilities()["data-dependent shapes"]
    True
    """
    return NamespaceInfo()


class NamespaceInfo:
    """Capabilities, devices and dtypes of the namespace ``sp``.

    Examples
    --------
    >>> import sparrow as sp
    >>> info = sp.__array_namespace_info__()
    >>> info.default_device(), info.default_dtypes()["real floating"]
    ('cpu', dtype('float64'))
    """

    def capabilities(self) -> dict[str, Any]:
        """Return the optional features of the standard that are supported.

        Returns
        -------
        dict

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.__array_namespace_info__().capabilities()["boolean indexing"]
        True
        """
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": _MAX_DIMENSIONS,
        }

    def default_device(self) -> str:
        """Return the default device, "cpu".

        Returns
        -------
        str

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.__array_namespace_info__().default_device()
        'cpu'
        """
        return "cpu"

    def devices(self) -> list[str]:
        """Return the devices.

        Returns
        -------
        list

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.__array_namespace_info__().devices()
        ['cpu']
        """
        return ["cpu"]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, np.dtype[Any]]:
        """Return the default dtypes by kind, which are NumPy's.

        Parameters
        ----------
        device
            "cpu" or None.

        Returns
        -------
        dict

        Raises
        ------
        InvalidValueError
            If the device is unknown.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.__array_namespace_info__().default_dtypes()["integral"]
        dtype('int64')
        """
        check_device(device)
        found: Any = np.__array_namespace_info__()
        return dict(found.default_dtypes())

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]:
        """Return the dtypes by their names in the standard; float16 is supported too.

        Parameters
        ----------
        device
            "cpu" or None.
        kind
            Kind of :func:`sparrow.isdtype`, or several, to return only these.

        Returns
        -------
        dict

        Raises
        ------
        InvalidValueError
            If the device or the kind is unknown.

        Examples
        --------
        >>> import sparrow as sp
        >>> list(sp.__array_namespace_info__().dtypes(kind="real floating"))
        ['float32', 'float64']
        """
        check_device(device)
        found: Any = np.__array_namespace_info__()
        try:
            return dict(found.dtypes(kind=kind))
        except ValueError as error:
            raise InvalidValueError(f"kind={kind!r} is not a kind of dtypes: {error}") from None
