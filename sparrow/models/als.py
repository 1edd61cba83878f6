"""Alternating least squares for implicit and explicit feedback."""

from __future__ import annotations

import math
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparrow import engines
from sparrow.engines.cupy import CuPy
from sparrow.errors import ConvergenceError, InvalidValueError, UnsupportedError
from sparrow.interop.conversion import from_object
from sparrow.models.als_data import Links, check_matrix, whole_side
from sparrow.models.biases import Biases
from sparrow.models.checkpoints import Checkpoints
from sparrow.models.parameters import Parameters
from sparrow.models.ranking import Factors
from sparrow.models.recommending import Recommender, with_items_of
from sparrow.models.solvers import SOLVERS, Equations, Place, Processor, Solver, half_step, solve_rows
from sparrow.models.tables import DTYPES, FactorTable, Precision, Survey
from sparrow.relations.base import MemoryRelation
from sparrow.runtime import memory, progress, settings
from sparrow.runtime.validation import check_choice, check_flag, check_integer, check_number
from sparrow.tensor import Tensor

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["ALS"]

_STREAMED = 128_000_000
"""Bytes of buffers for links that are read anew in every pass."""
_OTHER = 300_000_000
"""Bytes of a process that are neither tables nor links."""


class ALS(Parameters, Recommender):
    r"""Matrix factorisation by alternating least squares.

    For a matrix of links S with values y (users by items), finds W (users, d) and H (items, d) that minimise

    .. math::
        \sum_S (y_{ui} - w_u \cdot h_i)^2 + \alpha \sum_{u,i} (w_u \cdot h_i)^2
        + \sum_u \lambda_u |w_u|^2 + \sum_i \lambda_i |h_i|^2,

    the second sum over all cells (Mehta et al., ALX, 2021, equation 3; Hu, Koren and Volinsky 2008). An epoch solves
    for all rows of W, then for all rows of H. Both passes read the links sorted, as a stored tensor with
    ``orders=[(1, 0)]`` gives them; a matrix that lacks an order is sorted once, on disk where it is large. Links
    that do not fit in memory are streamed, with the same result to the bit.

    With ``biases`` ratings are :math:`\mu + b_u + b_i + w_u \cdot h_i`: :math:`\mu` is the mean of all entries, and the
    biases of users and items are solved for with the factors, under the same regularisation (Koren, Bell and Volinsky
    2009). Everything that the model offers knows them: they are columns of the factors, whose inner products
    are the ratings.

    Rows and columns without links get zeros. Factors are determined up to a rotation common to both tables, and the
    fit makes use of that: it leaves them in the basis that suits its solvers.

    Parameters
    ----------
    factors
        d, the number of factors.
    regularization
        :math:`\lambda`.
    unobserved_weight
        :math:`\alpha`, the weight of cells without a link; 0 for explicit ratings.
    frequency_scaling
        :math:`\nu` from 0 to 1: :math:`\lambda_u = \lambda (|S_u| + \alpha n)^\nu` with n the number of items, and
        for items likewise (Rendle et al. 2021). 0 is the paper's form; 1 that of its released code. To compare
        different exponents keep the sum of all :math:`\lambda_u` the same.
    epochs
        How many times both tables are solved for.
    solver
        ``"cg"``: some steps of conjugate gradients from the factors before. ``"exact"``: Cholesky factors, of n x n
        matrices for rows of n links and fewer than d (Woodbury's identity in the eigenbasis of the Gramian); in
        float64 where the equations are badly conditioned, which is several times slower. ``"subspace"``: Newton's
        method on some coordinates after the other (iALS++, Rendle et al. 2021).
    dtype
        How the tables are kept: ``"float32"``, or ``"bfloat16"`` or ``"float16"`` in half the memory. Equations are
        always solved in float32 or better. What the tables lose by rounding ``loss_`` sees in part only.
    seed
        The start is drawn from it.
    cg_steps
        Steps of ``"cg"``.
    block
        Coordinates that ``"subspace"`` solves for at once.
    biases
        Whether there are a mean and biases: for explicit ratings, ``unobserved_weight=0``.
    init
        The start: ``"uniform"`` in [0, 0.01), or ``"normal"`` with a standard deviation of 0.1 / sqrt(d). On graphs
        the positive one was better by 0.03 in recall.
    memory_map
        A folder for the tables: ``user_factors.npy`` and ``item_factors.npy``, memory-mapped, in NumPy's format
        (bfloat16 as its 16-bit words). None keeps them in memory.
    checkpoint
        A folder for a copy of the tables after each half step. A fit of the same data with the same settings goes on
        from there, and gives the same bits as one that was never cut short; ``epochs`` may be another number.
    buffer
        Bytes that links may take in memory, such as ``"128MB"``. If they fit, at 16 bytes a link, they are kept, else
        streamed. By default what the memory limit leaves beside the tables, and 128 MB on the way when streamed.
        A row is never cut, and row groups are read whole, so these are the least.
    engine
        Who solves: ``"stream"`` the processor, ``"cupy"`` a GPU (:doc:`/engines`), on which both tables stay for
        the whole fit while links go there part by part; ``"auto"`` the GPU where ``sp.config(engine="cupy")`` says so.
        What is found agrees to rounding. :meth:`fold_in` and recommendations are always the processor's.

    Attributes
    ----------
    user_factors, item_factors
        W and H, shapes (users, d) and (items, d): float32, or float16 if ``dtype`` says so. bfloat16 tables are
        copied to float32 each time. With ``biases`` they are copies in float32 of two columns more, of users
        :math:`\mu + b_u` and 1, of items 1 and :math:`b_i`, so that ``user_factors @ item_factors.T`` are the ratings.
    mean_, user_biases_, item_biases_
        :math:`\mu`, and the biases, shapes (users,) and (items,), 0 where nothing was rated; with ``biases`` only.
    loss_
        The objective after each half step, shape (2 * epochs,). With exact solves it never rises, but for rounding.

    Examples
    --------
    >>> import sparrow as sp
    >>> A = sp.from_coords([[0, 0, 1, 1, 2, 3], [0, 1, 0, 1, 2, 2]], [1.0] * 6, shape=(4, 3))
    >>> model = sp.models.ALS(factors=2, regularization=0.01, unobserved_weight=0.1, epochs=10, solver="exact").fit(A)
    >>> (model.user_factors @ model.item_factors.T).round(1) + 0.0
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
        engine: Literal["auto", "stream", "cupy"] = "auto",
    ) -> None:
        # As scikit-learn wants it: kept as given, checked by fit.
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
        self.engine: Literal["auto", "stream", "cupy"] = engine

    # -- settings -------------------------------------------------------------------------------

    def _checked(self) -> Equations:
        """Return the equations of the settings.

        Raises
        ------
        InvalidValueError
            If a setting is outside what it may be.
        """
        for name in ("factors", "cg_steps", "block"):
            check_integer(name, getattr(self, name), 1)
        check_integer("epochs", self.epochs, 0)
        check_integer("seed", self.seed, 0)
        for name in ("regularization", "unobserved_weight"):
            check_number(name, getattr(self, name))
        check_number("frequency_scaling", self.frequency_scaling, 1.0)
        for name, allowed in (("solver", SOLVERS), ("dtype", DTYPES), ("init", ("uniform", "normal")),
                              ("engine", ("auto", "stream", "cupy"))):  # fmt: skip
            check_choice(name, getattr(self, name), allowed)
        for name in ("memory_map", "checkpoint"):
            if not isinstance(getattr(self, name), str | os.PathLike | None):
                raise InvalidValueError(f"{name}={getattr(self, name)!r}: name a folder, or None")
        check_flag("biases", self.biases)
        if self.biases and self.unobserved_weight != 0:
            raise InvalidValueError(
                f"biases=True is for explicit ratings: unobserved_weight={self.unobserved_weight:g} has absent cells "
                "count as 0. Set unobserved_weight=0, or do without biases"
            )
        if self.regularization == 0 and self.unobserved_weight == 0:
            raise InvalidValueError(
                "regularization=0 with unobserved_weight=0: rows with few links have no unique solution, raise one"
            )
        return Equations(float(self.regularization), float(self.unobserved_weight), float(self.frequency_scaling))

    def _place(self) -> Place:
        """Return what solves half steps.

        Raises
        ------
        MissingDependencyError
            If that is a GPU, and there is no CuPy or no device.
        """
        how = self.solver, int(self.cg_steps), int(self.block)
        engine = engines.engine_for(self.engine)
        if not isinstance(engine, CuPy):
            return Processor(*how)
        from sparrow.models.devices import OnDevice

        return OnDevice(engine.device(), *how)

    # -- fitting --------------------------------------------------------------------------------

    def fit(self, A: Any, y: None = None) -> ALS:
        """Fit the factors to a matrix, and return the model.

        Parameters
        ----------
        A
            Links, users by items: a tensor of two dimensions, stored, in memory or lazy, or what
            :func:`sparrow.asarray` takes. The value of an entry is what its product of factors should be. Cells that
            are 0 are no links, not even with explicit ratings. Read once if the links fit ``buffer``, else once a
            half step.
        y
            Not looked at: for pipelines of scikit-learn.

        Returns
        -------
        ALS
            The model itself.

        Raises
        ------
        InvalidValueError
            If a parameter is outside what it may be, a value is not finite in float32, or the checkpoint is of
            another fit.
        CorruptionError
            If the checkpoint cannot be read.
        ShapeError
            If ``A`` is no matrix.
        UnsupportedError
            If it is complex, or its fill is not 0.
        ConvergenceError
            If numbers grow without bounds.
        StorageError
            If a folder cannot be written to.
        TooLargeError
            If the tables pass the memory limit and are not memory-mapped, or the memory of the GPU.
        MissingDependencyError
            If ``engine="cupy"``, and there is no CuPy or no device.

        Examples
        --------
        >>> import numpy as np, sparrow as sp
        >>> A = sp.asarray(np.kron(np.eye(5), np.ones((8, 8))))
        >>> model = sp.models.ALS(factors=8, epochs=2).fit(A)
        >>> model.user_factors.shape, len(model.loss_)
        ((40, 8), 4)
        """
        from sparrow.kernels.jit import warmup

        warmup.warn_compiling()
        equations, place = self._checked(), self._place()
        scan = _tensor(A).__sparrow_scan__()
        check_matrix(scan)
        with _one_blas_thread():
            users, items = self._tables(scan.schema.shape)
            tables = 0 if self.memory_map is not None else users.stored.nbytes + items.stored.nbytes
            with memory.reserve(tables, "the tables of factors") as room:
                free = memory.share(1, least=_STREAMED, beside=_OTHER)
                budget = free if self.buffer is None else settings.parse_bytes(self.buffer)
                streamed = _STREAMED if self.buffer is None else budget
                pinned = Tensor(scan.source, scan.view)
                digest = self.checkpoint is not None
                links = Links(scan, pinned.T.__sparrow_scan__(), users.shape[1], budget, streamed, digest)
                room.hold(tables + links.nbytes)
                try:
                    biases = Biases(links.rows, users, items) if self.biases else None
                    losses = self._epochs(links, users, items, equations, biases, place)
                finally:
                    links.close()
        self._users, self._items = users, items
        self._biases = biases
        self._training = pinned
        self._surveyed: NDArray[np.float64] | None = None
        self.loss_ = np.array(losses)
        self.n_features_in_ = items.shape[0]
        return self

    def _tables(self, shape: tuple[int, ...]) -> tuple[FactorTable, FactorTable]:
        names = ("user_factors.npy", "item_factors.npy")
        width = self.factors + bool(self.biases)
        nbytes = sum(shape) * width * (4 if self.dtype == "float32" else 2)
        if self.memory_map is None:
            remedy = "name a folder with memory_map=, take fewer factors or dtype='bfloat16'"
            memory.check(nbytes, f"tables of {sum(shape)} rows and {self.factors} factors", remedy)
        paths = [None if self.memory_map is None else Path(self.memory_map) / name for name in names]
        users, items = (FactorTable(n, width, self.dtype, path) for n, path in zip(shape, paths, strict=True))
        return users, items

    def _epochs(
        self,
        links: Links,
        users: FactorTable,
        items: FactorTable,
        equations: Equations,
        biases: Biases | None,
        place: Place,
    ) -> list[float]:
        """Fill the tables; return the loss after each half step."""
        losses: list[float] = []
        tables: dict[str, NDArray[Any]] = {"0": users.stored, "1": items.stored}
        if biases is not None:
            tables |= {"2": biases.biases[0], "3": biases.biases[1]}
        saved = None
        if self.checkpoint is not None:
            saved = Checkpoints(self.checkpoint, self._identity(links))
            losses = [float.fromhex(loss) for loss in saved.load(tables).get("losses", ())]
            if len(losses) > 2 * self.epochs:
                raise InvalidValueError(
                    f"the checkpoint in {os.fspath(self.checkpoint)!r} has come to epochs={(len(losses) + 1) // 2} "
                    f"already, beyond epochs={self.epochs}: ask for as many, or name another folder"
                )
        if not losses:
            users.start((self.seed, 0), self.init, np.diff(links.rows.indptr) > 0)
            items.start((self.seed, 1), self.init, np.diff(links.cols.indptr) > 0)
            if biases is not None:
                biases.begin()
        W, H = place.take(users, items)
        sides = ((links.rows, W, H, links.cols), (links.cols, H, W, links.rows))
        survey: Survey | None = None

        def text() -> str:
            now = f"epoch {min(len(losses) // 2 + 1, self.epochs)} of {self.epochs}"
            return f"{now}, loss {losses[-1]:.6g}" if losses else now

        with progress.bar(text, (2 * self.epochs - len(losses)) * links.count, "links") as advance:

            def solve(which: int, survey: Survey, shift: NDArray[np.float32] | None = None) -> tuple[float, Survey]:
                side, solved, fixed, _ = sides[which]
                return half_step(side, fixed, survey, solved, equations, place, advance, shift)

            for step in range(len(losses), 2 * self.epochs):
                _, solved, fixed, other = sides[step % 2]
                if survey is None:
                    counts = np.diff(other.indptr)
                    look = fixed.survey if biases is None else partial(biases.survey, 1 - step % 2, fixed)
                    survey = look(lambda a, b: equations.ridge(counts[a:b], solved.shape[0]))  # noqa: B023
                half = partial(solve, step % 2)
                loss, survey = half(survey) if biases is None else biases.solve(step % 2, solved, survey, half)
                if not math.isfinite(loss):
                    raise ConvergenceError(self._diverged(step))
                losses.append(loss)
                if saved is not None:
                    place.bring()
                    saved.save(tables, len(losses), {"losses": [loss.hex() for loss in losses]})
        place.bring()
        return losses

    def _identity(self, links: Links) -> dict[str, Any]:
        names = [
            "factors", "regularization", "unobserved_weight", "frequency_scaling", "solver", "dtype", "seed", "init",
        ]  # fmt: skip
        names += {"cg": ["cg_steps"], "subspace": ["block"], "exact": []}[self.solver]
        given = {name: getattr(self, name) for name in names}
        if self.biases:
            given["biases"] = True
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
        return {**plain, "data": [links.rows.rows, links.cols.rows, links.count, links.digest]}

    def _diverged(self, step: int) -> str:
        where = f"the {('user', 'item')[step % 2]} factors of epoch {step // 2 + 1} are not finite"
        if self.dtype == "float16":
            return f"{where}: dtype='float16' ends at 65504; use 'bfloat16' or 'float32', or raise regularization"
        return (
            f"{where}: raise regularization (now {self.regularization:g}), lower unobserved_weight (now "
            f"{self.unobserved_weight:g}) or scale the values down"
        )

    # -- what is fitted -------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_items")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False), input_tags=InputTags(sparse=True))

    def _check_fitted(self) -> None:
        """Raise ``UnsupportedError`` unless :meth:`fit` was called."""
        if not self.__sklearn_is_fitted__():
            raise UnsupportedError("the model is not fitted yet: call fit(A) first")

    def _factors(self) -> tuple[Factors, Factors]:
        self._check_fitted()
        if self._biases is None:
            return self._users, self._items
        return self._biases.factors()

    def _candidates(self) -> Factors:
        return self._factors()[1] if self._biases is None else self._biases.candidates()

    @property
    def _directions(self) -> slice:  # type: ignore[override]
        return slice(None) if self._biases is None else slice(-2)

    @property
    def user_factors(self) -> NDArray[Any]:
        """W, shape (users, d), and two columns of biases where there are some."""
        self._check_fitted()
        return self._users.to_numpy() if self._biases is None else self._factors()[0][:]

    @property
    def item_factors(self) -> NDArray[Any]:
        """H, shape (items, d), and two columns of biases where there are some."""
        self._check_fitted()
        return self._items.to_numpy() if self._biases is None else self._factors()[1][:]

    def _fitted_biases(self) -> Biases:
        self._check_fitted()
        if self._biases is None:
            raise AttributeError(
                "the model was fitted without a mean and biases: ALS(unobserved_weight=0, biases=True)"
            )
        return self._biases

    @property
    def mean_(self) -> float:
        """The mean of the entries, of a model with biases."""
        return self._fitted_biases().mean

    @property
    def user_biases_(self) -> NDArray[np.float32]:
        """The biases of users, shape (users,), of a model with biases."""
        return self._fitted_biases().biases[0]

    @property
    def item_biases_(self) -> NDArray[np.float32]:
        """The biases of items, shape (items,), of a model with biases."""
        return self._fitted_biases().biases[1]

    def fold_in(self, rows: Any) -> NDArray[np.float32]:
        """Return factors for rows that were not fitted: one exact solution each, in float64.

        Parameters
        ----------
        rows
            The links of new users, shape (m, items): a tensor or what :func:`sparrow.asarray` takes. They are held
            in memory. Items are found by label where these and the fitted matrix have some; others are left out.

        Returns
        -------
        numpy.ndarray
            Shape (m, d), float32. A row without links gets zeros. With ``biases`` rows are like those of
            ``user_factors``.

        Raises
        ------
        ShapeError
            If it has not as many columns as the fitted matrix.
        UnsupportedError
            If the model is not fitted, or the rows are complex or of a fill that is not 0.
        InvalidValueError
            If a value is not finite in float32.
        TooLargeError
            If the links pass the memory limit.

        Examples
        --------
        >>> import sparrow as sp
        >>> A = sp.from_coords([[0, 0, 1, 2], [0, 1, 1, 2]], [1.0] * 4, shape=(3, 3))
        >>> model = sp.models.ALS(factors=2, regularization=0.1, unobserved_weight=0.1, epochs=5).fit(A)
        >>> model.fold_in(A[:1]).shape
        (1, 2)
        """
        self._check_fitted()
        equations = self._checked()
        given = _tensor(rows)
        scan = (with_items_of(given, self._training) if given.ndim == 2 else given).__sparrow_scan__()
        check_matrix(scan, self._items.shape[0])
        with _one_blas_thread():
            if self._surveyed is None:
                self._surveyed = self._items.survey(lambda a, b: np.zeros(b - a), precise=True).gramian
            side = whole_side(scan, self._items.shape[1])
            shift = None if self._biases is None else self._biases.shift(0)
            found = solve_rows(side, self._items, self._surveyed, equations, shift)
        return found if self._biases is None else self._biases.folded(found)


def _tensor(obj: Any) -> Tensor:
    """Return a tensor, or what :func:`sparrow.asarray` makes of an object."""
    return obj if isinstance(obj, Tensor) else Tensor(MemoryRelation(*from_object(obj)))


def _one_blas_thread() -> AbstractContextManager[Any]:
    """Hold BLAS at one thread: parts of the work have threads of their own."""
    import scipy.linalg.cython_blas
    import scipy.linalg.cython_lapack  # noqa: F401 - what is not loaded yet cannot be held
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[Any] = threadpool_limits(limits=1, user_api="blas")
    return limits
