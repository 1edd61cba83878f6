"""What the array API standard asks a namespace about itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparrow.errors import InvalidValueError

__all__ = ["NamespaceInfo", "__array_namespace_info__", "check_device"]

_LARGEST_NUMBER_OF_DIMENSIONS = 64
"""Tensors may have more; arrays of NumPy, which results become, may not."""


def check_device(device: Any) -> None:
    """Refuse a device other than "cpu"; None stands for it.

    Parameters
    ----------
    device
        What was asked for.

    Raises
    ------
    InvalidValueError
        If it is another.
    """
    if device not in (None, "cpu"):
        raise InvalidValueError(f"device={device!r}: tensors are on the device 'cpu'; A.to_cupy() takes them to a GPU")


def __array_namespace_info__() -> NamespaceInfo:
    """Return what there is to know about this namespace: capabilities, devices, types.

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
    """Capabilities, devices and types of the namespace ``sp``, as the array API standard asks for them.

    Examples
    --------
    >>> import sparrow as sp
    >>> info = sp.__array_namespace_info__()
    >>> info.default_device(), info.default_dtypes()["real floating"]
    ('cpu', dtype('float64'))
    """

    def capabilities(self) -> dict[str, Any]:
        """Return what is supported: indexes by masks, shapes that depend on data, how many dimensions.

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
            "max dimensions": _LARGEST_NUMBER_OF_DIMENSIONS,
        }

    def default_device(self) -> str:
        """Return where tensors are: "cpu".

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
        """Return where tensors may be.

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
        """Return the types that results have where none is named, by kind: NumPy's.

        Parameters
        ----------
        device
            "cpu", or None for it.

        Returns
        -------
        dict

        Raises
        ------
        InvalidValueError
            If there is no such device.

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
        """Return the types that tensors have by their names in the standard; they have float16, too.

        Parameters
        ----------
        device
            "cpu", or None for it.
        kind
            A kind of :func:`sparrow.isdtype`, or several: of these only.

        Returns
        -------
        dict

        Raises
        ------
        InvalidValueError
            If there is no such device, or no such kind.

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
            raise InvalidValueError(f"kind={kind!r} is no kind of types: {error}") from None
