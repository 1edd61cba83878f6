"""Tensor, the public class: attributes, indexing, views and pickling.

Operators and reductions, writing, storage and conversions are in its base classes.
"""

from __future__ import annotations

import importlib
import itertools
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
from sparrow.engines import EngineName
from sparrow.errors import CorruptionError, InvalidValueError, ShapeError, StorageError, UnsupportedError
from sparrow.interop.conversion import check_fill
from sparrow.kernels.coo import Block
from sparrow.plan import Node, Scan, axis_labels, make_reshape, make_with_fill
from sparrow.relations.memory import MemoryHandle, MemoryRelation
from sparrow.relations.protocol import count_elements
from sparrow.runtime.validation import check_flag, check_integer
from sparrow.tensor import display, preview
from sparrow.tensor import spy as spy_plot
from sparrow.tensor.array_methods import ArrayMethods
from sparrow.tensor.exports import ExportMethods
from sparrow.tensor.matching import resolve_key
from sparrow.tensor.products import LinearOperatorMethods
from sparrow.tensor.storage import StorageMethods
from sparrow.tensor.summaries import SummaryMethods
from sparrow.tensor.tuning import tuning

__all__ = ["Tensor"]

Part: TypeAlias = "slice | EllipsisType | list[Any] | NDArray[Any] | Tensor | None"
"""Index that gives a tensor, whatever the number of dimensions."""


class Tensor(ArrayMethods, LinearOperatorMethods, ExportMethods, SummaryMethods, StorageMethods):
    """Sparse array: a view of stored elements, or of an expression.

    Created by :func:`sparrow.open`, :func:`sparrow.from_coords` and :func:`sparrow.asarray`, and by indexing. Indexing
    is NumPy's and lazy: only a single element is read at once, and a sparse mask is evaluated.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 1, 2], [1, 2, 0]], [2.0, 3.0, 1.0], shape=(3, 4))
    >>> A
    <Tensor (d0: 3, d1: 4) float64 nnz=3 coo in memory>
    density 25 %
    d0 / d1  0  1  2  3
          0  ·  2  ·  ·
          1  ·  ·  3  ·
          2  1  ·  ·  ·
    >>> A[1:, 2].to_numpy()
    array([3., 0.])
    >>> A @ [1, 1, 1, 1]
    array([2., 3., 1.])
    """

    __slots__ = ()

    # -- attributes -----------------------------------------------------------------------------

    @property
    def stype(self) -> str:
        """Storage type: "coo", "csr", "csc", "row_sparse" or "dense"."""
        return self._schema.stype

    @property
    def version(self) -> int | None:
        """Version of a stored tensor, None in memory."""
        base = self._base
        return None if isinstance(base, Node) else base.version

    @property
    def nbytes(self) -> int:
        """Bytes of the data files of the base, or of its arrays in memory."""
        base = self._base
        if not isinstance(base, Node):
            return base.nbytes
        schema = base.schema
        return schema.element_bytes() * engines.count_nnz(Scan(base, View.identity(schema.shape), schema))

    @property
    def path(self) -> str | None:
        """Path of a stored tensor, None in memory."""
        return self._handle.path if self._handle is not None else None

    @property
    def nnz(self) -> int:
        """Number of elements that differ from the fill value.

        A view is counted once per version.

        Raises
        ------
        CorruptionError
            If another tool wrote to the folder.
        """
        known = self._known_nnz()
        if known is None:
            scan = self.__sparrow_scan__()
            known = engines.count_nnz(scan)
            self._cached_nnz = (scan.source.token, known)
        return known

    def _known_nnz(self) -> int | None:
        """Return the number of elements if it is known without a scan, else None."""
        base = self._base
        try:
            view = self._fit_view(base.schema)[0]
            if view.is_identity or view.is_permutation:
                return base.known_nnz if isinstance(base, Node) else count_elements(base)
        except (ShapeError, CorruptionError):
            return None
        if view.size == 0:
            return 0
        if self._cached_nnz is not None and self._cached_nnz[0] == base.token:
            return self._cached_nnz[1]
        return None

    @property
    def density(self) -> float:
        """Share of elements that differ from the fill value; NaN if empty."""
        return self.nnz / self.size if self.size else math.nan

    def __len__(self) -> int:
        if not self.ndim:
            raise UnsupportedError("len() of a tensor without dimensions: A.size is 1")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise UnsupportedError("iteration over a tensor without dimensions: A.item() is its element")
        length = len(self)
        return _iter_vector(self.__sparrow_scan__()) if self.ndim == 1 else (self[k] for k in range(length))

    def __reversed__(self) -> Iterator[Any]:
        if not self.ndim:
            raise UnsupportedError("iteration over a tensor without dimensions: A.item() is its element")
        return iter(self[::-1])

    def __bool__(self) -> bool:
        if self.size != 1:
            raise InvalidValueError(
                f"the truth value of a tensor of shape {self.shape} is ambiguous: use any(), all() or nnz"
            )
        return bool(self.to_numpy().reshape(-1)[0])

    def __complex__(self) -> complex:
        return complex(self._only_element())

    def __float__(self) -> float:
        return float(self._only_element())

    def __int__(self) -> int:
        return int(self._only_element())

    def _only_element(self) -> Any:
        """Return the single element as a Python number."""
        if self.size != 1:
            raise UnsupportedError(
                f"a tensor of shape {self.shape} is not a number: take one element by its coordinates, or sum() it"
            )
        return self.item()

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in "iu":
            raise UnsupportedError(
                f"an index must be an integer scalar, got a tensor of shape {self.shape} and dtype {self.dtype}"
            )
        return int(self.item())

    def __format__(self, format_spec: str) -> str:
        if format_spec and self.ndim:
            raise UnsupportedError(
                f"format {format_spec!r} requires a single element, got a tensor of shape {self.shape}"
            )
        return format(self.item(), format_spec) if format_spec else repr(self)

    def __repr__(self) -> str:
        """Return a line of facts, then the first and last elements.

        Reads two row groups at most. Expressions are not computed.
        """
        if self._is_lazy:
            return self._head()
        shown, problem = self._read_preview(tuning().repr_rows, False)
        return preview.compose_text(self._head(), self._known_nnz(), shown, problem)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print to IPython, in one line if a list or the like contains the tensor."""
        printer.text(self._head() if len(printer.stack) > 1 else repr(self))

    def _repr_html_(self) -> str:
        """Return facts, elements and a picture; reads 16 row groups at most."""
        parts: Sequence[str] = ()
        notes: Sequence[tuple[str, str]] = ()
        plan = nbytes = None
        if self._is_lazy:
            node: Any = self._source
            plan = node.label() or type(node).__name__.lower()
        else:
            shown, problem = self._read_preview(tuning().html_rows, True)
            parts, notes = preview.compose_html(shown) if shown is not None else ((), [("elements", problem)])
            nbytes = self.nbytes if self._view_or_none() is not None else None
        return display.html(
            self.shape, self.dims, self.dtype, self._known_nnz(), self.stype, self.path, self.version, nbytes,
            self.fill_value, self._is_lazy, self._labelled_dims(), plan, notes, parts,
        )  # fmt: skip

    def _head(self) -> str:
        """Return the first line of the representation."""
        return display.one_line(
            self.shape, self.dims, self.dtype, self._known_nnz(), self.stype, self.path, self.version, self._is_lazy
        )

    def _read_preview(self, rows: int, with_picture: bool) -> tuple[preview.Preview | None, str]:
        """Read elements for a representation; return them, or the reason of failure."""
        try:
            scan = self.__sparrow_scan__()
            shown = preview.read_preview(scan, rows, with_picture)
        except Exception as error:  # noqa: BLE001 whatever is damaged or gone, the facts are shown
            return None, f"{error}".partition("\n")[0] or type(error).__name__
        if shown.found.is_complete and not scan.view.is_identity:
            self._cached_nnz = (scan.source.token, shown.found.count)
        return shown, ""

    def _view_or_none(self) -> View | None:
        """Return the view if it shows the whole base, else None."""
        try:
            view = self._view
        except ShapeError:
            return None
        return view if view.is_permutation else None

    def _labelled_dims(self) -> list[str]:
        try:
            return [self.dims[axis] for axis in sorted(axis_labels(self.__sparrow_scan__()))]
        except ShapeError:
            return []

    def _density(self, axes: tuple[int, int], bins: int, sample: bool) -> engines.DensityMap:
        flat = self if self.ndim > 1 else self[None]
        return engines.density(flat.__sparrow_scan__(), axes if self.ndim > 1 else (0, 1), bins, sample)

    def spy(self, axes: tuple[int, int] = (0, -1), bins: int = 400, ax: Any = None, sample: bool = False) -> Any:
        """Plot the positions of stored elements as a density map. Requires Matplotlib.

        One scan counts them; axes other than the two are summed.

        Parameters
        ----------
        axes
            Vertical and horizontal axis.
        bins
            Number of bins along each axis.
        ax
            Matplotlib axes to draw into; new ones by default.
        sample
            Read at most 96 row groups, evenly spaced, and estimate the rest.

        Returns
        -------
        matplotlib.axes.Axes
            A notebook renders new ones as a picture.

        Raises
        ------
        MissingDependencyError
            If Matplotlib is not installed.
        ShapeError
            If there are no such axes.

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
        title = f"{self.nnz:,} of {display.human_count(self.size)} elements stored"
        return spy_plot.draw(found, names, title, ax)

    # -- views ----------------------------------------------------------------------------------

    @overload
    def __getitem__(self, key: Part) -> Tensor: ...

    @overload
    def __getitem__(self, key: SupportsIndex | tuple[Any, ...]) -> Any: ...

    def __getitem__(self, key: Part | SupportsIndex | tuple[Any, ...]) -> Any:
        """Return a view, by NumPy's indexing rules; a single element is read at once.

        Masks that are tensors select by label where they and the axis have labels.
        """
        return self._index(key, "paired")

    @property
    def oindex(self) -> _Indexer:
        """Orthogonal indexing: ``A.oindex[[0, 2], [1, 3]]`` has shape (2, 2)."""
        return _Indexer(self, "orthogonal")

    @property
    def vindex(self) -> _Indexer:
        """Pointwise indexing: lists pair up, and their axes come first."""
        return _Indexer(self, "pointwise")

    @property
    def T(self) -> Tensor:
        """View with the axes reversed."""
        return self.transpose()

    @property
    def mT(self) -> Tensor:
        """View with the last two axes exchanged."""
        if self.ndim < 2:
            raise ShapeError(f"mT requires at least 2 dimensions, got shape {self.shape}")
        return self.transpose(*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)

    @property
    def device(self) -> str:
        """Device of the array API standard, always "cpu"."""
        return "cpu"

    def to_device(self, device: str, /, *, stream: None = None) -> Tensor:
        """Return the tensor itself: "cpu" is the only device.

        See :meth:`to_cupy` for a GPU.

        Parameters
        ----------
        device
            "cpu".
        stream
            None.

        Returns
        -------
        Tensor

        Raises
        ------
        InvalidValueError
            If another device, or a stream, is passed.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([1, 0])
        >>> A.to_device(A.device) is A
        True
        """
        if device != "cpu" or stream is not None:
            raise InvalidValueError(f"device must be 'cpu' and stream None, got device={device!r}, stream={stream!r}")
        return self

    def transpose(
        self, *order: int | str | Sequence[int | str] | None, axes: Sequence[int | str] | None = None
    ) -> Tensor:
        """Return a view with the axes in another order.

        Parameters
        ----------
        *order
            Axes of the tensor in the order of the result, by number or name, as arguments or as a tuple; reversed by
            default.
        axes
            The same, under SciPy's name.

        Returns
        -------
        Tensor

        Raises
        ------
        ShapeError
            If the order does not name each axis once.

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
        named = self._axis_numbers(given if np.iterable(given) and not isinstance(given, str) else (given,))
        wanted = check_permutation(named, self.ndim)
        return self._derive_view(self._view.permute(wanted), lambda base: base.permute(wanted), "transpose")

    def reshape(
        self, *shape: int | Sequence[int], order: Literal["C", "F", "A"] = "C", copy: bool | None = None
    ) -> Tensor:
        """Return the elements in another shape of the same size, lazily.

        Parameters
        ----------
        *shape
            Sizes, as arguments or as a tuple; one may be -1 and is inferred.
        order
            "C" for row-major, "F" for column-major order; "A" is "C".
        copy
            False to raise unless the shape is unchanged. Results are read-only in any case.

        Returns
        -------
        Tensor

        Raises
        ------
        ShapeError
            If the size differs.
        InvalidValueError
            If ``order`` is unknown, or ``copy`` is False and the shape changes.

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
            raise InvalidValueError(f"order must be 'C', 'F' or 'A', got {order!r}")
        if order == "F":
            return self.transpose().reshape(sizes[::-1], copy=copy).transpose()
        scan = self.__sparrow_scan__()
        own = scan.schema
        if sizes.count(-1) == 1:
            rest = math.prod(n for n in sizes if n != -1)
            if not rest or own.size % rest:
                raise ShapeError(f"cannot reshape {own.shape} of size {own.size} into {tuple(sizes)}")
            sizes[sizes.index(-1)] = own.size // rest
        wanted = check_shape(tuple(sizes))
        if wanted == own.shape:
            return self
        if copy is not None and not check_flag("copy", copy):
            raise InvalidValueError(f"copy=False: a reshape from {own.shape} to {wanted} is not a view")
        return self._from_node(make_reshape(scan, wanted))

    def _derive_view(self, view: View, derive: Callable[[View], View], operation: str) -> Tensor:
        """Return the tensor of a view of the base.

        ``derive`` makes the same view of a base of this shape.
        """
        stype = self._stype
        if stype in COMPRESSED:
            stype = resolve_stype(operation, [stype], infer_view(stype, derive(View.identity(self.shape))))
        live = self._handle is not None and not view.points and view.repeats <= 1
        return Tensor(self._handle if live and self._handle is not None else self._base, view, stype)

    def _index(self, key: Any, mode: Mode) -> Any:
        key = resolve_key(key, self, mode)
        view = self._view.then(key, mode, self.dims)
        if view.ndim == 0 and not _has_ellipsis(key):
            return engines.evaluate_element(self._base, view)
        return self._derive_view(view, lambda base: base.then(key, mode), "indexing")

    # -- storage type, fill value, plan ---------------------------------------------------------

    def asformat(self, stype: str) -> Tensor:
        """Return the tensor with another storage type, lazily.

        A tensor that has the storage type is returned as it is; otherwise the result shows the current elements and is
        read-only: ``compute()`` makes a writable one. See :mod:`sparrow.core.storage_types`.

        Parameters
        ----------
        stype
            "coo", "csr", "csc", "row_sparse" or "dense". "dense" keeps the fill value and stays lazy; :meth:`to_numpy`
            makes an array. The compressed types have fill 0, so that for another fill value every non-zero element is
            stored.

        Returns
        -------
        Tensor

        Raises
        ------
        InvalidValueError
            If the storage type is unknown.
        ShapeError
            If "csr" or "csc" is asked of other than two dimensions, or "row_sparse" of fewer.
        TooLargeError
            If the elements of a non-zero fill would exceed the memory limit once stored.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[7, 0, 8], [0, 0, 0], [0, 9, 0]]).asformat("csr")
        >>> A.stype, (A * 2).stype, A.T.stype, (A + 1).stype
        ('csr', 'csr', 'csc', 'dense')
        """
        check_stype(stype, self.ndim)
        if stype == self.stype:
            return self
        if stype in COMPRESSED and self.fill_value != 0:
            return self._from_node(make_with_fill(self.__sparrow_scan__(), 0, stype))
        return Tensor(self._base, self._view, stype)

    def refill(self, value: Any) -> Tensor:
        """Return the same elements with another fill value, lazily.

        Elements equal to the old fill value are stored.

        Use it to concatenate tensors of different fill values. A tensor that has the fill value is returned as it is.

        Parameters
        ----------
        value
            New value of absent elements.

        Returns
        -------
        Tensor

        Raises
        ------
        InvalidValueError
            If it is not a number that the dtype can hold.
        TooLargeError
            If storing all elements would exceed the memory limit.

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
        return self._from_node(make_with_fill(self.__sparrow_scan__(), wanted, stype))

    def explain(self, analyze: bool = False, engine: EngineName = "auto") -> engines.Plan:
        """Return the query plan: operators, predicates, files and row groups read.

        Parameters
        ----------
        analyze
            Run it, and measure rows, bytes and seconds of each operator.
        engine
            Engine to plan for; each operator shows whether it runs there.

        Returns
        -------
        Plan
            A ``str`` that renders as a tree in a notebook; ``plot()`` draws it, ``to_json()`` is for programs.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.asarray([[0.5, 0], [0, -2]])
        >>> print((A * 2).astype("int8").explain(engine="duckdb"))
        map astype int8 (d0: 2, d1: 2) int8
          engine      stream, fallback: float64 to int8: overflow is undefined
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
        """Return the array API namespace of tensors, the module ``sparrow``."""
        namespace = importlib.import_module("sparrow")
        versions = ("2021.12", "2022.12", "2023.12", namespace.__array_api_version__, "2025.12")
        if api_version not in (None, *versions):
            raise InvalidValueError(f"api_version must be one of {', '.join(versions)}, got {api_version!r}")
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
        return _rebuild_lazy, (engines.PortablePlan([self.__sparrow_scan__()]), self._stype)


class _UnopenedTensor(Tensor):
    """Tensor that failed to open in a worker: any use raises the error."""

    __slots__ = ("_error",)

    def __init__(self, error: StorageError) -> None:
        self._handle = self._source = self._cached_nnz = None
        self._error = error

    @property
    def _base(self) -> NoReturn:
        raise self._error


def _reopen(path: str, version: int, view: View, stype: str, pinned: bool = False) -> Tensor:
    """Open a tensor that was pickled.

    A worker of ``multiprocessing`` treats an ``OSError`` while unpickling as the end of its input, and its parent waits
    forever. There the error is raised when the tensor is used.
    """
    from multiprocessing import parent_process

    try:
        handle = storage.reopen(path, version)
    except StorageError as error:
        if parent_process() is None:
            raise
        return _UnopenedTensor(error)
    return Tensor(handle.current if pinned else handle, view, stype)


def _rebuild(schema: Schema, block: Block, labels: dict[int, pa.Array], view: View | None, stype: str) -> Tensor:
    """Return a tensor that was pickled, after checking its arrays.

    Raises
    ------
    ShapeError, IndexingError, InvalidValueError
        If they contradict the schema: the pickle is damaged.
    """
    relation = engines.MemorySource(schema, block.coords, block.values, labels).open()
    if view is not None:
        view.check(schema.shape)
    return Tensor(MemoryHandle(relation), view, stype)


def _rebuild_lazy(plan: engines.PortablePlan, stype: str) -> Tensor:
    """Return a lazy tensor that was pickled; see :func:`_reopen` for errors.

    Raises
    ------
    StorageError
        If a tensor that it reads cannot be opened, except in a worker.
    """
    from multiprocessing import parent_process

    try:
        (scan,) = plan.scans
    except StorageError as error:
        if parent_process() is None:
            raise
        return _UnopenedTensor(error)
    return Tensor(scan.source, scan.view, stype)


def _iter_vector(scan: Scan) -> Iterator[Any]:
    """Yield the elements of a vector, which is evaluated once, block by block."""
    fill, start = scan.schema.fill_value, 0
    for block in engines.iter_sorted_blocks(scan):
        for at, value in zip(block.coords[0].tolist(), block.values, strict=True):
            yield from itertools.repeat(fill, at - start)
            yield value
            start = at + 1
    yield from itertools.repeat(fill, scan.schema.shape[0] - start)


class _Indexer:
    """Implementation of ``A.oindex`` and ``A.vindex``."""

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
