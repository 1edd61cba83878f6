"""Fourier transforms by the names of the array API standard.

A spectrum is dense by nature: NumPy computes it of all cells, at once, if these fit the memory limit. :func:`fftshift`
and :func:`ifftshift` move entries, and are lazy and sparse.
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
