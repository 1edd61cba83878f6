"""Fourier transforms by the names of the array API standard.

Spectra are dense by nature: NumPy computes them on the dense array, if it fits the memory limit. :func:`fftshift` and
:func:`ifftshift` only move elements and are lazy and sparse.
"""

from __future__ import annotations

from sparrow.functions.fourier import (
    fft,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfftn,
    rfft,
    rfftfreq,
    rfftn,
)

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
