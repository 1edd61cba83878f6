"""Bar chart of the bench.

``python docs/charts.py`` writes docs/images/speed.svg from bench/RESULTS.md.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "RESULTS.md"
CHART = ROOT / "docs" / "images" / "speed.svg"


class Bar(NamedTuple):
    """A bar: its label and the row of the bench that it shows."""

    label: str
    peer: str
    part: str
    work: str
    row_peer: str
    is_speed: bool = False


BARS = (
    Bar("Triangles of a web graph", "igraph", "Graphs and solvers", "triangles of cnr-2000, from disk",
        "igraph in RAM"),
    Bar("Edge list to disk", "igraph", "Readers of files", "edges to a stored tensor", "igraph.Graph.Read_Edgelist"),
    Bar("A + B", "pydata/sparse", "Element-wise functions and reductions", "A + B, memory", "pydata/sparse"),
    Bar("libsvm file to disk", "scikit-learn", "Ingest of text", "libsvm to a stored bundle, times as fast",
        "load_svmlight_file", is_speed=True),
    Bar("A + B by label", "Polars join", "Labels", "A + B by label, 2 x 1,000,000 entries", "full join"),
    Bar("ALS epoch, CPU", "implicit", "ALS", 'ALS epoch, "cg", d = 64, CPU', "implicit 0.7.3, CG of 3 steps"),
    Bar("A @ A, power law", "SciPy", "Products of sparse matrices", "power law, A @ A",
        "SciPy csr @ csr, not sorted"),
    Bar("A @ x, repeated", "SciPy", "Products with dense arrays", "SpMV A @ x, persisted", "SciPy CSR in RAM"),
    Bar("PageRank, 20 M links", "loop in RAM", "Graphs and solvers", "PageRank, 20 M links, power law",
        "plain loop over rows in RAM, one thread"),
    Bar("SQL query", "DuckDB by hand", "Products with dense arrays", "sp.sql", "the same SQL by hand"),
    Bar("h5ad file to disk", "anndata, in RAM", "Readers of files", "h5ad to a stored tensor", "anndata.read_h5ad"),
    Bar("A @ x, from disk", "SciPy, in RAM", "Products with dense arrays", "SpMV A @ x from Parquet",
        "SciPy CSR in RAM"),
    Bar("A.sum(), from disk", "SciPy, in RAM", "Element-wise functions and reductions", "A.sum(), Parquet",
        "SciPy CSR in RAM"),
)  # fmt: skip
"""Rows that the chart shows: one of each kind of work, losses included."""

WIDTH, ROW, LEFT, RIGHT, TOP, SCALE_MAX = 720, 26, 290, 60, 64, 2.5


def read_results(text: str) -> dict[tuple[str, str, str], float]:
    """Return the ratios of the bench by part, work and peer."""
    found = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        part, _, body = section.partition("\n")
        for line in re.findall(r"^\| (.+) \|$", body, re.MULTILINE):
            cells = [cell.strip() for cell in line.split(" | ")]
            if re.fullmatch(r"[\d.]+", cells[2]):
                found[part, cells[0], cells[1]] = float(cells[2])
    return found


def draw_chart(ratios: dict[tuple[str, str, str], float]) -> str:
    """Return the chart as SVG: time relative to the other tool, which is 1."""
    bars = []
    for bar in BARS:
        ratio = ratios[bar.part, bar.work, bar.row_peer]
        bars.append((1 / ratio if bar.is_speed else ratio, bar))
    bars.sort(key=lambda pair: pair[0])
    height = TOP + ROW * len(bars) + 34
    scale = (WIDTH - LEFT - RIGHT) / SCALE_MAX
    size = f'viewBox="0 0 {WIDTH} {height}"'
    title = "Time that sparrow takes, relative to the tool used today"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="13">',
        f"<title>{title}</title>",
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" fill="#fcfdfd" stroke="#d5dcdc"/>',
        f'<text x="18" y="28" font-size="15" font-weight="600" fill="#17302d">{title}</text>',
        '<text x="18" y="47" fill="#5a6b69">shorter is faster; 1 is the other tool; two cores, medians</text>',
    ]
    bottom = TOP + ROW * len(bars)
    for tick in (0, 0.5, 1, 1.5, 2, 2.5):
        x = LEFT + tick * scale
        style = 'stroke="#17302d" stroke-dasharray="4 3"' if tick == 1 else 'stroke="#e3e9e8"'
        lines.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{bottom}" {style}/>')
        lines.append(f'<text x="{x:.1f}" y="{bottom + 18}" fill="#5a6b69" text-anchor="middle">{tick:g}</text>')
    for number, (ratio, bar) in enumerate(bars):
        y = TOP + ROW * number
        color = "#0f8a7d" if ratio < 1 else "#c77d2e"
        length = min(ratio, SCALE_MAX) * scale
        name, peer = html.escape(bar.label), html.escape(bar.peer)
        lines.append(
            f'<text x="{LEFT - 10}" y="{y + 15}" text-anchor="end" fill="#17302d">{name}'
            f'<tspan fill="#5a6b69"> / {peer}</tspan></text>'
        )
        lines.append(f'<rect x="{LEFT}" y="{y + 3}" width="{length:.1f}" height="{ROW - 9}" rx="2" fill="{color}"/>')
        lines.append(f'<text x="{LEFT + length + 6:.1f}" y="{y + 16}" fill="#17302d">{ratio:.2f}</text>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    CHART.write_text(draw_chart(read_results(RESULTS.read_text())))
