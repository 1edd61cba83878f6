"""Notice that kernels are being compiled."""

from __future__ import annotations

import pytest
from numba import njit

import sparrow as sp
from sparrow.kernels.jit import warmup


def compile_one_of(module: str) -> None:
    def double(x):  # type: ignore[no-untyped-def]
        return 2 * x

    double.__module__ = module
    assert njit(double)(3) == 6


def test_first_compilation_prints_a_notice(capsys: pytest.CaptureFixture[str]) -> None:
    warmup.warn_compiling.__wrapped__()
    with sp.config(progress=False):
        compile_one_of("sparrow.kernels.some")
    with sp.config(progress=True):
        compile_one_of("elsewhere")
        assert capsys.readouterr().err == ""
        compile_one_of("sparrow.kernels.some")
        assert "compiling" in capsys.readouterr().err
        compile_one_of("sparrow.kernels.other")
        assert capsys.readouterr().err == ""
