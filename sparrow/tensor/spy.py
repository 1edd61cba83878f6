"""Density pictures of stored elements, drawn by Matplotlib, for any theme."""

from __future__ import annotations

import importlib.util
import io
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparrow.runtime.dependencies import missing_dependency
from sparrow.tensor.pictures import palette_colors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparrow.engines import DensityMap

__all__ = ["can_draw", "draw", "png"]

_TEXT = "#808080"
"""Color of texts and lines of new pictures: legible on white and on black, as their background is transparent."""


def can_draw() -> bool:
    """Return whether Matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def _figure(width: float, height: float) -> Any:
    if not can_draw():
        raise missing_dependency("spy()", "matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="none")
    FigureCanvasAgg(figure)
    return figure


@cache
def _notebook_axes() -> type[Any]:
    """Return a class of Matplotlib axes that notebooks render."""
    from matplotlib.axes import Axes

    class NotebookAxes(Axes):
        def _repr_png_(self) -> bytes:
            return png(self, 100)

    NotebookAxes.__name__ = Axes.__name__
    return NotebookAxes


def draw(found: DensityMap, names: Sequence[str], title: str, axes: Any = None) -> Any:
    """Draw a density map: darker where a bin of the grid has more stored elements.

    Parameters
    ----------
    found
        The density map.
    names
        Names of the vertical and the horizontal axis.
    title
        Caption below the picture, for new axes.
    axes
        Matplotlib axes to draw into; new ones by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    MissingDependencyError
        If Matplotlib is not installed.
    """
    height, width = found.counts.shape
    is_new = axes is None
    if axes is None:
        ratio = min(max(height / width, 0.3), 1.3)
        axes = _figure(5.6, max(4.8 * ratio, 1.6)).add_subplot(axes_class=_notebook_axes())
        axes.figure.supxlabel(title, fontsize=10, color=_TEXT)
        _paint(axes)
    from matplotlib.colors import LinearSegmentedColormap, LogNorm
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    steps = palette_colors(np.linspace(0, 1, 65)[1:]) / 255
    colors = LinearSegmentedColormap.from_list("sparrow", list(map(tuple, steps))).with_extremes(bad=(0, 0, 0, 0))
    counts = np.ma.masked_equal(found.counts, 0)
    least, most = _scale(found.counts)
    down, across = found.extent
    image = axes.imshow(
        counts, cmap=colors, norm=LogNorm(least, most), interpolation="nearest", aspect="auto",
        extent=(-0.5, max(across, 1) - 0.5, max(down, 1) - 0.5, -0.5),
    )  # fmt: skip
    axes.set_ylabel(names[0])
    axes.set_xlabel(names[1])
    axes.xaxis.set_label_position("top")
    axes.xaxis.tick_top()
    for ticks in (axes.xaxis, axes.yaxis):
        ticks.set_major_locator(MaxNLocator(6, integer=True))
        ticks.set_major_formatter(FuncFormatter(lambda at, _: f"{at:,.0f}"))
    if most > 1:
        bar = axes.figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02)
        bar.set_label("elements per pixel" + (", estimated" if found.sampled else ""), fontsize=8)
        if is_new:
            _paint(bar.ax)
    return axes


def png(axes: Any, dots_per_inch: int = 150) -> bytes:
    """Return the figure of Matplotlib axes as a PNG."""
    out = io.BytesIO()
    axes.figure.savefig(out, format="png", dpi=dots_per_inch)
    return out.getvalue()


def _scale(counts: NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of the color scale: percentiles of the cells with elements."""
    present = counts[counts > 0]
    if not len(present):
        return 0.1, 1.0
    low, high = (float(end) for end in np.percentile(present, [2, 99.5]))
    return (low, high) if high > 1.001 * low else (low / 10, high)


def _paint(axes: Any) -> None:
    """Color lines and texts of axes for any background."""
    axes.set_facecolor("none")
    axes.tick_params(colors=_TEXT, which="both")
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(_TEXT)
    for spine in axes.spines.values():
        spine.set_edgecolor(_TEXT)
