"""Matrix factorization by alternating least squares (ALS)."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.engines.round_profile import collect_rounds
from sparrow.engines.task_rounds import open_rounds
from sparrow.errors import ConvergenceError, InvalidValueError, TooLargeError, UnsupportedError
from sparrow.models.als_data import Ratings, SparseRatings, load_rows
from sparrow.models.als_files import read_als, write_als
from sparrow.models.als_solvers import SOLVERS, Backend, CPUBackend, Objective, Solver, half_step, solve_rows
from sparrow.models.biases import Biases
from sparrow.models.blas_threads import single_threaded_blas
from sparrow.models.checkpoints import Checkpoints
from sparrow.models.factor_table import DTYPES, FactorTable, Precision, TableStatistics
from sparrow.models.parameters import Parameters
from sparrow.models.ratings import as_ratings, check_matrix, is_fill_nan
from sparrow.models.recommender import Recommender, align_items
from sparrow.models.rendering import ModelSummary
from sparrow.models.serialization import Persistent, params_to_json
from sparrow.models.targets import not_fitted_error
from sparrow.models.topk import Factors, Pattern, can_cache, to_pattern
from sparrow.models.tuning import tuning
from sparrow.plan import Scan
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.validation import check_choice, check_flag, check_integer, check_number
from sparrow.tensor import Tensor, display

__all__ = ["ALS"]

Engine = Literal["auto", "stream", "cupy", "processes", "dask", "ray", "spark"]
ENGINES = ("auto", "stream", "cupy", "processes", "dask", "ray", "spark")


@dataclass(slots=True)
class _Derived:
    """Arrays derived from factors and ratings, kept between calls, not pickled."""

    gramian: NDArray[np.float64] | None = None
    """H'H."""
    directions: NDArray[np.float32] | None = None
    """Normalized factors of items."""
    rated: Pattern | None = None
    """Items that each row has rated."""
    has_read_rows: bool = False
    """True if some rows were read without keeping the pattern."""


class ALS(Parameters, Persistent, Recommender):
    r"""Matrix factorization by alternating least squares.

    For a sparse matrix of ratings S with values y, users by items, finds W (users, d) and H (items, d) that minimize

    .. math::
        \sum_S (y_{ui} - w_u \cdot h_i)^2 + \alpha \sum_{u,i} (w_u \cdot h_i)^2
        + \sum_u \lambda_u |w_u|^2 + \sum_i \lambda_i |h_i|^2,

    where the second sum is over all elements (Mehta et al., ALX, 2021, equation 3; Hu, Koren and Volinsky 2008). An
    epoch solves for all rows of W, then for all rows of H. Both passes read the ratings sorted, as a stored tensor with
    ``orders=[(1, 0)]`` provides them; a missing order is sorted once, on disk if it is large. Ratings that do not fit
    in memory are streamed, with bit-identical results.

    With ``biases`` the model is :math:`\mu + b_u + b_i + w_u \cdot h_i`: :math:`\mu` is the mean rating, and the biases
    of users and items are fitted with the factors, under the same regularization (Koren, Bell and Volinsky 2009). All
    methods include them: they are columns of the factors, whose inner products are the predicted ratings.

    Rows and columns without ratings get zeros; rows of more than a million ratings are solved exactly. Factors are
    determined up to a rotation common to both tables; the fit returns them in the basis that suits its solver.

    Parameters
    ----------
    factors
        Number of factors d.
    regularization
        :math:`\lambda`.
    unobserved_weight
        :math:`\alpha`, the weight of elements without a rating; 0 for explicit ratings.
    frequency_scaling
        :math:`\nu` from 0 to 1: :math:`\lambda_u = \lambda (|S_u| + \alpha n)^\nu` with n items, and likewise for items
        (Rendle et al. 2021). 0 is the ALX paper's form, 1 that of its code. To compare exponents, keep the sum of all
        :math:`\lambda_u` constant.
    epochs
        Number of times both tables are solved for.
    solver
        ``"cg"``: a few steps of conjugate gradients from the previous factors. ``"exact"``: Cholesky factorization, of
        n x n matrices for rows of n < d ratings (Woodbury's identity in the eigenbasis of the Gramian); ill-conditioned
        equations use float64, which is several times slower. ``"subspace"``: Newton's method on blocks of coordinates
        (iALS++, Rendle et al. 2021).
    dtype
        Storage type of the tables: ``"float32"``, or ``"bfloat16"`` or ``"float16"`` in half the memory. Equations are
        solved in float32 or better. ``loss_`` includes only part of the rounding of the tables.
    seed
        Seed of the initial factors.
    cg_steps
        Steps of ``"cg"``.
    block
        Coordinates that ``"subspace"`` solves for at once.
    biases
        Fit a mean and biases; requires explicit ratings, ``unobserved_weight=0``.
    init
        Initial factors: ``"uniform"`` in [0, 0.01), or ``"normal"`` with standard deviation 0.1 / sqrt(d). Positive
        factors improved recall on graphs by 0.03.
    memory_map
        Folder for memory-mapped tables ``user_factors.npy`` and ``item_factors.npy`` in NumPy's format (bfloat16 as
        16-bit words). None keeps them in memory.
    checkpoint
        Folder for a copy of the tables after each half step. A fit with the same data and settings resumes from it,
        bit-identical to an uninterrupted one; ``epochs`` may differ.
    buffer
        Memory for ratings, in bytes or as ``"128MB"``. If they fit, at 16 bytes a rating, they are kept, else streamed.
        By default, what the memory limit leaves beside the tables, and 128 MB when streaming. A row is never split and
        row groups are read whole, so these are the minimum.
    engine
        Backend: ``"stream"`` solves on the CPU, ``"cupy"`` on a GPU (:doc:`/engines`), which holds both tables during
        the fit while ratings are copied in parts; results agree to rounding. ``"processes"``, ``"dask"``, ``"ray"`` and
        ``"spark"`` solve in tasks (:doc:`/howto/cluster`), with bit-identical results; a small fit runs in this
        process. ``"auto"`` is the engine of ``sp.config(engine=)``. :meth:`fold_in` and recommendations run here.

    Attributes
    ----------
    user_factors_, item_factors_
        W and H, shapes (users, d) and (items, d): float32, or float16 if ``dtype`` is. bfloat16 tables are copied to
        float32 on each access. With ``biases``, float32 copies with two more columns: :math:`\mu + b_u` and 1 for
        users, 1 and :math:`b_i` for items, so ``user_factors_ @ item_factors_.T`` are the predicted ratings.
    mean_, user_biases_, item_biases_
        :math:`\mu`, and biases of shapes (users,) and (items,), 0 for rows without ratings; with ``biases`` only.
    loss_
        Objective after each half step, shape (2 * epochs,). With exact solves it never rises, up to rounding.
    rounds_
        Measurements of the rounds of tasks of a fit on a cluster, one dict each: ``work``, ``tasks``, ``seconds``,
        least, median and largest ``task_seconds``, bytes, ``retries`` and ``hosts``. Empty if it ran in this process.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 0, 1, 1, 2, 3], [0, 1, 0, 1, 2, 2]], [1.0] * 6, shape=(4, 3))
    >>> model = sp.models.ALS(factors=2, regularization=0.01, unobserved_weight=0.1, epochs=10, solver="exact").fit(A)
    >>> (model.user_factors_ @ model.item_factors_.T).round(1) + 0.0
    array([[0.9, 0.9, 0. ],
           [0.9, 0.9, 0. ],
           [0. , 0. , 0.9],
           [0. , 0. , 0.9]], dtype=float32)
    """

    def __init__(
        self,
        factors: int = 128,
        regularization: float = 0.2,
        unobserved_weight: float = 1e-3,
        frequency_scaling: float = 0.0,
        epochs: int = 16,
        solver: Solver = "cg",
        dtype: Precision = "float32",
        seed: int = 0,
        *,
        cg_steps: int = 3,
        block: int = 64,
        biases: bool = False,
        init: Literal["uniform", "normal"] = "uniform",
        memory_map: str | os.PathLike[str] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        buffer: int | float | str | None = None,
        engine: Engine = "auto",
    ) -> None:
        # scikit-learn requires parameters to be stored unchanged; fit validates them.
        self.factors = factors
        self.regularization = regularization
        self.unobserved_weight = unobserved_weight
        self.frequency_scaling = frequency_scaling
        self.epochs = epochs
        self.solver: Solver = solver
        self.dtype: Precision = dtype
        self.seed = seed
        self.cg_steps = cg_steps
        self.block = block
        self.biases = biases
        self.init = init
        self.memory_map = memory_map
        self.checkpoint = checkpoint
        self.buffer = buffer
        self.engine: Engine = engine

    def _check_params(self) -> Objective:
        """Validate the parameters and return the objective."""
        for name in ("factors", "cg_steps", "block"):
            check_integer(name, getattr(self, name), 1)
        check_integer("epochs", self.epochs, 0)
        check_integer("seed", self.seed, 0)
        for name in ("regularization", "unobserved_weight"):
            check_number(name, getattr(self, name))
        check_number("frequency_scaling", self.frequency_scaling, 1.0)
        for name, allowed in (("solver", SOLVERS), ("dtype", DTYPES), ("init", ("uniform", "normal")),
                              ("engine", ENGINES)):  # fmt: skip
            check_choice(name, getattr(self, name), allowed)
        for name in ("memory_map", "checkpoint"):
            if not isinstance(getattr(self, name), str | os.PathLike | None):
                raise InvalidValueError(f"{name} must be a folder or None, got {getattr(self, name)!r}")
        check_flag("biases", self.biases)
        if self.biases and self.unobserved_weight != 0:
            raise InvalidValueError(
                f"biases=True requires explicit ratings, unobserved_weight=0, got {self.unobserved_weight:g}: set "
                "it to 0, or biases=False"
            )
        if self.regularization == 0 and self.unobserved_weight == 0:
            raise InvalidValueError(
                "regularization or unobserved_weight must be positive, got 0 for both: rows with few ratings have no "
                "unique solution"
            )
        return Objective(float(self.regularization), float(self.unobserved_weight), float(self.frequency_scaling))

    def _backend(self) -> Backend:
        """Return the CPU or GPU backend.

        Raises
        ------
        MissingDependencyError
            If a GPU is requested without CuPy or a device.
        """
        args = self.solver, int(self.cg_steps), int(self.block)
        device = engines.device_of(engines.engine_for(self.engine))
        if device is None:
            return CPUBackend(*args)
        from sparrow.models.devices import DeviceBackend

        return DeviceBackend(device, *args)

    def fit(self, A: Any, y: None = None) -> ALS:
        """Fit the factors to a matrix of ratings.

        Parameters
        ----------
        A
            Ratings, shape (users, items): a 2-D tensor (stored, in memory or lazy), what :func:`sparrow.asarray`
            accepts, or a pandas frame with users in a named index, or of rows, items and values. 0 is no rating, unless
            the fill value of explicit ratings is NaN: then 0 is a rating, as it is after subtracting a mean. It is read
            once if the ratings fit ``buffer``, else once per half step.
        y
            Ignored; for scikit-learn pipelines.

        Returns
        -------
        ALS
            The fitted model itself.

        Raises
        ------
        InvalidValueError
            If a parameter is invalid, a value is not finite in float32, or the checkpoint belongs to another fit.
        CorruptionError
            If the checkpoint cannot be read.
        ShapeError
            If ``A`` is not a matrix.
        UnsupportedError
            If it is complex, its fill value is not 0, or NaN for explicit ratings, or it is another frame.
        ConvergenceError
            If the factors diverge.
        StorageError
            If a folder cannot be written.
        TooLargeError
            If the tables exceed the memory limit and are not memory-mapped, or exceed the memory of the GPU.
        MissingDependencyError
            If ``engine="cupy"`` and CuPy or a device is missing, or the scheduler of a cluster.
        WorkerError
            If processes of a cluster die again and again, or do not see the scratch folder.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> A = sp.asarray(np.kron(np.eye(5), np.ones((8, 8))))
        >>> model = sp.models.ALS(factors=8, epochs=2).fit(A)
        >>> model.user_factors_.shape, len(model.loss_)
        ((40, 8), 4)
        """
        objective, backend = self._check_params(), self._backend()
        scan = as_ratings(A).__sparrow_scan__()
        check_matrix(scan)
        if is_fill_nan(scan.schema) and self.unobserved_weight != 0:
            raise UnsupportedError(
                "fill value of the ratings must be 0 unless unobserved_weight=0, got nan and "
                f"unobserved_weight={self.unobserved_weight:g}: absent ratings weigh as 0, pass np.nan_to_num(A)"
            )
        with single_threaded_blas(with_scipy=True):
            users, items = self._create_tables(scan.schema.shape)
            table_bytes = 0 if self.memory_map is not None else users.raw.nbytes + items.raw.nbytes
            pinned = Tensor(scan.source, scan.view)
            with (
                collect_rounds() as rounds,
                memory.reserve(table_bytes, "factor tables") as reservation,
                self._open_ratings(backend, scan, pinned.T.__sparrow_scan__(), users.shape[1]) as (ratings, solving),
            ):
                reservation.resize(table_bytes + ratings.nbytes)
                users.chunk_bounds, items.chunk_bounds = ratings.rows.chunk_bounds, ratings.cols.chunk_bounds
                biases = Biases.of_ratings(ratings, users, items) if self.biases else None
                losses = self._run_epochs(ratings, users, items, objective, biases, solving)
                users.chunk_bounds = items.chunk_bounds = None
        self._set_fitted(users, items, biases, pinned, losses, [each.to_dict() for each in rounds])
        return self

    @contextmanager
    def _open_ratings(
        self, backend: Backend, scan: Scan, transposed: Scan, width: int
    ) -> Iterator[tuple[Ratings, Backend]]:
        """Open the ratings for tables of a width, and their backend, for a block."""
        digest = self.checkpoint is not None
        opening = open_rounds(self.engine)
        if opening is not None and isinstance(backend, CPUBackend):
            from sparrow.models.als_cluster_ratings import ClusterRatings
            from sparrow.models.als_rounds import ClusterBackend, has_work_for_tasks

            if has_work_for_tasks(scan, width):
                with opening as rounds:
                    found = ClusterRatings(rounds, scan, transposed, width, digest)
                    yield found, ClusterBackend(rounds, found, backend)
                return
        stream_bytes = tuning().als_stream_bytes
        free = memory.share(1, minimum=stream_bytes, unreserved=tuning().als_process_bytes)
        budget = free if self.buffer is None else settings.parse_bytes(self.buffer, "buffer")
        buffers = stream_bytes if self.buffer is None else budget
        with contextlib.closing(SparseRatings(scan, transposed, width, budget, buffers, digest)) as ratings:
            yield ratings, backend

    def _set_fitted(
        self,
        users: FactorTable,
        items: FactorTable,
        biases: Biases | None,
        training: Tensor,
        losses: list[float],
        rounds: Sequence[dict[str, Any]] = (),
    ) -> None:
        self._users, self._items, self._biases, self._training = users, items, biases, training
        self._derived = _Derived()
        self.loss_ = np.array(losses)
        self.rounds_ = list(rounds)
        self.n_features_in_ = items.shape[0]

    def _summarize(self) -> ModelSummary | None:
        """Return sizes and losses for HTML, None if the model is not fitted."""
        if not self.__sklearn_is_fitted__():
            return None
        dims, width = self._training.dims, self._users.shape[1] - (self._biases is not None)
        sizes = [
            f"{count:,} {dim}" for count, dim in zip((self._users.shape[0], self._items.shape[0]), dims, strict=True)
        ]
        nbytes = self._users.raw.nbytes + self._items.raw.nbytes
        summary = ModelSummary(curves=[("objective", self.loss_.tolist())], steps="half steps")
        summary.facts += [
            ("trained on", " x ".join(sizes)),
            ("factors", f"{width} in {self.dtype}, {display.human_bytes(nbytes)}"),
        ]
        if self._biases is not None:
            summary.facts.append(("mean rating", f"{self.mean_:.6g}"))
        if len(self.loss_):
            summary.facts.append(("loss", f"{self.loss_[-1]:.6g} after {(len(self.loss_) + 1) // 2} epochs"))
        return summary

    def __getstate__(self) -> dict[str, Any]:
        fresh = {"_derived": _Derived()} if self.__sklearn_is_fitted__() else {}
        try:
            return super().__getstate__() | fresh
        except TooLargeError as error:
            raise TooLargeError(
                f"a pickle contains which items each row has rated: {error}; save(path) does not load it"
            ) from None

    def _create_tables(self, shape: tuple[int, ...]) -> tuple[FactorTable, FactorTable]:
        names = ("user_factors.npy", "item_factors.npy")
        width = self.factors + bool(self.biases)
        nbytes = sum(shape) * width * (4 if self.dtype == "float32" else 2)
        if self.memory_map is None:
            remedy = "set memory_map to a folder, or use fewer factors or dtype='bfloat16'"
            memory.check(nbytes, f"tables of {sum(shape)} rows and {self.factors} factors", remedy)
        paths = [None if self.memory_map is None else Path(self.memory_map) / name for name in names]
        users, items = (FactorTable(n, width, self.dtype, path) for n, path in zip(shape, paths, strict=True))
        return users, items

    def _run_epochs(
        self,
        ratings: Ratings,
        users: FactorTable,
        items: FactorTable,
        objective: Objective,
        biases: Biases | None,
        backend: Backend,
    ) -> list[float]:
        """Fill the tables and return the loss after each half step."""
        losses: list[float] = []
        tables: dict[str, NDArray[Any]] = {"0": users.raw, "1": items.raw}
        if biases is not None:
            tables |= {"2": biases.biases[0], "3": biases.biases[1]}
        checkpoints = None
        if self.checkpoint is not None:
            checkpoints = Checkpoints(self.checkpoint, self._identity(ratings))
            losses = [float.fromhex(loss) for loss in checkpoints.load(tables).get("losses", ())]
            if len(losses) > 2 * self.epochs:
                raise InvalidValueError(
                    f"epochs must be at least {(len(losses) + 1) // 2}, the epochs of the checkpoint in "
                    f"{os.fspath(self.checkpoint)!r}, got {self.epochs}: raise it, or pass another folder"
                )
        if not losses:
            users.initialize((self.seed, 0), self.init, np.diff(ratings.rows.indptr) > 0)
            items.initialize((self.seed, 1), self.init, np.diff(ratings.cols.indptr) > 0)
            if biases is not None:
                biases.initialize()
        W, H = backend.load_tables(users, items)
        sides = ((ratings.rows, W, H, ratings.cols), (ratings.cols, H, W, ratings.rows))
        statistics: TableStatistics | None = None

        epoch = len(losses) // 2

        def text() -> str:
            now = f"epoch {epoch} of {self.epochs}"
            return f"{now}, loss {losses[-1]:.6g}" if losses else now

        with progress.bar(text, (2 * self.epochs - len(losses)) * ratings.count, "ratings") as advance:

            def solve(
                which: int, statistics: TableStatistics, offsets: NDArray[np.float32] | None = None
            ) -> tuple[float, TableStatistics]:
                side, solved, fixed, _ = sides[which]
                return half_step(side, fixed, statistics, solved, objective, backend, advance, offsets)

            for step in range(len(losses), 2 * self.epochs):
                epoch = step // 2 + 1
                _, solved, fixed, other = sides[step % 2]
                if statistics is None:
                    counts = np.diff(other.indptr)
                    compute_statistics = (
                        fixed.statistics if biases is None else partial(biases.statistics, 1 - step % 2, fixed)
                    )
                    statistics = compute_statistics(lambda a, b: objective.ridge(counts[a:b], solved.shape[0]))  # noqa: B023
                run_half_step = partial(solve, step % 2)
                loss, statistics = (
                    run_half_step(statistics)
                    if biases is None
                    else biases.solve(step % 2, solved, statistics, run_half_step)
                )
                if not math.isfinite(loss):
                    raise ConvergenceError(self._divergence_message(step))
                losses.append(loss)
                if checkpoints is not None:
                    backend.sync_tables()
                    checkpoints.save(tables, len(losses), {"losses": [loss.hex() for loss in losses]})
        backend.sync_tables()
        return losses

    def _identity(self, ratings: Ratings) -> dict[str, Any]:
        """Return the settings and data that identify the fit in checkpoints."""
        names = [
            "factors", "regularization", "unobserved_weight", "frequency_scaling", "solver", "dtype", "seed", "init",
        ]  # fmt: skip
        names += {"cg": ["cg_steps"], "subspace": ["block"], "exact": []}[self.solver]
        given = {name: getattr(self, name) for name in names}
        if self.biases:
            given["biases"] = True
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
        return {**plain, "data": [ratings.rows.rows, ratings.cols.rows, ratings.count, ratings.digest]}

    def _divergence_message(self, step: int) -> str:
        problem = f"the {('user', 'item')[step % 2]} factors of epoch {step // 2 + 1} are not finite"
        if self.dtype == "float16":
            return f"{problem}: float16 overflows at 65504; use dtype='bfloat16' or 'float32', or raise regularization"
        return (
            f"{problem}: raise regularization (now {self.regularization:g}), lower unobserved_weight (now "
            f"{self.unobserved_weight:g}) or scale the values down"
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_items")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags(sparse=True))

    def _check_fitted(self) -> None:
        """Raise ``UnsupportedError`` unless the model is fitted."""
        if not self.__sklearn_is_fitted__():
            raise not_fitted_error("model must be fitted: call fit(A) first")

    def _factors(self) -> tuple[Factors, Factors]:
        self._check_fitted()
        if self._biases is None:
            return self._users, self._items
        return self._biases.factors()

    def _candidates(self) -> Factors:
        return self._factors()[1] if self._biases is None else self._biases.candidates()

    def _directions(self) -> Factors:
        """Return the normalized factors of items, kept for later calls if they are small."""
        self._check_fitted()
        if self._derived.directions is not None:
            return self._derived.directions
        found = super()._directions()
        if can_cache(found.shape[0] * found.shape[1]):
            self._derived.directions = found[:]
            return self._derived.directions
        return found

    def _read_rated(self, rows: NDArray[np.int64]) -> Pattern:
        """Return the items that rows have rated.

        A small pattern is kept from the second call on: the first may be the only one.
        """
        if (
            self._derived.rated is None
            and self._derived.has_read_rows
            and can_cache(self._training.nnz, self._users.shape[0])
        ):
            self._derived.rated = to_pattern(self._training)
        if self._derived.rated is not None:
            return self._derived.rated.take(rows)
        self._derived.has_read_rows = True
        return super()._read_rated(rows)

    @property
    def _similarity_columns(self) -> slice:  # type: ignore[override]
        return slice(None) if self._biases is None else slice(-2)

    @property
    def user_factors_(self) -> NDArray[Any]:
        """W, shape (users, d), with two more columns if there are biases."""
        self._check_fitted()
        return self._users.to_numpy() if self._biases is None else self._factors()[0][:]

    @property
    def item_factors_(self) -> NDArray[Any]:
        """H, shape (items, d), with two more columns if there are biases."""
        self._check_fitted()
        return self._items.to_numpy() if self._biases is None else self._factors()[1][:]

    def _require_biases(self) -> Biases:
        self._check_fitted()
        if self._biases is None:
            raise AttributeError("model was fitted without biases: use ALS(unobserved_weight=0, biases=True)")
        return self._biases

    @property
    def mean_(self) -> float:
        """Mean rating, of a model with biases."""
        return self._require_biases().mean

    @property
    def user_biases_(self) -> NDArray[np.float32]:
        """Biases of users, shape (users,), of a model with biases."""
        return self._require_biases().biases[0]

    @property
    def item_biases_(self) -> NDArray[np.float32]:
        """Biases of items, shape (items,), of a model with biases."""
        return self._require_biases().biases[1]

    def fold_in(self, rows: Any) -> NDArray[np.float32]:
        """Return the factors of new users: exact solutions in float64.

        Parameters
        ----------
        rows
            Ratings of new users, shape (m, items), as in :meth:`fit`. They are loaded into memory. Items are aligned by
            label if both matrices have labels; unknown items are ignored.

        Returns
        -------
        numpy.ndarray
            Shape (m, d), float32, zeros for a row without ratings. With ``biases``, rows are like those of
            ``user_factors_``.

        Raises
        ------
        ShapeError
            If the number of columns differs from the fitted matrix.
        UnsupportedError
            If the model is not fitted, or the rows are complex or their fill value is neither 0 nor NaN.
        InvalidValueError
            If a value is not finite in float32.
        TooLargeError
            If the ratings exceed the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 0, 1, 2], [0, 1, 1, 2]], [1.0] * 4, shape=(3, 3))
        >>> model = sp.models.ALS(factors=2, regularization=0.1, unobserved_weight=0.1, epochs=5).fit(A)
        >>> model.fold_in(A[:1]).shape
        (1, 2)
        """
        self._check_fitted()
        objective = self._check_params()
        given = as_ratings(rows)
        scan = (align_items(given, self._training) if given.ndim == 2 else given).__sparrow_scan__()
        check_matrix(scan, self._items.shape[0])
        with single_threaded_blas(with_scipy=True):
            if self._derived.gramian is None:
                self._derived.gramian = self._items.statistics(lambda a, b: np.zeros(b - a), precise=True).gramian
            side = load_rows(scan, self._items.shape[1])
            offsets = None if self._biases is None else self._biases.offsets(0)
            result = solve_rows(side, self._items, self._derived.gramian, objective, offsets)
        return result if self._biases is None else self._biases.append_bias_columns(result)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the model as a bundle of tensors, in one atomic step.

        :func:`sparrow.models.load` opens it. It has the factors, the biases, the labels and which items each row has
        rated, so that the training data is not needed to recommend.

        Parameters
        ----------
        path
            New folder.
        overwrite
            Replace an existing model.

        Raises
        ------
        ExistsError
            If ``path`` exists and ``overwrite`` is False.
        UnsupportedError
            If the model is not fitted.
        NotFoundError
            If the training data is gone.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 0, 1, 2], [0, 1, 1, 2]], [1.0] * 4, dims=["user", "film"])
        >>> sp.models.ALS(factors=2, unobserved_weight=0.1).fit(A).save("films.sparrow")
        >>> sp.open("films.sparrow")
        <Bundle films.sparrow: user_factors, item_factors, history>
        >>> sp.models.load("films.sparrow").recommend([1], k=1)[0]
        array([[0]])
        """
        self._check_fitted()
        metadata = {"class": "ALS", "parameters": params_to_json(self.get_params()), "loss": self.loss_.tolist()}
        write_als(path, overwrite, (self._users, self._items), self._biases, self._training, metadata)

    def _restore(
        self, bundle: Mapping[str, Tensor], metadata: Mapping[str, Any], memory_map: str | os.PathLike[str] | None
    ) -> None:
        """Become the model that was saved."""
        self.memory_map = memory_map
        saved = read_als(bundle, metadata, self.memory_map)
        self._set_fitted(*saved.tables, saved.biases, saved.history, metadata["loss"])
