"""The site: outputs of notebooks, formulas, search, types; the chart."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from docs.charts import BARS, CHART, RESULTS, draw_chart, read_results
from docs.search_words import SYNONYMS

REPOSITORY = Path(__file__).resolve().parent.parent

SEARCHES = {
    "plot": "reference/tensor.html",
    "pca": "recipes/cells.html",
    "normalize": "recipes/cells.html",
    "groupby": "coming-from.html",
    "louvain": "reference/graph.html",
    "install": "install.html",
    "pandas": "coming-from.html",
    "embedding": "recipes/embeddings.html",
}


def test_chart_shows_the_latest_bench() -> None:
    assert CHART.read_text() == draw_chart(read_results(RESULTS.read_text())), "run python docs/charts.py"


def test_chart_shows_losses() -> None:
    ratios = read_results(RESULTS.read_text())
    found = [ratios[bar.part, bar.work, bar.row_peer] for bar in BARS if not bar.is_speed]
    assert min(found) < 0.1
    assert sum(ratio > 1 for ratio in found) >= 3


def list_sources() -> list[Path]:
    """Return the files that the site is made of, and others."""
    folders = [REPOSITORY / name for name in ("bench", "docs", "sparrow")]
    found = [path for folder in folders for path in folder.rglob("*") if "__pycache__" not in path.parts]
    return [path for path in (*found, *REPOSITORY.glob("*.*")) if path.is_file()]


def build_site(folder: Path) -> None:
    """Build the site in a folder, or skip the test.

    A site of ``make site`` that is newer than its sources is copied.
    """
    built = REPOSITORY / "site" / "search" / "search_index.json"
    if built.exists() and built.stat().st_mtime > max(path.stat().st_mtime for path in list_sources()):
        shutil.copytree(REPOSITORY / "site", folder, dirs_exist_ok=True)
        return
    for name in ("mkdocs", "mkdocstrings", "jupytext", "nbclient", "ipykernel", "matplotlib"):
        pytest.importorskip(name, reason="the extra docs builds the site")
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)],
        cwd=REPOSITORY,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def check_searches_find_their_pages(site: Path) -> None:
    """Check that the words people search for find their pages."""
    entries = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    pages = {entry["location"]: entry for entry in entries if "#" not in entry["location"]}
    # Tags weigh more than all text in the search of the theme.
    found = {word: {location for location, page in pages.items() if word in page.get("tags", ())} for word in SEARCHES}
    assert {word: page for word, page in SEARCHES.items() if page not in found[word]} == {}
    assert {page for page in SYNONYMS if page.replace(".md", ".html") not in pages} == set()


def check_notebooks_have_outputs_and_pictures(site: Path) -> None:
    """Check that notebooks are shown with outputs and pictures."""
    for path in (REPOSITORY / "docs" / "notebooks").glob("*.py"):
        page = (site / "notebooks" / f"{path.stem}.html").read_text()
        assert page.count('class="notebook-output"') > 4, path.stem
        for picture in re.findall(r'<img src="([\w-]+\.png)"', page):
            assert (site / "notebooks" / picture).stat().st_size > 5000
        assert "<img src=" in page
        assert "data-output" not in page


def check_formulas_and_types_are_rendered(site: Path) -> None:
    """Check that formulas and types of signatures are rendered."""
    models = (site / "reference" / "models.html").read_text()
    assert ":math:" not in models
    assert ".. math::" not in models
    assert '<span class="arithmatex">\\(\\lambda\\)</span>' in models
    assert '<div class="arithmatex">\\[\n' in models
    assert (site / "assets" / "katex" / "katex.min.js").stat().st_size > 100_000
    text = re.sub(r"<[^>]+>", "", (site / "reference" / "types-and-settings.html").read_text())
    assert re.search(r"config\(\s*\*,\s*memory_limit: int \| float \| str \| None = None,", text)


def check_home_shows_pictures_and_a_toggle(site: Path) -> None:
    """Check that the home page shows its pictures and a theme toggle."""
    home = (site / "index.html").read_text()
    for picture in ("images/web.png", "images/speed.svg"):
        assert f'src="{picture}"' in home
        assert (site / picture).exists()
    assert re.findall(r'data-md-color-media="([^"]*)"', home) == [
        "(prefers-color-scheme)", "(prefers-color-scheme: light)", "(prefers-color-scheme: dark)",
    ]  # fmt: skip


def check_pages_load_nothing_from_elsewhere(site: Path) -> None:
    """Check that pages load nothing from other hosts."""
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="(https?:[^"]*)"', page.read_text())
        loaded += re.findall(r'<link rel="(?:stylesheet|preconnect)"[^>]* href="(https?:[^"]*)"', page.read_text())
        assert loaded == [], page.name


@pytest.mark.slow
def test_site(tmp_path: Path) -> None:
    build_site(tmp_path)  # once: it takes half a minute
    check_searches_find_their_pages(tmp_path)
    check_notebooks_have_outputs_and_pictures(tmp_path)
    check_formulas_and_types_are_rendered(tmp_path)
    check_home_shows_pictures_and_a_toggle(tmp_path)
    check_pages_load_nothing_from_elsewhere(tmp_path)
