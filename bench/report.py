"""The file of results: one section per part, from its latest run."""

from __future__ import annotations

import re
from pathlib import Path

from harness import Row, machine, table

HEADER = """# Benchmark results

Written by `make bench` (`python bench/run.py --write`, or `--only PART`): one table per part, latest run of each.
Medians of alternating runs, page cache warm, default settings. Ratios are sparrow's time (or bytes, or memory) over the
peer's; only ratios carry over between machines. **no** marks a goal that is missed.
"""


def update_results(path: Path, title: str, rows: list[Row], order: list[str]) -> None:
    """Replace the section of one part in the file of results.

    Parameters
    ----------
    path
        The Markdown file; created if it does not exist.
    title
        Heading of the section.
    rows
        Rows of its table.
    order
        Headings in the order of the file.
    """
    sections = read_sections(path)
    sections[title] = f"{machine()}.\n\n{table(rows)}"
    path.write_text(render(sections, order), encoding="utf-8")


def read_sections(path: Path) -> dict[str, str]:
    """Return the text of each section by heading."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)[1:]
    return {title: body.strip("\n") for title, body in zip(parts[::2], parts[1::2], strict=True)}


def render(sections: dict[str, str], order: list[str]) -> str:
    """Return the whole file."""
    known = [title for title in order if title in sections]
    return HEADER + "".join(f"\n## {title}\n\n{sections[title]}\n" for title in known)
