"""Tensor: what people hold. Thin: what it is, how it looks and how it is indexed; the rest is in what it derives from.

Arithmetic and sums are in operators and reductions, other libraries in exports, writes in writing, files in stored.
"""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from types import EllipsisType, ModuleType
from typing import Any, Literal, NoReturn, SupportsIndex, TypeAlias, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparrow import engines, storage
from sparrow.core.indexing import Mode, View, check_permutation
from sparrow.core.schema import Schema, as_integers, check_shape, is_fill
from sparrow.core.storage_types import COMPRESSED, check_stype, infer_view, resolve_stype
from sparrow.errors import InvalidValueError, ShapeError, StorageError, UnsupportedError
from sparrow.interop.conversion import check_fill
from sparrow.kernels.coo import Block
from sparrow.plan import Node, Scan, axis_labels, make_reshape, make_with_fill
from sparrow.relations.base import MemoryHandle, MemoryRelation
from sparrow.runtime.validation import check_flag, check_integer
from sparrow.tensor import display
from sparrow.tensor import spy as pictures
from sparrow.tensor.actions import Actions
from sparrow.tensor.arraylike import ArrayMethods
from sparrow.tensor.base import counted_masks, labelled
from sparrow.tensor.exports import Exports
from sparrow.tensor.products import Engine
from sparrow.tensor.stored import Stored

__all__ = ["Tensor"]

Part: TypeAlias = "slice | EllipsisType | list[Any] | NDArray[Any] | Tensor | None"
"""What stands between the brackets and leaves a tensor, whatever the number of dimensions."""


class Tensor(ArrayMethods, Actions, Exports, Stored):
    """A sparse array: a view of entries that are stored or in memory.

    Made by :func:`sparrow.open`, :func:`sparrow.from_coords` and :func:`sparrow.asarray`, and by indexing.
    Indexing is NumPy's and lazy: it reads nothing, except that one cell is read at once and
    that a sparse mask is counted.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 2], [1, 2, 0]], [2.0, 3.0, 1.0], shape=(3, 4))
    >>> A
    <Tensor (d0: 3, d1: 4) float64 nnz=3 coo in memory>
    >>> A[1:, 2].to_numpy()
    array([3., 0.])
    >>> A @ [1, 1, 1, 1]
    array([2., 3., 1.])
    """

    __slots__ = ()

    # -- what it is -----------------------------------------------------------------------------

    @property
    def stype(self) -> str:
        """The storage type: "coo", "csr", "csc", "row_sparse" or "dense"; see :mod:`sparrow.core.storage_types`."""
        return self._schema.stype

    @property
    def version(self) -> int | None:
        """The version of a stored tensor, None in memory."""
        base = self._base
        return None if isinstance(base, Node) else base.version

    @property
    def nbytes(self) -> int:
        """Bytes of the base's data files, or of its arrays in memory."""
        base = self._base
        if not isinstance(base, Node):
            return base.nbytes
        schema = base.schema
        return schema.element_bytes() * engines.count_nnz(Scan(base, View.identity(schema.shape), schema))

    @property
    def path(self) -> str | None:
        """Where the tensor is stored, None in memory."""
        return self._handle.path if self._handle is not None else None

    @property
    def nnz(self) -> int:
        """The number of cells that differ from fill. Of a base this is known; a view is counted once a version."""
        known = self._known_nnz()
        if known is None:
            scan = self.__sparrow_scan__()
            known = engines.count_nnz(scan)
            self._counted = (scan.source.token, known)
        return known

    def _known_nnz(self) -> int | None:
        base = self._base
        try:
            view = self._through(base.schema)[0]
        except ShapeError:
            return None
        if view.is_identity:
            return base.known_nnz if isinstance(base, Node) else base.nnz
        if view.size == 0:
            return 0
        if self._counted is not None and self._counted[0] == base.token:
            return self._counted[1]
        return None

    @property
    def density(self) -> float:
        """The share of cells that differ from fill, nnz / size; NaN where there are no cells."""
        return self.nnz / self.size if self.size else math.nan

    def __len__(self) -> int:
        if not self.ndim:
            raise UnsupportedError("a tensor without dimensions has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __bool__(self) -> bool:
        if self.size != 1:
            raise InvalidValueError(
                f"the truth of a tensor of shape {self.shape} is ambiguous: compare nnz, or read one cell"
            )
        return bool(self.to_numpy().reshape(-1)[0])

    def __complex__(self) -> complex:
        return complex(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in "iu":
            raise UnsupportedError(f"a tensor of shape {self.shape} and type {self.dtype} is no index")
        return int(self.item())

    def __format__(self, format_spec: str) -> str:
        if format_spec and self.ndim:
            raise UnsupportedError(f"a tensor of shape {self.shape} has no format {format_spec!r}: one cell has")
        return format(self.item(), format_spec) if format_spec else repr(self)

    def __repr__(self) -> str:
        known = self._known_nnz()
        return display.one_line(
            self.shape, self.dims, self.dtype, known, self.stype, self.path, self.version, self._is_lazy
        )

    def _repr_html_(self) -> str:
        """Return shape, entries and bytes as a small table, with a picture of at most 96 row groups."""
        picture = None
        if self.ndim and self.size and not self._is_lazy and pictures.can_draw():
            with contextlib.suppress(StorageError):  # a tensor whose files are gone can still be named
                found = self._density((0, self.ndim - 1), 120, sample=True)
                picture = pictures.data_url(found, (self.dims[0], self.dims[-1]))
        nbytes = None if self._is_lazy else self.nbytes
        named = [self.dims[axis] for axis in sorted(axis_labels(self.__sparrow_scan__()))]
        return display.html(
            self.shape, self.dims, self.dtype, self._known_nnz(), self.stype, self.path, self.version, nbytes,
            self.fill_value, self._is_lazy, picture, named,
        )  # fmt: skip

    def _density(self, axes: tuple[int, int], bins: int, sample: bool) -> engines.DensityMap:
        flat = self if self.ndim > 1 else self[None]
        return engines.density(flat.__sparrow_scan__(), axes if self.ndim > 1 else (0, 1), bins, sample)

    def spy(self, axes: tuple[int, int] = (0, -1), bins: int = 400, ax: Any = None, sample: bool = False) -> Any:
        """Draw where the entries are: a density map over two axes, by one scan. Needs Matplotlib.

        Parameters
        ----------
        axes
            The axes down and across; entries of all others are added up.
        bins
            Cells of the picture along each axis.
        ax
            Matplotlib axes to draw into; new ones by default.
        sample
            Read at most 96 row groups, evenly spread, and estimate the rest.

        Returns
        -------
        matplotlib.axes.Axes
            New ones are a picture where a notebook shows them.

        Raises
        ------
        MissingDependencyError
            If Matplotlib is not installed.
        ShapeError
            If the tensor has no such axes.

        Examples
        --------
        >>> import matplotlib, sparrow as sp
        >>> matplotlib.use("agg")
        >>> axes = sp.eye(3).spy()
        >>> axes.get_xlabel(), axes.get_ylabel()
        ('d1', 'd0')
        """
        if not self.ndim or any(not -self.ndim <= axis < self.ndim for axis in axes):
            raise ShapeError(f"axes {axes} are out of range for {self.ndim} dimensions")
        check_integer("bins", bins, 1)
        down, across = (axis % self.ndim for axis in axes)
        found = self._density((down, across), bins, sample)
        names = (self.dims[down], self.dims[across]) if self.ndim > 1 else ("", self.dims[0])
        title = f"{self.nnz:,} entries of {display.human_count(self.size)} cells"
        return pictures.draw(found, names, title, ax)

    # -- views ----------------------------------------------------------------------------------

    @overload
    def __getitem__(self, key: Part) -> Tensor: ...

    @overload
    def __getitem__(self, key: SupportsIndex | tuple[Any, ...]) -> Any: ...

    def __getitem__(self, key: Part | SupportsIndex | tuple[Any, ...]) -> Any:
        """Return the view that NumPy's indexing rules give; one cell is read at once."""
        return self._index(key, "paired")

    @property
    def oindex(self) -> _Indexer:
        """Indexing that crosses lists, each in its place: ``A.oindex[[0, 2], [1, 3]]`` has shape (2, 2)."""
        return _Indexer(self, "orthogonal")

    @property
    def vindex(self) -> _Indexer:
        """Indexing that pairs lists and puts their axes first."""
        return _Indexer(self, "pointwise")

    @property
    def T(self) -> Tensor:
        """The view with its axes reversed."""
        return self.transpose()

    @property
    def mT(self) -> Tensor:
        """The view with its last two axes exchanged."""
        if self.ndim < 2:
            raise ShapeError(f"mT exchanges the last two axes, and a tensor of shape {self.shape} has not two")
        return self.transpose(*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)

    @property
    def device(self) -> str:
        """Where the cells are, as the array API standard asks: "cpu"."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: None = None) -> Tensor:
        """Return the tensor itself: there is one device, and :meth:`to_cupy` leaves it.

        Parameters
        ----------
        device
            "cpu".
        stream
            None: there are no streams on it.

        Returns
        -------
        Tensor

        Raises
        ------
        InvalidValueError
            If another device, or a stream, is asked for.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([1, 0])
        >>> A.to_device(A.device) is A
        True
        """
        if device != "cpu" or stream is not None:
            raise InvalidValueError(f"device={device!r}, stream={stream!r}: tensors are on 'cpu'")
        return self

    def transpose(
        self, *order: int | str | Sequence[int | str] | None, axes: Sequence[int | str] | None = None
    ) -> Tensor:
        """Return the view with its axes in another order.

        Parameters
        ----------
        *order
            For each axis of the result, which of the tensor's it is, by number or name, one by one or as a tuple;
            reversed by default.
        axes
            The same by SciPy's name.

        Returns
        -------
        Tensor

        Raises
        ------
        ShapeError
            If each axis is not named once.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.zeros((2, 3, 4))
        >>> A.transpose().shape, A.transpose(1, 0, 2).shape
        ((4, 3, 2), (3, 2, 4))
        """
        given: Any = axes if axes is not None else order[0] if len(order) == 1 and not np.isscalar(order[0]) else order
        if given is None or (axes is None and not order):
            given = reversed(range(self.ndim))
        named = self._numbers(given if np.iterable(given) and not isinstance(given, str) else (given,))
        wanted = check_permutation(named, self.ndim)
        return self._with(self._view.permute(wanted), lambda whole: whole.permute(wanted), "transpose")

    def reshape(
        self, *shape: int | Sequence[int], order: Literal["C", "F", "A"] = "C", copy: bool | None = None
    ) -> Tensor:
        """Return the cells in another shape of as many cells, in row-major order, lazily.

        Parameters
        ----------
        *shape
            The sizes, one by one or as a tuple; one may be -1, for what is left.
        order
            "F" to take and put the cells in column-major order; "A" is "C".
        copy
            False to refuse what is not the tensor itself; any other result is read-only anyhow.

        Returns
        -------
        Tensor

        Raises
        ------
        ShapeError
            If the number of cells differs.
        InvalidValueError
            If there is no such order, or ``copy`` is False and the shape is another.

        Examples
        --------
        >>> import sparrow as sp
        >>> sp.asarray([[1, 0, 2], [0, 3, 0]]).reshape(3, -1).to_numpy()
        array([[1, 0],
               [2, 0],
               [3, 0]])
        """
        sizes = as_integers(shape[0] if len(shape) == 1 else shape, "shape")
        if order not in ("C", "F", "A"):
            raise InvalidValueError(f"order={order!r} must be 'C', 'F' or 'A'")
        if order == "F":
            return self.transpose().reshape(sizes[::-1], copy=copy).transpose()
        scan = self.__sparrow_scan__()
        own = scan.schema
        if sizes.count(-1) == 1:
            rest = math.prod(n for n in sizes if n != -1)
            if not rest or own.size % rest:
                raise ShapeError(f"cannot reshape {own.shape} of {own.size} cells into {tuple(sizes)}")
            sizes[sizes.index(-1)] = own.size // rest
        wanted = check_shape(tuple(sizes))
        if wanted == own.shape:
            return self
        if copy is not None and not check_flag("copy", copy):
            raise InvalidValueError(f"copy=False: cells of shape {own.shape} in shape {wanted} are no view")
        return self._of(make_reshape(scan, wanted))

    def _with(self, view: View, derive: Callable[[View], View], operation: str) -> Tensor:
        """Return the tensor of a view of the base, which ``derive`` would make of a base of this shape."""
        stype = self._stype
        if stype in COMPRESSED:
            stype = resolve_stype(operation, [stype], infer_view(stype, derive(View.identity(self.shape))))
        live = self._handle is not None and not view.points and view.repeats <= 1
        return Tensor(self._handle if live and self._handle is not None else self._base, view, stype)

    def _index(self, key: Any, mode: Mode) -> Any:
        key = counted_masks(key)
        view = self._view.then(key, mode, self.dims)
        if view.ndim == 0 and not _has_ellipsis(key):
            return engines.evaluate_element(self._base, view)
        return self._with(view, lambda whole: whole.then(key, mode), "indexing")

    # -- computing ------------------------------------------------------------------------------

    def asformat(self, stype: str) -> Tensor:
        """Return the tensor with another storage type, lazily (see :mod:`sparrow.core.storage_types`).

        A tensor that has it is returned as it is. Another shows the entries as they are now and is read-only:
        ``compute()`` gives one to write to.

        Parameters
        ----------
        stype
            "coo", "csr", "csc", "row_sparse" or "dense". The last keeps its fill and stays lazy too: an array is
            made by :meth:`to_numpy`. The compressed ones have fill 0: of a tensor of another fill every cell that
            is not 0 becomes an entry.

        Returns
        -------
        Tensor

        Raises
        ------
        InvalidValueError
            If there is no such storage type.
        ShapeError
            If "csr" or "csc" is asked for and there are not two dimensions, or "row_sparse" and there are fewer.
        TooLargeError
            If cells of a fill that is not 0 would pass the memory limit as entries.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[7, 0, 8], [0, 0, 0], [0, 9, 0]]).asformat("csr")
        >>> A, (A * 2).stype, A.T.stype, (A + 1).stype
        (<Tensor (d0: 3, d1: 3) int64 nnz=3 csr in memory>, 'csr', 'csc', 'dense')
        """
        check_stype(stype, self.ndim)
        if stype == self.stype:
            return self
        if stype in COMPRESSED and self.fill_value != 0:
            return self._of(make_with_fill(self.__sparrow_scan__(), 0, stype))
        return Tensor(self._base, self._view, stype)

    def refill(self, value: Any) -> Tensor:
        """Return the same cells with another fill value, lazily: those of the old one become entries.

        So tensors of different fills can be joined. A tensor that has this fill is returned as it is.

        Parameters
        ----------
        value
            The value that absent cells are to have.

        Returns
        -------
        Tensor

        Raises
        ------
        InvalidValueError
            If it is no number, or none that the type can hold.
        TooLargeError
            If as many entries as there are cells would pass the memory limit.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> A = np.exp(sp.asarray([[0.0, 1.0, 0.0]]))
        >>> A.fill_value, A.nnz, A.refill(0).nnz
        (np.float64(1.0), 1, 3)
        """
        wanted = check_fill(value, self.dtype)
        if is_fill(np.asarray(self.fill_value), wanted):
            return self
        stype = self.stype if self.stype not in COMPRESSED or wanted == 0 else "coo"
        return self._of(make_with_fill(self.__sparrow_scan__(), wanted, stype))

    def explain(self, analyze: bool = False, engine: Engine = "auto") -> str:
        """Return the plan: the steps of an expression, what reaches each scan, files and row groups read and skipped.

        Parameters
        ----------
        analyze
            Run it, and count rows, bytes and time.
        engine
            The engine that would be asked for. Of "duckdb" and "cupy" each step says whether it runs there.

        Returns
        -------
        str

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0.5, 0], [0, -2]])
        >>> print((A * 2).astype("int8").explain(engine="duckdb"))
        map astype int8 (d0: 2, d1: 2) int8
          engine      stream: float64 to int8: what does not fit is the processor's choice; its entries are handed ...
          map multiply (d0: 2, d1: 2) float64
            engine      stream
            scan (d0: 2, d1: 2) float64, of (d0: 2, d1: 2) float64 in memory
              engine      stream
              predicate   none: everything is read
              order       d0, d1
              rows        2 of 2 read, 0 skipped, 32 bytes
            scalar 2
        """
        return engines.explain(self.__sparrow_scan__(), check_flag("analyze", analyze), engine)

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """Return the functions of the array API standard that work on tensors: the module ``sparrow``."""
        namespace = importlib.import_module("sparrow")
        versions = ("2021.12", "2022.12", "2023.12", namespace.__array_api_version__, "2025.12")
        if api_version not in (None, *versions):
            raise InvalidValueError(
                f"api_version={api_version!r}: of the array API standard there are {', '.join(versions)}"
            )
        return namespace

    def __reduce__(self) -> tuple[Any, ...]:
        base = self._base
        if isinstance(self._handle, storage.StoredHandle):
            return _reopen, (self._handle.path, self._handle.current.version, self._view, self._stype)
        if isinstance(base, MemoryRelation):
            names = {dim: found for dim in range(base.schema.ndim) if (found := base.labels(dim)) is not None}
            return _rebuild, (base.schema, base.block, names, self._view, self._stype)
        if isinstance(base, storage.Snapshot):
            return _reopen, (base.path, base.version, self._view, self._stype, True)
        scan = self.__sparrow_scan__()
        return _rebuild, (scan.schema, engines.evaluate(scan), labelled(scan), None, self._stype)


class _Lost(Tensor):
    """A tensor that could not be opened where it was sent: whatever is asked of it raises why."""

    __slots__ = ("_error",)

    def __init__(self, error: StorageError) -> None:
        self._handle = self._source = self._counted = None
        self._error = error

    @property
    def _base(self) -> NoReturn:
        raise self._error


def _reopen(path: str, version: int, view: View, stype: str, pinned: bool = False) -> Tensor:
    """Open a tensor that was pickled.

    A worker of ``multiprocessing`` takes an ``OSError`` in what it is sent for the end of all work: nobody hears of it,
    and its parent waits for ever. So it is raised when the tensor is used.
    """
    from multiprocessing import parent_process

    try:
        handle = storage.reopen(path, version)
    except StorageError as error:
        if parent_process() is None:
            raise
        return _Lost(error)
    return Tensor(handle.current if pinned else handle, view, stype)


def _rebuild(schema: Schema, block: Block, labels: dict[int, pa.Array], view: View | None, stype: str) -> Tensor:
    return Tensor(MemoryHandle(MemoryRelation(schema, block, labels)), view, stype)


class _Indexer:
    """``A.oindex`` and ``A.vindex``."""

    __slots__ = ("_mode", "_tensor")

    def __init__(self, tensor: Tensor, mode: Mode) -> None:
        self._tensor = tensor
        self._mode = mode

    @overload
    def __getitem__(self, key: Part) -> Tensor: ...

    @overload
    def __getitem__(self, key: SupportsIndex | tuple[Any, ...]) -> Any: ...

    def __getitem__(self, key: Part | SupportsIndex | tuple[Any, ...]) -> Any:
        return self._tensor._index(key, self._mode)


def _has_ellipsis(key: Any) -> bool:
    return key is Ellipsis or (isinstance(key, tuple) and any(part is Ellipsis for part in key))
