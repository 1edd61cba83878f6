"""Density pictures of stored elements, drawn by Matplotlib."""

from __future__ import annotations

import base64
import importlib.util
import io
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sparrow.runtime.dependencies import missing_dependency

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparrow.engines import DensityMap

__all__ = ["can_draw", "data_url", "draw", "png"]

_LOW, _HIGH = "#dce9f5", "#08306b"


def can_draw() -> bool:
    """Return whether Matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def _figure(width: float, height: float) -> Any:
    if not can_draw():
        raise missing_dependency("spy()", "matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
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


def draw(found: DensityMap, names: Sequence[str], title: str, axes: Any = None, frame: bool = True) -> Any:
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
    frame
        Draw ticks and the color bar.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    MissingDependencyError
        If Matplotlib is not installed.
    """
    height, width = found.counts.shape
    if axes is None:
        ratio = min(max(height / width, 0.3), 1.3)
        axes = _figure(5.6, max(4.8 * ratio, 1.6)).add_subplot(axes_class=_notebook_axes())
        axes.figure.supxlabel(title, fontsize=10)
    from matplotlib.colors import LinearSegmentedColormap, LogNorm
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    colors = LinearSegmentedColormap.from_list("sparrow", [_LOW, "#4292c6", _HIGH]).with_extremes(bad="white")
    counts = np.ma.masked_equal(found.counts, 0)
    most = float(found.counts.max(initial=1.0))
    down, across = found.extent
    image = axes.imshow(
        counts, cmap=colors, norm=LogNorm(1.0 if most > 1 else 0.1, most), interpolation="nearest", aspect="auto",
        extent=(-0.5, max(across, 1) - 0.5, max(down, 1) - 0.5, -0.5),
    )  # fmt: skip
    if frame:
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
    else:
        axes.set_xticks([])
        axes.set_yticks([])
    return axes


def png(axes: Any, dots_per_inch: int = 150) -> bytes:
    """Return the figure of Matplotlib axes as a PNG."""
    out = io.BytesIO()
    axes.figure.savefig(out, format="png", dpi=dots_per_inch)
    return out.getvalue()


def data_url(found: DensityMap, names: Sequence[str]) -> str:
    """Return a small picture of a density map as a data URL for HTML."""
    figure = _figure(2.2, 2.2)
    axes = figure.add_subplot()
    draw(found, names, "", axes, frame=False)
    return "data:image/png;base64," + base64.b64encode(png(axes, 100)).decode()
