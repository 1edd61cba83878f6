"""The notebooks of docs/notebooks run in a kernel and show their results."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.notebook_outputs import notebook_paths, render_notebook, run_notebook, start_kernel

NOTEBOOKS = notebook_paths()

SHOWN = {
    "census": ["sex: Male", "[1., 0.]", "education: Prof-school  │    576 │  0.734", "capital-loss: none"],
    "ratings": ["u005", "(user: 600, film: 160)", "recall@10", "space opera 04", "'append', 'ingest columns'"],
    "web": ["40,000,000 bytes", "(src: 325557, dst: 325557)", "848 GB", "1 of 13 read", "866924"],
}


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A kernel that runs the notebooks, each in a clean namespace."""
    for name, why in (("jupytext", "keeps notebooks as text"), ("nbclient", "runs them"), ("ipykernel", "runs them")):
        pytest.importorskip(name, reason=why)
    pytest.importorskip("matplotlib", reason="notebooks have pictures")
    with start_kernel(tmp_path_factory.mktemp("notebooks")) as manager:
        yield manager


@pytest.mark.filterwarnings("ignore")  # of the libraries that run notebooks
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_shows_what_it_says(path: Path, kernel: Any) -> None:
    outputs = [out for cell in run_notebook(path, kernel).cells for out in cell.get("outputs", ())]
    text = "".join(out.get("text", "") + out.get("data", {}).get("text/plain", "") for out in outputs)
    assert [told for told in SHOWN[path.stem] if told not in text] == []
    pictures = [out["data"]["image/png"] for out in outputs if "image/png" in out.get("data", {})]
    assert len(pictures) == 1, "A.spy() is a picture by itself"
    assert len(base64.b64decode(pictures[0])) > 5000
    page = render_notebook(path)  # of the outputs that were stored
    assert list(page.images.values()) == [base64.b64decode(picture) for picture in pictures]
    assert page.markdown.count("<div data-output=") == len(page.outputs) > 3


def test_every_notebook_says_what_it_shows() -> None:
    assert set(SHOWN) == {path.stem for path in NOTEBOOKS}
