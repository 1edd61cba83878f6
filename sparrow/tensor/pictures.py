"""Small pictures for HTML that suit light and dark pages, without Matplotlib.

Density maps are PNGs with a transparent background, in which more elements are less transparent. Charts are inline SVG
in the color of the text.
"""

from __future__ import annotations

import base64
import html as markup
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sparrow.engines import DensityMap

__all__ = [
    "PALETTE", "bar_chart", "density_levels", "density_png", "density_url", "figure", "line_chart", "palette_colors",
    "spark_line",
]  # fmt: skip

PALETTE = ("#4aa3df", "#7d6fe0", "#d9457a", "#f58231")
"""Colors of few to many elements, legible on white and on black."""
_LEVELS = 64
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH, _HEIGHT, _MARGIN = 240, 76, 64
"""Pixels of a chart, and those at the right of curves for the ends of the scale."""


def density_levels(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a level from 0 to 1 for each cell, on a log scale.

    Cells without elements have level 0. The scale goes from the 2nd to the 99.5th percentile of the other cells,
    so that it is used in full whatever the numbers.

    Examples
    --------
    >>> density_levels(np.array([[0.0, 1.0], [10.0, 100.0]])).round(2)
    array([[0.  , 0.02],
           [0.5 , 1.  ]])
    """
    out = np.zeros(counts.shape)
    present = counts > 0
    if not present.any():
        return out
    logs = np.log(counts[present])
    low, high = np.percentile(logs, [2, 99.5])
    spread = np.clip((logs - low) / (high - low), 0, 1) if high - low > 1e-9 else np.full(len(logs), 0.5)
    out[present] = (1 + spread * (_LEVELS - 1)) / _LEVELS
    return out


def palette_colors(levels: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return colors with opacity, shape (..., 4), of levels from 0 to 1."""
    stops = np.array([[int(color[k : k + 2], 16) for k in (1, 3, 5)] for color in PALETTE], np.float64)
    at = np.linspace(0, 1, len(stops))
    channels = [np.interp(levels, at, stops[:, k]) for k in range(3)]
    opacity = np.where(levels > 0, 255 * np.interp(levels, [0, 1], [0.45, 1]), 0)
    return np.stack([*channels, opacity], axis=-1).round().astype(np.uint8)


def density_url(found: DensityMap) -> str:
    """Return a density map as a data URL of a PNG with transparent background."""
    return "data:image/png;base64," + base64.b64encode(density_png(found)).decode()


def density_png(found: DensityMap, on_white: bool = False) -> bytes:
    """Return a density map as a PNG with a palette (ISO/IEC 15948).

    Parameters
    ----------
    found
        The density map, one cell per pixel.
    on_white
        Draw on white; otherwise the background is transparent.
    """
    levels = np.rint(density_levels(found.counts) * _LEVELS).astype(np.uint8)
    height, width = levels.shape
    colors = palette_colors(np.arange(_LEVELS + 1) / _LEVELS)
    if on_white:
        opacity = colors[:, 3:] / 255
        colors[:, :3] = np.rint(255 * (1 - opacity) + colors[:, :3] * opacity)
        colors[:, 3] = 255
    lines = np.zeros((height, width + 1), np.uint8)  # each line begins with its filter, none
    lines[:, 1:] = levels
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", colors[:, :3].tobytes()),
        (b"tRNS", colors[:, 3].tobytes()),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def spark_line(counts: Sequence[float]) -> str:
    """Return a histogram as characters.

    Examples
    --------
    >>> spark_line([0, 1, 4, 8])
    '▁▂▅█'
    """
    top = max([*counts, 0])
    return "".join(_BARS[min(int(-(-(count * 7) // top)), 7)] if top else _BARS[0] for count in counts)


def bar_chart(counts: Sequence[float], left: str, right: str, title: str) -> str:
    """Return a histogram as inline SVG.

    Parameters
    ----------
    counts
        Heights of the bars.
    left, right
        Texts below the first and the last bar.
    title
        Description, shown by the tool tip.
    """
    top = max([*counts, 0]) or 1
    step = _WIDTH / max(len(counts), 1)
    bars = "".join(
        f'<rect x="{k * step + 0.5:.1f}" y="{_HEIGHT * (1 - _bar_height(count, top)):.1f}" width="{step - 1:.1f}" '
        f'height="{_HEIGHT * _bar_height(count, top):.1f}"/>'
        for k, count in enumerate(counts)
        if count
    )
    return _svg(f'<g fill="{PALETTE[0]}">{bars}</g>', left, right, title)


def _bar_height(count: float, top: float) -> float:
    return max(count / top, 0.02)  # a bin with few elements stays visible


def line_chart(series: Sequence[tuple[str, Sequence[float]]], left: str, right: str, title: str) -> str:
    """Return curves as inline SVG, over a common scale.

    Parameters
    ----------
    series
        Names and values of the curves; those that are not finite are left out.
    left, right
        Texts below the first and the last point.
    title
        Description, shown by the tool tip.
    """
    finite = [value for _, values in series for value in values if np.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    curves, names = [], []
    for number, (name, values) in enumerate(series):
        color = PALETTE[0] if number == 0 else PALETTE[-1]
        last = max(len(values) - 1, 1)
        places = [
            (_WIDTH * (0.5 if len(values) == 1 else k / last), _HEIGHT * (1 - (value - low) / (high - low or 1)))
            for k, value in enumerate(values)
            if np.isfinite(value)
        ]
        points = " ".join(f"{x:.1f},{4 + y * 0.92:.1f}" for x, y in places)
        curves.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
        curves += [f'<circle cx="{x:.1f}" cy="{4 + y * 0.92:.1f}" r="2.5" fill="{color}"/>' for x, y in places[-1:]]
        if len(series) > 1:
            names.append(
                f'<text x="{_WIDTH}" y="{12 + 13 * number}" text-anchor="end" fill="{color}">'
                f"{markup.escape(name)}</text>"
            )
    ends = [(high, 10), (low, _HEIGHT - 3)] if high > low else [(high, 10)]
    names += [f'<text x="{_WIDTH + 8}" y="{y}" opacity="0.75">{value:.4g}</text>' for value, y in ends]
    return _svg("".join(curves + names), left, right, title, _MARGIN)


def figure(content: str, caption: str) -> str:
    """Return HTML with a caption below it."""
    text = f'<figcaption style="font-size:85%;opacity:.75">{markup.escape(caption)}</figcaption>'
    return f'<figure style="margin:0">{content}{text}</figure>'


def _svg(content: str, left: str, right: str, title: str, margin: int = 4) -> str:
    texts = "".join(
        f'<text x="{x}" y="{_HEIGHT + 15}" text-anchor="{anchor}">{markup.escape(text)}</text>'
        for x, anchor, text in ((0, "start", left), (_WIDTH, "end", right))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + 4 + margin}" height="{_HEIGHT + 22}" '
        f'viewBox="-4 0 {_WIDTH + 4 + margin} {_HEIGHT + 22}" role="img" fill="currentColor" font-size="11">'
        f"<title>{markup.escape(title)}</title>{content}"
        f'<line x1="0" y1="{_HEIGHT}" x2="{_WIDTH}" y2="{_HEIGHT}" stroke="currentColor" stroke-opacity="0.35"/>'
        f"{texts}</svg>"
    )
