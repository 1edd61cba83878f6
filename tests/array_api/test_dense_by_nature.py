"""Dense results: factorizations, spectra and DLPack, for every source."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import InvalidValueError, ShapeError, SharingError, SingularError, TooLargeError, UnsupportedError

DENSE = np.array([[4.0, 0.0, 1.0], [0.0, 0.0, 2.0], [0.0, 3.0, 0.0]])


@pytest.fixture(params=["memory", "stored", "view", "expression"])
def A(request: pytest.FixtureRequest, tmp_path: Path) -> sp.Tensor:
    """Return DENSE as a tensor of each source."""
    plain = sp.asarray(DENSE)
    forms: dict[str, Callable[[], sp.Tensor]] = {
        "memory": lambda: plain,
        "stored": lambda: plain.save(tmp_path / "a.sparrow"),
        "view": lambda: sp.asarray(np.pad(DENSE, 1, constant_values=7.0)).save(tmp_path / "b.sparrow")[1:4, 1:4],
        "expression": lambda: plain * 2 - plain,
    }
    return forms[request.param]()


def test_dense_functions(A: sp.Tensor) -> None:
    for name in ("linalg.det", "linalg.inv", "linalg.svd", "linalg.slogdet", "fft.fftn", "fft.rfft", "fft.fftshift"):
        own, numpy = operator.attrgetter(name)(sp), operator.attrgetter(name)(np)
        results = (one if isinstance(one, tuple) else (one,) for one in (own(A), numpy(DENSE)))
        for found, wanted in zip(*results, strict=True):
            np.testing.assert_array_equal(np.asarray(found), wanted)
    np.testing.assert_array_equal(sp.linalg.solve(A, DENSE[0]), np.linalg.solve(DENSE, DENSE[0]))
    np.testing.assert_array_equal(sp.linalg.solve(DENSE, A[0]), np.linalg.solve(DENSE, DENSE[0]))
    np.testing.assert_array_equal(sp.linalg.matrix_power(A, -2), np.linalg.matrix_power(DENSE, -2))
    assert sp.fft.fftshift(A).nnz == 4


@pytest.mark.parametrize("name", [name for name in sp.fft.__all__ if "freq" not in name])
def test_fft_axes_by_name(A: sp.Tensor, name: str) -> None:
    named, own = A.rename(d0="row", d1="col"), getattr(sp.fft, name)
    option = "axes" if "n" in name or "shift" in name else "axis"
    calls: list[tuple[Any, Any]] = [("row", 0), ("col", 1)] + [(("col", "row"), (1, 0))] * (option == "axes")
    for given, wanted in calls:
        np.testing.assert_array_equal(own(named, **{option: given}), own(A, **{option: wanted}))


def test_dlpack(A: sp.Tensor) -> None:
    np.testing.assert_array_equal(np.from_dlpack(A), DENSE)
    assert sp.from_dlpack(A) is A
    assert sp.from_dlpack(DENSE).nnz == 4
    for share in (
        lambda: A.__dlpack__(copy=False),
        lambda: np.asarray(A, copy=False),
        lambda: sp.from_dlpack(DENSE, copy=False),
    ):
        with pytest.raises(SharingError, match="copy=False") as caught:
            share()
        assert isinstance(caught.value, BufferError | ValueError)
    with pytest.raises(UnsupportedError, match="list"):
        sp.from_dlpack([1.0])


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda A: sp.linalg.inv(A[:2]), ShapeError),
        (lambda A: sp.linalg.svd(A[0]), ShapeError),
        (lambda A: sp.linalg.solve(A, [1.0, 2.0]), ShapeError),
        (lambda A: sp.linalg.inv(A[:0, :0].astype(np.float16)), UnsupportedError),
        (lambda A: sp.linalg.qr(A, mode="odd"), InvalidValueError),  # type: ignore[arg-type]
        (lambda A: sp.linalg.cross(A, A[:, :2]), ShapeError),
        (lambda A: sp.linalg.cross(A, A, axis=7), ShapeError),
        (lambda A: sp.linalg.inv(A * 0), SingularError),
        (lambda A: sp.fft.fft(A, axis=2), ShapeError),
        (lambda A: sp.fft.fft(A, n=0), InvalidValueError),
        (lambda A: sp.fft.fft(A, norm="odd"), InvalidValueError),
        (lambda A: sp.fft.fft(A, n="x"), TypeError),
        (lambda A: sp.fft.fft(A, axis="x"), ShapeError),
        (lambda A: sp.fft.fft(DENSE, axis="x"), UnsupportedError),
        (lambda A: sp.fft.fft(A, axis=1.5), UnsupportedError),
        (lambda A: sp.fft.fftn(A, s="x"), UnsupportedError),
        (lambda A: sp.fft.fftn(A, axes=("x",)), ShapeError),
        (lambda A: sp.fft.fftn(A, axes=(0, None)), UnsupportedError),
        (lambda A: sp.fft.fft(A[:0], axis=0), ShapeError),
        (lambda A: sp.fft.rfft(A.astype(complex)), UnsupportedError),
        (lambda A: sp.fft.fftn(A, axes=(0, 5)), ShapeError),
        (lambda A: sp.fft.fftshift(A, axes=3), ShapeError),
        (lambda A: sp.fft.fftfreq(0), InvalidValueError),
        (lambda A: sp.fft.rfftfreq(3, d=0.0), InvalidValueError),
    ],
)
def test_invalid_input_raises(ask: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        ask(sp.asarray(DENSE))


def test_large_sparse_never_densified() -> None:
    large = sp.eye(100_000)
    for ask in (sp.linalg.inv, sp.linalg.svdvals, sp.linalg.det, sp.fft.fft, np.from_dlpack):
        with pytest.raises(TooLargeError):
            ask(large)
