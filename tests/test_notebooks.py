"""The notebooks of docs/notebooks run from beginning to end, in a kernel, and show what they say."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parent.parent / "docs" / "notebooks").glob("*.py"))

SHOWN = {
    "census": ["sex: Male", "[1., 0.]", "education: Prof-school  │    576 │  0.734", "capital-loss: none"],
    "ratings": ["u005", "(user: 600, film: 160)", "recall@10", "space opera 04", "'append', 'ingest columns'"],
    "web": ["40,000,000 bytes", "(src: 325557, dst: 325557)", "848 GB", "1 of 13 read", "866924"],
}


def executed(path: Path, folder: Path) -> Any:
    """Return the notebook with what its cells show."""
    jupytext = pytest.importorskip("jupytext", reason="notebooks are kept as text")
    nbclient = pytest.importorskip("nbclient", reason="runs notebooks")
    pytest.importorskip("ipykernel", reason="runs notebooks")
    pytest.importorskip("matplotlib", reason="notebooks have pictures")
    notebook = jupytext.read(path)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


@pytest.mark.filterwarnings("default")  # of the libraries that run notebooks
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_shows_what_it_says(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = path.parents[2]
    monkeypatch.setenv("PYTHONPATH", str(root))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    outputs = [out for cell in executed(path, tmp_path).cells for out in cell.get("outputs", ())]
    text = "".join(
        out.get("text", "") + "".join(each for kind, each in out.get("data", {}).items() if kind == "text/plain")
        for out in outputs
    )
    assert [told for told in SHOWN[path.stem] if told not in text] == []
    pictures = [out["data"]["image/png"] for out in outputs if "image/png" in out.get("data", {})]
    assert len(pictures) == 1, "A.spy() is a picture by itself"
    (tmp_path / "picture.png").write_bytes(base64.b64decode(pictures[0]))
    assert len((tmp_path / "picture.png").read_bytes()) > 5000


def test_every_notebook_says_what_it_shows() -> None:
    assert set(SHOWN) == {path.stem for path in NOTEBOOKS}
