"""``sp`` as an array namespace: inspection, devices and constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.errors import InvalidValueError, ShapeError, UnsupportedError

strict = pytest.importorskip("array_api_strict")


def test_array_namespace() -> None:
    A = sp.asarray([[0, 2], [3, 0]])
    for tensor in (A, A[0], A + A, A.T):
        assert tensor.__array_namespace__() is sp
    assert A.__array_namespace__(api_version="2024.12") is A.__array_namespace__(api_version="2025.12") is sp
    with pytest.raises(InvalidValueError, match=r"2050\.12"):
        A.__array_namespace__(api_version="2050.12")


def test_namespace_agnostic_code() -> None:
    def softmax(x: Any) -> Any:
        xp = x.__array_namespace__()
        e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return xp.divide(e, xp.sum(e, axis=-1, keepdims=True))

    a = np.array([[0.0, 2.0, 0.0], [1.0, 0.0, -1.0]])
    np.testing.assert_allclose(softmax(sp.asarray(a)).to_numpy(), np.asarray(softmax(strict.asarray(a))._array))


def test_namespace_info() -> None:
    info, other = sp.__array_namespace_info__(), strict.__array_namespace_info__()
    assert info.capabilities().keys() == other.capabilities().keys()
    assert (info.default_device(), info.devices()) == ("cpu", ["cpu"])
    assert info.default_dtypes() == {kind: np.dtype(d._np_dtype) for kind, d in other.default_dtypes().items()}
    for kind in (None, "bool", "integral", ("real floating", "complex floating")):
        assert info.dtypes(kind=kind) == {name: np.dtype(d._np_dtype) for name, d in other.dtypes(kind=kind).items()}
    for name, dtype in info.dtypes().items():
        assert sp.zeros(1, getattr(sp, name)).dtype == dtype
    for ask in (info.dtypes, info.default_dtypes):
        with pytest.raises(InvalidValueError, match="'gpu'"):
            ask(device="gpu")
    with pytest.raises(InvalidValueError, match="'odd'"):
        info.dtypes(kind="odd")


def test_constants() -> None:
    for name in ("e", "inf", "nan", "pi", "newaxis"):
        assert getattr(sp, name) is getattr(strict, name) or getattr(sp, name) == pytest.approx(
            getattr(strict, name), nan_ok=True
        )


def test_devices() -> None:
    assert sp.zeros(2, device="cpu").shape == sp.full(2, 7, device="cpu").shape
    makers: list[Any] = [
        lambda device: sp.asarray([1], device=device), lambda device: sp.zeros(1, device=device),
        lambda device: sp.eye(1, device=device), lambda device: sp.arange(1, device=device),
        lambda device: sp.linspace(0, 1, 2, device=device), lambda device: sp.ones_like([1], device=device),
        lambda device: sp.astype([1], sp.int8, device=device), lambda device: sp.empty(1, device=device),
    ]  # fmt: skip
    for make in makers:
        assert isinstance(make("cpu"), sp.Tensor)
        with pytest.raises(InvalidValueError, match="'gpu'"):
            make("gpu")


def test_invalid_dtypes_raise() -> None:
    for ask in (
        lambda: sp.finfo(sp.int8),
        lambda: sp.iinfo(sp.float32),
        lambda: sp.iinfo("nonsense"),
        lambda: sp.can_cast("nonsense", sp.int8),
        lambda: sp.isdtype(sp.int8, "odd"),
        sp.result_type,
    ):
        with pytest.raises(UnsupportedError):
            ask()


def test_array_attributes() -> None:
    a = np.arange(24).reshape(2, 3, 4)
    A = sp.asarray(a)
    np.testing.assert_array_equal(A.mT.to_numpy(), a.mT)
    assert A.device == "cpu"
    assert A.to_device("cpu") is A
    with pytest.raises(InvalidValueError, match="'gpu'"):
        A.to_device("gpu")
    with pytest.raises(ShapeError, match=r"\(4,\)"):
        _ = A[0, 0].mT
