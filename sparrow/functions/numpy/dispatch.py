"""Table of NumPy's functions that work on tensors.

For example ``np.concatenate([A, B])`` and ``np.linalg.norm(A)``.

Importing this module registers the table for ``__array_function__``. What is not in it raises; what is dense by nature
(the rest of ``np.linalg`` and ``np.fft``) is computed by NumPy on the dense array.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sparrow.errors import UnsupportedError
from sparrow.functions.contraction import einsum_path, tensordot
from sparrow.functions.dtypes import result_type
from sparrow.functions.fourier import fftshift, ifftshift
from sparrow.functions.indexing import take_along_axis
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
)
from sparrow.functions.numpy.adapters import (
    angle,
    array_equal,
    can_cast,
    constant_like,
    copy,
    copyto,
    count_nonzero,
    diagflat,
    dot,
    elementwise,
    extract,
    flatnonzero,
    full_like,
    ignoring_nan,
    inner,
    matrix_diagonal,
    matrix_norm,
    matrix_trace,
    matvec,
    may_share_memory,
    norm,
    numpy_argsort,
    numpy_astype,
    numpy_clip,
    numpy_einsum,
    numpy_isin,
    numpy_meshgrid,
    numpy_multi_dot,
    numpy_sort,
    numpy_take,
    numpy_where,
    on_dtypes,
    outer_of_vectors,
    ravel,
    rollaxis,
    search_sorted,
    size,
    trace,
    vdot,
    vecmat,
    with_dtype_and_out,
)
from sparrow.functions.numpy.calculus import ediff1d, gradient, i0, insert, polyval, sinc, trapezoid
from sparrow.functions.numpy.functions import (
    all_close,
    append,
    argwhere,
    array_split,
    at_least,
    average,
    bincount,
    block,
    column_stack,
    compress,
    delete,
    diag,
    digitize,
    dsplit,
    dstack,
    fliplr,
    flipud,
    histogram,
    hsplit,
    hstack,
    interp,
    isclose,
    nan_to_num,
    on_unique_values,
    outer,
    ptp,
    rot90,
    select,
    sliding_window_view,
    unique,
    vsplit,
    vstack,
)
from sparrow.functions.numpy.operands import DENSE_OPERANDS, check_unlabelled
from sparrow.functions.numpy.quantiles import (
    median,
    nanmedian,
    nanpercentile,
    nanquantile,
    percentile,
    quantile,
)
from sparrow.functions.products import matmul, matrix_power, vecdot
from sparrow.functions.reductions import cumulative_prod, cumulative_sum
from sparrow.functions.sets import unique_all, unique_counts, unique_inverse, unique_values
from sparrow.functions.sorting import diff
from sparrow.functions.views import (
    as_tensor,
    broadcast_arrays,
    broadcast_to,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    squeeze,
    swapaxes,
    transpose,
    unstack,
)
from sparrow.tensor import Tensor
from sparrow.tensor.ufuncs import NUMPY_FUNCTIONS, write_out

__all__ = ["Adapted"]


@dataclass(frozen=True, slots=True)
class Adapted:
    """Implementation that is called with the arguments of NumPy's function.

    Parameters
    ----------
    function
        Takes NumPy's first argument first and the others by name.
    """

    function: Callable[..., Any]

    def to(self, numpy_function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the implementation with the signature of NumPy's function.

        It raises ``UnsupportedError`` for an argument, other than NumPy's default, that it does not accept.
        """
        signature = inspect.signature(numpy_function)
        first = next(iter(signature.parameters))
        function, accepted = self.function, inspect.signature(self.function).parameters
        is_method = getattr(Tensor, function.__name__, None) is function

        def call(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            out = None if "out" in accepted else given.pop("out", None)
            options = {}
            for name, value in given.items():
                if name == first or value is signature.parameters[name].default:
                    continue
                if name not in accepted:
                    raise UnsupportedError(
                        f"np.{numpy_function.__name__}({name}=) is not supported on sparse tensors: omit it, or use "
                        "A.to_numpy() if it fits in memory"
                    )
                options[name] = value
            operand = as_tensor(given[first]) if is_method else given[first]  # an array, where a mask is a tensor
            return write_out(out, function(operand, **options), f"np.{numpy_function.__name__}")

        return call


def _dense(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return NumPy's function applied to dense arrays: its result is dense by nature."""
    signature = inspect.signature(function)
    match = DENSE_OPERANDS.get(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        out = bound.arguments.pop("out", None)
        if match is not None:
            bound.arguments.update(match(**bound.arguments))
        tensors = {name: one for name, one in bound.arguments.items() if isinstance(one, Tensor)}
        if match is None and len(tensors) > 1:
            check_unlabelled(f"np.{function.__name__}", tensors)
        bound.arguments.update({name: np.asarray(one) for name, one in tensors.items()})
        return write_out(out, function(*bound.args, **bound.kwargs), f"np.{function.__name__}")

    return call


_TABLE: dict[Any, Any] = {
    np.all: Adapted(Tensor.all),
    np.allclose: Adapted(all_close),
    np.amax: Adapted(Tensor.max),
    np.amin: Adapted(Tensor.min),
    np.angle: Adapted(angle),
    np.any: Adapted(Tensor.any),
    np.append: Adapted(append),
    np.argmax: Adapted(Tensor.argmax),
    np.argmin: Adapted(Tensor.argmin),
    np.argsort: Adapted(numpy_argsort),
    np.argwhere: Adapted(argwhere),
    np.around: Adapted(Tensor.round),
    np.array_equal: Adapted(array_equal),
    np.array_split: Adapted(array_split),
    np.astype: Adapted(numpy_astype),
    np.atleast_1d: partial(at_least, 1),
    np.atleast_2d: partial(at_least, 2),
    np.atleast_3d: partial(at_least, 3),
    np.average: Adapted(average),
    np.bincount: bincount,
    np.block: block,
    np.broadcast_arrays: broadcast_arrays,
    np.broadcast_to: Adapted(broadcast_to),
    np.can_cast: Adapted(can_cast),
    np.clip: Adapted(numpy_clip),
    np.column_stack: Adapted(column_stack),
    np.common_type: on_dtypes(np.common_type),
    np.compress: Adapted(compress),
    np.concatenate: with_dtype_and_out(concat),
    np.copy: Adapted(copy),
    np.copyto: copyto,
    np.count_nonzero: Adapted(count_nonzero),
    np.cumprod: Adapted(Tensor.cumprod),
    np.cumsum: Adapted(Tensor.cumsum),
    np.cumulative_prod: Adapted(cumulative_prod),
    np.cumulative_sum: Adapted(cumulative_sum),
    np.delete: Adapted(delete),
    np.diag: Adapted(diag),
    np.diagflat: Adapted(diagflat),
    np.diagonal: Adapted(diagonal),
    np.diff: Adapted(diff),
    np.digitize: Adapted(digitize),
    np.dot: dot,
    np.dsplit: dsplit,
    np.dstack: Adapted(dstack),
    np.ediff1d: Adapted(ediff1d),
    np.einsum: numpy_einsum,
    np.einsum_path: einsum_path,
    np.empty_like: constant_like(0),
    np.expand_dims: Adapted(expand_dims),
    np.extract: extract,
    np.fix: np.trunc,
    np.flatnonzero: Adapted(flatnonzero),
    np.flip: Adapted(flip),
    np.fliplr: Adapted(fliplr),
    np.flipud: Adapted(flipud),
    np.full_like: full_like,
    np.gradient: gradient,
    np.histogram: Adapted(histogram),
    np.hsplit: hsplit,
    np.hstack: with_dtype_and_out(hstack),
    np.i0: Adapted(i0),
    np.imag: lambda val: val.imag,
    np.inner: inner,
    np.insert: insert,
    np.interp: Adapted(interp),
    np.intersect1d: Adapted(on_unique_values(np.intersect1d)),
    np.isclose: Adapted(isclose),
    np.iscomplex: lambda x: np.imag(x) != 0,
    np.iscomplexobj: on_dtypes(np.iscomplexobj),
    np.isin: Adapted(numpy_isin),
    np.isneginf: elementwise(np.isneginf),
    np.isposinf: elementwise(np.isposinf),
    np.isreal: lambda x: np.imag(x) == 0,
    np.isrealobj: on_dtypes(np.isrealobj),
    np.kron: Adapted(kron),
    np.matrix_transpose: Adapted(matrix_transpose),
    np.matvec: matvec,
    np.max: Adapted(Tensor.max),
    np.may_share_memory: may_share_memory,
    np.mean: Adapted(Tensor.mean),
    np.median: Adapted(median),
    np.meshgrid: numpy_meshgrid,
    np.min: Adapted(Tensor.min),
    np.moveaxis: Adapted(moveaxis),
    np.nan_to_num: Adapted(nan_to_num),
    np.nanargmax: Adapted(Tensor.nanargmax),
    np.nanargmin: Adapted(Tensor.nanargmin),
    np.nancumprod: Adapted(ignoring_nan(Tensor.cumprod, 1)),
    np.nancumsum: Adapted(ignoring_nan(Tensor.cumsum, 0)),
    np.nanmax: Adapted(Tensor.nanmax),
    np.nanmean: Adapted(Tensor.nanmean),
    np.nanmedian: Adapted(nanmedian),
    np.nanmin: Adapted(Tensor.nanmin),
    np.nanpercentile: Adapted(nanpercentile),
    np.nanquantile: Adapted(nanquantile),
    np.nanprod: Adapted(Tensor.nanprod),
    np.nanstd: Adapted(Tensor.nanstd),
    np.nansum: Adapted(Tensor.nansum),
    np.nanvar: Adapted(Tensor.nanvar),
    np.ndim: lambda a: a.ndim,
    np.nonzero: Adapted(nonzero),
    np.ones_like: constant_like(1),
    np.outer: Adapted(outer),
    np.pad: pad,
    np.percentile: Adapted(percentile),
    np.polyval: polyval,
    np.prod: Adapted(Tensor.prod),
    np.ptp: Adapted(ptp),
    np.quantile: Adapted(quantile),
    np.ravel: Adapted(ravel),
    np.real: lambda val: val.real,
    np.repeat: Adapted(repeat),
    np.reshape: Adapted(reshape),
    np.result_type: result_type,
    np.roll: Adapted(roll),
    np.rollaxis: Adapted(rollaxis),
    np.rot90: Adapted(rot90),
    np.round: Adapted(Tensor.round),
    np.searchsorted: Adapted(search_sorted),
    np.select: Adapted(select),
    np.setdiff1d: Adapted(on_unique_values(np.setdiff1d)),
    np.setxor1d: Adapted(on_unique_values(np.setxor1d)),
    np.shape: lambda a: a.shape,
    np.shares_memory: may_share_memory,
    np.sinc: Adapted(sinc),
    np.size: Adapted(size),
    np.sort: Adapted(numpy_sort),
    np.split: Adapted(split),
    np.squeeze: Adapted(squeeze),
    np.stack: with_dtype_and_out(stack),
    np.std: Adapted(Tensor.std),
    np.sum: Adapted(Tensor.sum),
    np.swapaxes: Adapted(swapaxes),
    np.take: Adapted(numpy_take),
    np.take_along_axis: Adapted(take_along_axis),
    np.tensordot: tensordot,
    np.tile: Adapted(tile),
    np.trace: Adapted(trace),
    np.transpose: transpose,
    np.trapezoid: Adapted(trapezoid),
    np.tril: Adapted(tril),
    np.triu: Adapted(triu),
    np.union1d: Adapted(on_unique_values(np.union1d)),
    np.unique: Adapted(unique),
    np.unique_all: Adapted(unique_all),
    np.unique_counts: Adapted(unique_counts),
    np.unique_inverse: Adapted(unique_inverse),
    np.unique_values: Adapted(unique_values),
    np.unstack: Adapted(unstack),
    np.var: Adapted(Tensor.var),
    np.vdot: vdot,
    np.vecdot: vecdot,
    np.vecmat: vecmat,
    np.vsplit: vsplit,
    np.vstack: with_dtype_and_out(vstack),
    np.where: numpy_where,
    np.zeros_like: constant_like(0),
    np.lib.stride_tricks.sliding_window_view: sliding_window_view,
    np.fft.fftshift: Adapted(fftshift),
    np.fft.ifftshift: Adapted(ifftshift),
    np.linalg.diagonal: Adapted(matrix_diagonal),
    np.linalg.matmul: matmul,
    np.linalg.matrix_norm: Adapted(matrix_norm),
    np.linalg.matrix_power: matrix_power,
    np.linalg.matrix_transpose: Adapted(matrix_transpose),
    np.linalg.multi_dot: numpy_multi_dot,
    np.linalg.norm: Adapted(norm),
    np.linalg.outer: outer_of_vectors,
    np.linalg.tensordot: tensordot,
    np.linalg.trace: Adapted(matrix_trace),
    np.linalg.vecdot: vecdot,
    np.linalg.vector_norm: Adapted(Tensor.norm),
}

NUMPY_FUNCTIONS.update(
    {
        function: _dense(function)
        for module in (np, np.linalg, np.fft)
        for name in (("corrcoef", "cov", "cross") if module is np else module.__all__)
        for function in (getattr(module, name),)
        if hasattr(function, "__wrapped__")
    }
    | {own: found.to(own) if isinstance(found, Adapted) else found for own, found in _TABLE.items()}
)
