"""Files in, stored tensors out: ``sp.ingest.<format>(src, dst, ...)``, as ``sparrow ingest <format> SRC DST``.

Every format streams within the memory limit, shows its progress, tells compression from the content,
takes several files or a glob and ``"-"`` for standard input, and is atomic: failure, a kill or Ctrl-C
leaves nothing visible.
"""

from __future__ import annotations

import inspect
import re
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

from sparrow.files.columns import columns as _columns
from sparrow.files.edges import edges as _edges
from sparrow.files.libsvm import libsvm as _libsvm
from sparrow.files.npz import npz as _npz
from sparrow.functions.creation import open as open_stored

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["columns", "edges", "libsvm", "npz"]

P = ParamSpec("P")


def _opened(read: Callable[P, str], returns: str, example: str) -> Callable[P, Any]:
    """Return a reader that returns what :func:`sparrow.open` does instead of the path."""

    @wraps(read)
    def ingest(*args: P.args, **kwargs: P.kwargs) -> Any:
        return open_stored(read(*args, **kwargs))

    ingest.__module__ = __name__
    signature = inspect.signature(read)
    returned = returns.split("\n", 1)[0]
    vars(ingest)["__signature__"] = signature.replace(return_annotation=returned)
    ingest.__annotations__ = {**read.__annotations__, "return": returned}
    if read.__doc__ is not None:
        doc = inspect.cleandoc(read.__doc__).partition("\nExamples\n--------\n")[0].rstrip()
        said = "Returns\n-------\n" + returns.strip() + "\n\n"
        ingest.__doc__ = (
            re.sub(r"Returns\n-------\n.*?\n\n(?=Raises\n)", lambda _: said, doc, flags=re.DOTALL)
            + f"\n\nExamples\n--------\n{example.strip()}\n"
        )
    return ingest


libsvm = _opened(
    _libsvm,
    """\
Bundle
    What ``sp.open(dst)`` does: a mapping of ``"X"``, ``"y"`` and, where it occurs, ``"qid"`` to stored tensors.
""",
    r"""
>>> from pathlib import Path
>>> import sparrow as sp
>>> size = Path("two.svm").write_text("1 3:0.5\n-1 1:2 4:1 # a comment\n")
>>> data = sp.ingest.libsvm("two.svm", "two.sparrow")
>>> data["X"].shape, data["y"].to_numpy()
((2, 4), array([ 1., -1.]))
""",
)

edges = _opened(
    _edges,
    """\
Tensor
    What ``sp.open(dst)`` does: a stored tensor of shape (n, n), n the largest id + 1 or, where there are
    labels, their number.
""",
    r"""
>>> from pathlib import Path
>>> import sparrow as sp
>>> size = Path("links.txt").write_text("# src dst\n0 2\n2\t1\n")
>>> web = sp.ingest.edges("links.txt", "links.sparrow")
>>> web.shape, web.dims, web.nnz
((3, 3), ('src', 'dst'), 2)
""",
)

columns = _opened(
    _columns,
    """\
Tensor
    What ``sp.open(dst)`` does: a stored tensor with a dimension for each column of ``coords``.
""",
    r"""
>>> from pathlib import Path
>>> import sparrow as sp
>>> size = Path("ratings.csv").write_text("user,film,stars\nada,7,4.5\nbob,7,3\n")
>>> ratings = sp.ingest.columns("ratings.csv", "ratings.sparrow", coords=["user", "film"], value="stars")
>>> ratings.shape, ratings.labels("user").to_pylist(), ratings.nnz
((2, 8), ['ada', 'bob'], 2)
""",
)

npz = _opened(
    _npz,
    """\
Tensor
    What ``sp.open(dst)`` does: a stored tensor of the array's shape, dtype and fill.
""",
    r"""
>>> import scipy.sparse, sparrow as sp
>>> scipy.sparse.save_npz("eye.npz", scipy.sparse.eye_array(3))
>>> sp.ingest.npz("eye.npz", "eye.sparrow").nnz
3
""",
)
