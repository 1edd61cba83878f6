"""HTML of models: sizes, losses, scores and learning curves."""

from __future__ import annotations

import html as markup
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sparrow.tensor import display, pictures

__all__ = ["ModelSummary", "render_model"]

_MAX_TEXT = 80


@dataclass
class ModelSummary:
    """Facts about a fitted model."""

    facts: list[tuple[str, str]] = field(default_factory=list)
    """Names and texts."""
    curves: list[tuple[str, Sequence[float]]] = field(default_factory=list)
    """Names and values of learning curves."""
    steps: str = "epochs"
    """Unit of the curves."""
    tables: list[tuple[str, Sequence[str], Sequence[Sequence[Any]]]] = field(default_factory=list)
    """Further tables: titles, headers and rows."""


def render_model(name: str, parameters: str, summary: ModelSummary | None) -> str:
    """Return a model as HTML.

    Parameters
    ----------
    name
        Name of the class.
    parameters
        Parameters that differ from their defaults.
    summary
        Facts; None if the model is not fitted.
    """
    rows = [("parameters", _cut(parameters) or "defaults")]
    rows += [("state", "not fitted: call fit()")] if summary is None else summary.facts
    body = "".join(
        f'<tr><th style="text-align:left">{markup.escape(key)}</th>'
        f'<td style="text-align:left">{markup.escape(text)}</td></tr>'
        for key, text in rows
    )
    parts = [f"<table><caption>sparrow.models.{markup.escape(name)}</caption><tbody>{body}</tbody></table>"]
    if summary is not None:
        curves = [(title, values) for title, values in summary.curves if len(values)]
        if any(len(values) > 1 for _, values in curves):
            count = len(curves[0][1])
            chart = pictures.line_chart(curves, "1", f"{count} {summary.steps}", "learning curve")
            parts.append(pictures.figure(chart, "learning curve: " + ", ".join(title for title, _ in curves)))
        for title, headers, table in summary.tables:
            parts.append(pictures.figure(display.html_table(table, headers), title))
    return display.beside(parts)


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "\N{HORIZONTAL ELLIPSIS}"
