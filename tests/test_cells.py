"""Progress and errors in the cells of a notebook."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cells import run_cells, running_kernel

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries that run notebooks

SETUP = """
import sys
from contextlib import ExitStack
import numpy as np, sparrow as sp, sparrow.testing
from sparrow.runtime import progress
_shown = ExitStack()
_ = _shown.enter_context(sparrow.testing.tune("runtime", progress_delay_seconds=0.0, progress_interval_seconds=0.0))
"""
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with running_kernel(tmp_path_factory.mktemp("cells")) as found:
        outputs, _ = run_cells(found, SETUP)
        assert outputs == [[]]
        yield found


@pytest.fixture(params=["widgets", "plain"])
def front_end(request: pytest.FixtureRequest, kernel: Any) -> Iterator[Any]:
    """The kernel, with and without ipywidgets."""
    if request.param == "widgets":
        pytest.importorskip("ipywidgets", reason="progress bars are widgets where it is installed")
        yield kernel, True
    else:
        run_cells(kernel, 'import sys; sys.modules["ipywidgets"] = None')
        yield kernel, False
        run_cells(kernel, 'del sys.modules["ipywidgets"]')


def bars_of(outputs: list[Any]) -> list[str]:
    """Return the bars among outputs as plain text; check that there is nothing else."""
    for output in outputs:
        assert output["output_type"] == "display_data", output
        assert {"text/plain", "text/html"} == set(output["data"])
    return [output["data"]["text/plain"] for output in outputs]


BAR = """
with progress.bar("reading <a>", 10, "rows") as advance:
    for _ in range(5):
        advance(2)
"""


def test_a_bar_is_updated_in_place(front_end: Any) -> None:
    kernel, has_widgets = front_end
    (outputs,), messages = run_cells(kernel, BAR)
    (bar,) = bars_of(outputs)
    assert re.fullmatch(r"reading <a>  100%  10 rows, [\d.]+k?/s, in 0:00", bar)
    html = outputs[0]["data"]["text/html"]
    assert "reading &lt;a&gt;" in html
    assert 'role="progressbar" aria-valuenow="100"' in html
    shown = [content for kind, content in messages if kind == "display_data"]
    updated = [content for kind, content in messages if kind == "update_display_data"]
    assert len(shown) == 1
    assert {content["transient"]["display_id"] for content in (*shown, *updated)} == {
        shown[0]["transient"]["display_id"]
    }
    assert (WIDGET_VIEW in shown[0]["data"]) is has_widgets
    assert WIDGET_VIEW not in updated[-1]["data"], "a widget is lost when the notebook is opened again"
    assert len(updated) == (1 if has_widgets else 5), "a running widget is updated by its own messages"
    values = [
        content["data"]["state"]["value"]
        for kind, content in messages
        if kind == "comm_msg" and "value" in content["data"].get("state", {})
    ]
    assert [f"{2 * k} of 10 rows" in value for k, value in enumerate(values, 2)] == [True] * (4 if has_widgets else 0)
    opened, closed = (
        sorted(content["comm_id"] for kind, content in messages if kind == name) for name in ("comm_open", "comm_close")
    )
    assert opened == closed
    assert bool(opened) is has_widgets


def test_front_ends_without_widgets_see_updates(kernel: Any) -> None:
    pytest.importorskip("ipywidgets", reason="progress bars are widgets where it is installed")
    tuned = f'with sparrow.testing.tune("runtime", progress_bundle_seconds=0.0):{BAR}'.replace("\n", "\n    ")
    _, messages = run_cells(kernel, tuned)
    updated = [content["data"] for kind, content in messages if kind == "update_display_data"]
    assert [WIDGET_VIEW in data for data in updated] == [True] * 4 + [False]
    assert [f"{2 * k} of 10 rows" in data["text/html"] for k, data in enumerate(updated[:-1], 2)] == [True] * 4


def test_a_bar_that_fails_says_so(front_end: Any) -> None:
    kernel, _ = front_end
    ((bar, error),), _ = run_cells(
        kernel, 'with progress.bar("reading", 10, "rows") as advance:\n    advance(5)\n    1 / 0'
    )
    assert bar["data"]["text/plain"].startswith("reading  50%  5 of 10 rows, ")
    assert "stopped after" in bar["data"]["text/plain"]
    assert error["ename"] == "ZeroDivisionError"


def test_bars_in_threads_stay_in_their_cell(kernel: Any) -> None:
    source = """
from threading import Thread
with progress.bar("reading", 40, "rows") as advance:
    threads = [Thread(target=lambda: [advance(1) for _ in range(10)]) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
"""
    (outputs, after), _ = run_cells(kernel, source, "1 + 1")
    assert bars_of(outputs)[0].startswith("reading  100%  40 rows")
    assert after[0]["data"]["text/plain"] == "2"


TRAINING = """
X, y = sp.random((300, 8), density=0.5, seed=2), np.arange(300) % 2
linear = sp.models.LogisticRegression(epochs=5).fit(X, y)
als = sp.models.ALS(4, epochs=5).fit(X)
print(f"{linear.loss_[-1]:.6g} {als.loss_[-1]:.6g}")
"""


def test_training_ends_with_the_last_epoch(kernel: Any) -> None:
    (outputs,), _ = run_cells(kernel, TRAINING)
    *shown, printed = outputs
    losses = printed["text"].split()
    bars = [bar for bar in bars_of(shown) if bar.startswith("epoch")]
    for bar, loss in zip(bars, losses, strict=True):
        assert bar.startswith(f"epoch 5 of 5, loss {loss}  100%  ")


INGEST = r"""
from pathlib import Path
_ = Path("links.txt").write_text("".join(f"{k % 50} {k % 77}\n" for k in range(5000)))
_ = Path("zeros.txt").write_text("0 1 0\n1 2 5\n")
_ = sp.ingest.edges("links.txt", "links.sparrow", overwrite=True)
_ = sp.ingest.edges("zeros.txt", "zeros.sparrow", overwrite=True)
_ = sp.ingest("links.txt", "more.sparrow", overwrite=True)
"""


def test_an_ingest_writes_nothing_to_standard_error(kernel: Any) -> None:
    (outputs,), _ = run_cells(kernel, INGEST)
    texts = bars_of(outputs)
    assert [text for text in texts if "1 of value 0 dropped" in text], "a note among the outputs"
    assert not [text for text in texts if "bytes on disk" in text]
    bars = [text for text in texts if "%" in text]
    assert {"reading edges", "writing"} <= {bar.partition("  ")[0] for bar in bars}
    assert all("100%" in bar for bar in bars)


def test_no_progress_where_it_is_disabled(kernel: Any) -> None:
    (outputs, captured, hidden), _ = run_cells(
        kernel,
        "with sp.config(progress=False):\n    "
        + BAR.strip().replace("\n", "\n    ")
        + '\n    progress.write_note("a")',
        "%%capture found\n" + BAR,
        "found.outputs, found.stderr",
    )
    assert outputs == captured == []
    assert hidden[0]["data"]["text/plain"] == "([], '')"


# -- tracebacks ------------------------------------------------------------------------------------

ERRORS = {
    "index": ("A[99]", "index 99 is out of range for dimension 0"),
    "shapes": ("A @ A", "shapes (5, 6) and (5, 6) do not fit"),
    "missing": ('sp.open("nowhere.sparrow")', "no tensor at"),
    "label": ('A.labels("zz")', "no dimension 'zz'"),
    "truth": ("bool(A)", "the truth value of a tensor of shape (5, 6) is ambiguous"),
    "lazy": ("(A + 1).sum(axis=7)", "axis 7 "),
    "threads": ("A[:, [0, 99]].compute()", "99 is out of range"),
    "numpy": ("np.add(A, np.ones((2, 2)))", "(2, 2)"),
    "attribute": ("A.topics", "no attribute 'topics'"),
    "setting": ("sp.config.cores", "unknown setting 'cores'"),
    "name": ("sp.tensors", "tensors"),
    "submodule": ("sp.linalg.solve_it", "solve_it"),
    "argument": ('sp.ingest.columns("a", "b", bogus=1)', "columns() "),
    "option": ("sp.linalg.cg(sp.eye(3), [1, 2, 3], bogus=1)", "bogus"),
    "sql": ('sp.sql("selec 1")', "syntax error at or near"),
    "ingest": ('Path("bad.txt").write_text("1 2\\n1 x\\n"); sp.ingest.mtx("bad.txt", "bad")', "bad.txt"),
}


def traceback_of(kernel: Any, *sources: str) -> str:
    """Return the traceback that the last cell shows, without colors."""
    outputs, _ = run_cells(kernel, "from pathlib import Path\nA = sp.random((5, 6), nnz=8, seed=1)", *sources)
    (error,) = [output for output in outputs[-1] if output["output_type"] == "error"]
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error["traceback"]))


@pytest.mark.parametrize("name", ERRORS)
def test_tracebacks_show_the_line_and_the_message(name: str, kernel: Any) -> None:
    line, message = ERRORS[name]
    text = traceback_of(kernel, f"before = 1\n{line}\nafter = 2")
    assert f"----> 2 {line}" in text
    assert message in text
    assert "Cell In[" in text
    assert not re.search(r"sparrow/\w+|site-packages|hidden", text), text
    assert text.count("Traceback (most recent call last)") == 1


def test_all_frames_are_shown_on_request(kernel: Any) -> None:
    try:
        text = traceback_of(kernel, "%xmode --show", "A[99]")
    finally:
        run_cells(kernel, "%xmode --hide")
    assert "sparrow/tensor/" in text


@pytest.mark.parametrize("mode", ["Plain", "Verbose", "Minimal"])
def test_every_mode_of_tracebacks(mode: str, kernel: Any) -> None:
    try:
        text = traceback_of(kernel, f"%xmode {mode}", "def use(A):\n    return A[99]\n\nuse(A)")
    finally:
        run_cells(kernel, "%xmode Context")
    assert "index 99 is out of range" in text
    assert "sparrow/" not in text
    assert ("return A[99]" in text) is (mode != "Minimal")


def test_hidden_frames_are_marked_for_the_debugger(kernel: Any) -> None:
    traceback_of(kernel, "A[99]")
    source = """
import sys, traceback
frames = [frame for frame, _ in traceback.walk_tb(sys.last_traceback)]
[("sparrow/" in frame.f_code.co_filename, frame.f_locals.get("__tracebackhide__") is True) for frame in frames[1:]]
"""
    outputs, _ = run_cells(kernel, source)
    found = eval(outputs[0][0]["data"]["text/plain"])
    assert found[0] == (False, False)
    assert found[1:] == [(True, True)] * (len(found) - 1)


def test_bugs_are_shown_in_full(kernel: Any) -> None:
    source = """
class Odd:
    def __array__(self, *args, **options):
        return {}["missing"]

sp.asarray(Odd())
"""
    text = traceback_of(kernel, source)
    assert "sparrow/functions/creation.py" in text
    assert 'return {}["missing"]' in text


def test_frames_of_the_user_stay(kernel: Any) -> None:
    source = """
def produce():
    yield A[99]

try:
    A[98]
except IndexError as error:
    try:
        list(map(lambda found: next(found), [produce()]))
    except IndexError as other:
        raise ValueError("my own") from other
"""
    text = traceback_of(kernel, source)
    assert "yield A[99]" in text
    assert "index 99 is out of range" in text
    assert "index 98 is out of range" in text
    assert "ValueError: my own" in text
    assert "sparrow/" not in text


def test_tracebacks_of_python_are_whole(kernel: Any) -> None:
    source = """
import traceback
try:
    A[99]
except IndexError:
    print(traceback.format_exc())
%tb
"""
    outputs, _ = run_cells(kernel, "A = sp.random((5, 6), nnz=8, seed=1)", source)
    assert "sparrow/tensor" in outputs[-1][0]["text"]


def test_an_interrupt_shows_the_line(kernel: Any) -> None:
    source = """
import sparrow.testing
def interrupt(**details):
    raise KeyboardInterrupt
with sparrow.testing.on("progress.start", interrupt):
    sp.graph.triangles(sp.eye(4))
"""
    text = traceback_of(kernel, source)
    assert "raise KeyboardInterrupt" in text
    assert "sp.graph.triangles(sp.eye(4))" in text
    assert "sparrow/" not in text
