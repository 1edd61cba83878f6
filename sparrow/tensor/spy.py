"""Pictures of where the entries are, drawn by Matplotlib where it is installed."""

from __future__ import annotations

import base64
import importlib.util
import io
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sparrow.errors import MissingDependencyError

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
        raise MissingDependencyError("pictures need Matplotlib: pip install 'sparrow-tensor[notebook]'")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@cache
def _shown() -> type[Any]:
    """Return Matplotlib axes of which a notebook shows the picture, as of no others without pyplot."""
    from matplotlib.axes import Axes

    class Shown(Axes):
        def _repr_png_(self) -> bytes:
            return png(self, 100)

    Shown.__name__ = Axes.__name__  # what it says it is
    return Shown


def draw(found: DensityMap, names: Sequence[str], title: str, axes: Any = None, frame: bool = True) -> Any:
    """Return Matplotlib axes that show a density map: darker where more entries fall into a cell of the grid.

    Parameters
    ----------
    names
        The names of the axes down and across.
    title
        A line below the picture, where the axes are new.
    axes
        Axes to draw into; new ones by default.
    frame
        Draw ticks and the bar of colours.

    Raises
    ------
    MissingDependencyError
        If Matplotlib is not installed.
    """
    height, width = found.counts.shape
    if axes is None:
        ratio = min(max(height / width, 0.3), 1.3)
        axes = _figure(5.6, max(4.8 * ratio, 1.6)).add_subplot(axes_class=_shown())
        axes.figure.supxlabel(title, fontsize=10)
    from matplotlib.colors import LinearSegmentedColormap, LogNorm
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    colours = LinearSegmentedColormap.from_list("sparrow", [_LOW, "#4292c6", _HIGH]).with_extremes(bad="white")
    counts = np.ma.masked_equal(found.counts, 0)
    most = float(found.counts.max(initial=1.0))
    down, across = found.extent
    image = axes.imshow(
        counts, cmap=colours, norm=LogNorm(1.0 if most > 1 else 0.1, most), interpolation="nearest", aspect="auto",
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
            bar.set_label("entries per cell of the picture" + (", estimated" if found.sampled else ""), fontsize=8)
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
