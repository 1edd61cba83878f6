"""Cells of notebooks, run by a kernel as a front end runs them."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def running_kernel(folder: Path) -> Iterator[Any]:
    """Start a kernel in a folder; skip the test if something is not installed."""
    for name, why in (("nbclient", "runs cells"), ("ipykernel", "runs cells")):
        pytest.importorskip(name, reason=why)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that run notebooks
        from jupyter_client.manager import KernelManager

        patch.setenv("PYTHONPATH", str(ROOT))
        patch.setenv("TMPDIR", str(folder))
        patch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        manager: Any = KernelManager(client_class="jupyter_client.asynchronous.AsyncKernelClient")
        manager.start_kernel(cwd=str(folder))
        try:
            yield manager
        finally:
            manager.shutdown_kernel(now=True)


def run_cells(kernel: Any, *sources: str) -> tuple[list[list[Any]], list[tuple[str, Any]]]:
    """Run cells; return the outputs of each, and all messages that made them."""
    nbclient, nbformat = map(importlib.import_module, ("nbclient", "nbformat"))
    messages: list[tuple[str, Any]] = []

    class Client(nbclient.NotebookClient):  # type: ignore[misc, name-defined]
        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            messages.append((msg["header"]["msg_type"], msg["content"]))
            return super().process_message(msg, cell, cell_index)

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    client = Client(notebook, km=kernel, timeout=120, allow_errors=True)
    try:
        client.execute()
    finally:
        client.kc.stop_channels()
        client.kc.context.destroy(linger=0)
    return [list(cell.outputs) for cell in notebook.cells], messages
