"""sparrow: a sparse tensor store and query engine.

A tensor is stored as a table: one integer column per dimension, plus ``value``. In memory it is Arrow; on disk, Parquet
files with a Delta Lake transaction log. Open it like an array, query it like a table, multiply it without loading it.

* :func:`open`, :func:`from_coords`, :func:`asarray`, :func:`random`, :mod:`sparrow.ingest` and :mod:`sparrow.datasets`
  create tensors.
* :class:`Tensor` supports indexing, operators, ``A @ x``, ``A.explain()`` and ``A.save(path)``.
* ``sp`` is an array namespace: the functions of the array API standard, and NumPy's own such as ``np.exp(A)``, build
  lazy expressions.
* ``A.compute()`` and ``A.persist()`` evaluate one expression into memory, :func:`compute` several together.
* :func:`sql` queries tensors, and :func:`from_relation` makes a tensor of the result.
* :func:`export` writes the files of other programs.
* :mod:`sparrow.linalg`, :mod:`sparrow.fft`, :mod:`sparrow.blas` and :mod:`sparrow.graph` use the names of the
  array API, SciPy, BLAS and networkx.
* :mod:`sparrow.models` fits models such as :class:`sparrow.models.ALS`; :func:`batches`, :mod:`sparrow.training` and
  :mod:`sparrow.optim` feed and train others.
* :mod:`sparrow.formats` are containers of arrays, such as compressed rows; ``A.asformat(...)`` sets the storage type.
* :func:`config` sets the memory limit, threads and temporary folder; :mod:`sparrow.errors` has the error classes.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import lazy_loader

if TYPE_CHECKING:
    from numpy import (
        bool,
        complex64,
        complex128,
        e,
        float16,
        float32,
        float64,
        inf,
        int8,
        int16,
        int32,
        int64,
        nan,
        newaxis,
        pi,
        uint8,
        uint16,
        uint32,
        uint64,
    )

    from sparrow import blas, datasets, errors, fft, formats, graph, linalg, models, optim, training
    from sparrow.engines import explained
    from sparrow.explorer.session import explore
    from sparrow.functions.contraction import einsum, einsum_path, tensordot
    from sparrow.functions.creation import asarray, from_coords, from_dlpack, from_relation, open
    from sparrow.functions.dtypes import astype, can_cast, finfo, iinfo, isdtype, result_type
    from sparrow.functions.einsum_sql import einsum_sql
    from sparrow.functions.elementwise import (
        abs,
        acos,
        acosh,
        add,
        asin,
        asinh,
        atan,
        atan2,
        atanh,
        bitwise_and,
        bitwise_invert,
        bitwise_left_shift,
        bitwise_or,
        bitwise_right_shift,
        bitwise_xor,
        ceil,
        clip,
        conj,
        copysign,
        cos,
        cosh,
        divide,
        equal,
        exp,
        expm1,
        floor,
        floor_divide,
        greater,
        greater_equal,
        hypot,
        imag,
        isfinite,
        isinf,
        isnan,
        less,
        less_equal,
        log,
        log1p,
        log2,
        log10,
        logaddexp,
        logical_and,
        logical_not,
        logical_or,
        logical_xor,
        maximum,
        minimum,
        multiply,
        negative,
        nextafter,
        not_equal,
        positive,
        pow,
        real,
        reciprocal,
        remainder,
        round,
        sign,
        signbit,
        sin,
        sinh,
        sqrt,
        square,
        subtract,
        tan,
        tanh,
        trunc,
    )
    from sparrow.functions.generation import (
        arange,
        empty,
        empty_like,
        eye,
        full,
        full_like,
        linspace,
        meshgrid,
        ones,
        ones_like,
        zeros,
        zeros_like,
    )
    from sparrow.functions.indexing import take, take_along_axis
    from sparrow.functions.inspection import __array_namespace_info__
    from sparrow.functions.labels import align
    from sparrow.functions.manipulation import (
        concat,
        diagonal,
        kron,
        nonzero,
        pad,
        repeat,
        reshape,
        roll,
        split,
        stack,
        tile,
        tril,
        triu,
        unique,
    )
    from sparrow.functions.neighbors import neighbors
    from sparrow.functions.products import matmul, vecdot
    from sparrow.functions.random import random
    from sparrow.functions.reductions import (
        all,
        any,
        argmax,
        argmin,
        count_nonzero,
        cumulative_prod,
        cumulative_sum,
        max,
        mean,
        min,
        prod,
        std,
        sum,
        var,
    )
    from sparrow.functions.sddmm import sddmm
    from sparrow.functions.searching import searchsorted, where
    from sparrow.functions.sets import isin, unique_all, unique_counts, unique_inverse, unique_values
    from sparrow.functions.sorting import argsort, diff, sort
    from sparrow.functions.sql import sql
    from sparrow.functions.views import (
        broadcast_arrays,
        broadcast_shapes,
        broadcast_to,
        expand_dims,
        flip,
        matrix_transpose,
        moveaxis,
        permute_dims,
        squeeze,
        transpose,
        unstack,
    )
    from sparrow.ingest import module as ingest
    from sparrow.io.base.export import export
    from sparrow.plan import Semiring
    from sparrow.runtime.settings import config
    from sparrow.runtime.versions import show_versions
    from sparrow.tensor import Tensor
    from sparrow.tensor.bundle import Bundle
    from sparrow.tensor.computing import compute
    from sparrow.training.batches import batches

__version__ = "0.1.0"
__array_api_version__ = "2024.12"

__all__ = [
    "Bundle", "Semiring", "Tensor", "__array_namespace_info__", "abs", "acos", "acosh", "add", "align", "all", "any",
    "arange", "argmax", "argmin", "argsort", "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "batches",
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "blas",
    "bool", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "can_cast", "ceil", "clip", "complex64",
    "complex128", "compute", "concat", "config", "conj", "copysign", "cos", "cosh", "count_nonzero", "cumulative_prod",
    "cumulative_sum", "datasets", "diagonal", "diff", "divide", "e", "einsum", "einsum_path", "einsum_sql", "empty",
    "empty_like", "equal", "errors", "exp", "expand_dims", "explained", "explore", "expm1", "export", "eye", "fft",
    "finfo", "flip", "float16", "float32", "float64", "floor", "floor_divide", "formats", "from_coords", "from_dlpack",
    "from_relation", "full", "full_like", "graph", "greater", "greater_equal", "hypot", "iinfo", "imag", "inf",
    "ingest", "int8", "int16", "int32", "int64", "isdtype", "isfinite", "isin", "isinf", "isnan", "kron", "less",
    "less_equal", "linalg", "linspace", "log", "log1p", "log2", "log10", "logaddexp", "logical_and", "logical_not",
    "logical_or", "logical_xor", "matmul", "matrix_transpose", "max", "maximum", "mean", "meshgrid", "min", "minimum",
    "models", "moveaxis", "multiply", "nan", "negative", "neighbors", "newaxis", "nextafter", "nonzero", "not_equal",
    "ones", "ones_like", "open", "optim", "pad", "permute_dims", "pi", "positive", "pow", "prod", "random", "real",
    "reciprocal", "remainder", "repeat", "reshape", "result_type", "roll", "round", "sddmm", "searchsorted",
    "show_versions", "sign", "signbit", "sin", "sinh", "sort", "split", "sql", "sqrt", "square", "squeeze", "stack",
    "std", "subtract", "sum", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "training", "transpose",
    "tril", "triu", "trunc", "uint8", "uint16", "uint32", "uint64", "unique", "unique_all", "unique_counts",
    "unique_inverse", "unique_values", "unstack", "var", "vecdot", "where", "zeros", "zeros_like",
]  # fmt: skip

_NUMPY_NAMES = frozenset({
    "bool", "complex64", "complex128", "e", "float16", "float32", "float64", "inf", "int8", "int16", "int32", "int64",
    "nan", "newaxis", "pi", "uint8", "uint16", "uint32", "uint64",
})  # fmt: skip

_NUMPY_NAMESPACE = frozenset({"cross", "cumprod", "cumsum", "gradient", "lib", "median", "quantile"})
"""NumPy's names that xarray looks up in the namespace of an array. NumPy's functions work on tensors."""

_ATTRIBUTES = {
    "engines": ["explained"],
    "explorer.session": ["explore"],
    "functions.contraction": ["einsum", "einsum_path", "tensordot"],
    "functions.creation": ["asarray", "from_coords", "from_dlpack", "from_relation", "open"],
    "functions.dtypes": ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"],
    "functions.einsum_sql": ["einsum_sql"],
    "functions.elementwise": [
        "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
        "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil",
        "clip", "conj", "copysign", "cos", "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide",
        "greater", "greater_equal", "hypot", "imag", "isfinite", "isinf", "isnan", "less", "less_equal", "log",
        "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor",
        "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal", "positive", "pow", "real",
        "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square", "subtract",
        "tan", "tanh", "trunc",
    ],
    "functions.generation": [
        "arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "meshgrid", "ones",
        "ones_like", "zeros", "zeros_like",
    ],
    "functions.indexing": ["take", "take_along_axis"],
    "functions.inspection": ["__array_namespace_info__"],
    "functions.labels": ["align"],
    "functions.manipulation": [
        "concat", "diagonal", "kron", "nonzero", "pad", "repeat", "reshape", "roll", "split", "stack", "tile",
        "tril", "triu", "unique",
    ],
    "functions.neighbors": ["neighbors"],
    "functions.products": ["matmul", "vecdot"],
    "functions.random": ["random"],
    "functions.reductions": [
        "all", "any", "argmax", "argmin", "count_nonzero", "cumulative_prod", "cumulative_sum", "max", "mean",
        "min", "prod", "std", "sum", "var",
    ],
    "functions.sddmm": ["sddmm"],
    "functions.searching": ["searchsorted", "where"],
    "functions.sets": ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"],
    "functions.sorting": ["argsort", "diff", "sort"],
    "functions.sql": ["sql"],
    "functions.views": [
        "broadcast_arrays", "broadcast_shapes", "broadcast_to", "expand_dims", "flip", "matrix_transpose",
        "moveaxis", "permute_dims", "squeeze", "transpose", "unstack",
    ],
    "io.base.export": ["export"],
    "plan": ["Semiring"],
    "runtime.settings": ["config"],
    "runtime.versions": ["show_versions"],
    "tensor": ["Tensor"],
    "tensor.bundle": ["Bundle"],
    "tensor.computing": ["compute"],
    "training.batches": ["batches"],
}  # fmt: skip
"""Names by the module that defines them, which is imported when one of them is first used."""

_FUNCTIONS = frozenset(name for names in _ATTRIBUTES.values() for name in names)

_SUBMODULES = [
    "blas", "datasets", "errors", "fft", "formats", "graph", "ingest", "linalg", "models", "optim", "training",
]  # fmt: skip

_import, _, _ = lazy_loader.attach(
    __name__,
    submodules=_SUBMODULES,
    submod_attrs=_ATTRIBUTES,
)  # fmt: skip


def _getattr(name: str) -> Any:
    """Return a name on its first use; it is an attribute of the module from then on."""
    if name in _NUMPY_NAMES or name in _NUMPY_NAMESPACE:
        import numpy

        globals()[name] = getattr(numpy, name)
        return globals()[name]
    if name in _FUNCTIONS:
        # With one function come the engines that settings name, and the functions that NumPy's own dispatch to.
        importlib.import_module("sparrow.functions.numpy.dispatch")
    elif name not in _SUBMODULES and not name.startswith("_"):
        raise importlib.import_module("sparrow.runtime.hints").missing_attribute(
            f"module {__name__!r}", name, __name__, __all__
        )
    return _import(name)


__getattr__ = _getattr

if "IPython" in sys.modules:
    importlib.import_module("sparrow.runtime.tracebacks").hide_internal_frames()


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]
