"""Run the notebooks of docs/notebooks, and render them with their outputs.

``tests/test_notebooks.py`` runs them and stores the outputs in ``.notebooks/``; the site shows those while neither the
notebook nor sparrow has changed, and runs the notebook otherwise.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import html
import importlib
import os
import re
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
STORED = ROOT / ".notebooks"
RUN_SECONDS_MAX = 300


class Page(NamedTuple):
    """A notebook as a page: its outputs stand at ``<div data-output="N">``."""

    title: str
    markdown: str
    outputs: list[str]
    images: dict[str, bytes]


def notebook_paths() -> list[Path]:
    """Return the notebooks, by name."""
    return sorted((ROOT / "docs" / "notebooks").glob("*.py"))


@contextmanager
def start_kernel(folder: Path) -> Iterator[Any]:
    """Start a Jupyter kernel that works in a folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that run notebooks
        os.environ["JUPYTER_PLATFORM_DIRS"] = "1"
        manager: Any = importlib.import_module("jupyter_client.manager").KernelManager(
            client_class="jupyter_client.asynchronous.AsyncKernelClient"
        )
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        manager.start_kernel(
            cwd=str(folder),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(folder)},
            stderr=subprocess.DEVNULL,
        )
        try:
            yield manager
        finally:
            manager.shutdown_kernel(now=True)


def run_notebook(path: Path, kernel: Any) -> Any:
    """Run a notebook in a clean namespace, store it with its outputs, and return it."""
    jupytext, nbclient, nbformat = map(importlib.import_module, ("jupytext", "nbclient", "nbformat"))
    notebook = jupytext.read(path)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f\n%pwd"))
    client: Any = nbclient.NotebookClient(notebook, km=kernel, timeout=RUN_SECONDS_MAX)
    try:
        client.execute()
    finally:
        client.kc.stop_channels()
        client.kc.context.destroy(linger=0)
    folder = ast.literal_eval(notebook.cells.pop(0).outputs[0].data["text/plain"])
    STORED.mkdir(exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=STORED, delete=False) as file:
        file.write(nbformat.writes(notebook).replace(folder, "/home/ann"))  # the same bytes from each run
    os.replace(file.name, _stored_path(path))
    return load_notebook(path)


def load_notebook(path: Path) -> Any:
    """Return a notebook with its outputs, stored or computed."""
    stored = _stored_path(path)
    if stored.exists():
        return importlib.import_module("nbformat").read(stored, as_version=4)
    with tempfile.TemporaryDirectory() as folder, start_kernel(Path(folder)) as kernel:
        return run_notebook(path, kernel)


def _stored_path(path: Path) -> Path:
    """Return the path of outputs, named after the sources they depend on."""
    digest = hashlib.sha256(path.read_bytes())
    for folder, suffix in (("sparrow", ".py"), ("sql", ".sql")):
        for source in sorted((ROOT / folder).rglob(f"*{suffix}")):
            digest.update(source.read_bytes())
    return STORED / f"{path.stem}-{digest.hexdigest()[:16]}.ipynb"


def render_notebook(path: Path) -> Page:
    """Return a notebook as a page of the site."""
    parts: list[str] = []
    outputs: list[str] = []
    images: dict[str, bytes] = {}
    for cell in load_notebook(path).cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        shown = "".join(_render_output(output, path.stem, images) for output in _merge_streams(cell.outputs))
        if shown:
            parts.append(f'<div data-output="{len(outputs)}"></div>')
            outputs.append(f'<div class="notebook-output">{shown}</div>')
    title = next(part for part in parts if part.startswith("# ")).partition("\n")[0].lstrip("# ")
    return Page(title, "\n\n".join(parts), outputs, images)


def _merge_streams(outputs: list[Any]) -> list[Any]:
    """Join consecutive outputs of one stream."""
    merged: list[Any] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if last and output.output_type == "stream" == last.output_type and output.name == last.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def _render_output(output: Any, stem: str, images: dict[str, bytes]) -> str:
    """Return one output as HTML; pictures become files."""
    if output.output_type == "stream":
        return _preformat(output.text)
    if output.output_type == "error":
        raise RuntimeError("\n".join(output.traceback))
    data = output.data
    if "text/html" in data:
        return str(data["text/html"])
    if "image/png" in data:
        name = f"{stem}-{len(images) + 1}.png"
        images[name] = base64.b64decode(data["image/png"])
        alt = html.escape(str(data.get("text/plain", "")))
        return f'<p><img src="{name}" alt="{alt}"></p>'
    return _preformat(str(data.get("text/plain", "")))


def _preformat(text: str) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return f"<pre><code>{html.escape(plain)}</code></pre>"
