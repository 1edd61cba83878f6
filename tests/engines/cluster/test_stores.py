"""Tasks that write to an object store."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sparrow as sp
import sparrow.testing
from sparrow import engines
from sparrow.engines.cluster import Cluster
from sparrow.engines.cluster.processes import Processes
from sparrow.storage.fs.filesystem import get_filesystem
from tests.engines.cluster.failing import Deadly, Refusing, map_elements
from tests.engines.cluster.helpers import elements
from tests.storage.server import BUCKET, OPTIONS, moto


@pytest.fixture(scope="module")
def home() -> Iterator[str]:
    pytest.importorskip("moto", reason="moto, of the extra dev, is the server")
    pytest.importorskip("obstore", reason="obstore, of the extra cloud, writes to object stores")
    with moto() as address, pytest.MonkeyPatch.context() as patch:
        for name, value in {**OPTIONS, "AWS_ENDPOINT_URL": f"http://{address}", "AWS_ALLOW_HTTP": "true"}.items():
            patch.setenv(name, value)
        pool = Processes(2)  # whose processes have these variables
        open_pool: Any = lambda cluster: pool  # noqa: E731
        engines.register(Cluster("stores", open_pool))
        with sparrow.testing.strategy("tiny_tasks", "partitioned"), sp.config(engine="stores"):
            yield f"s3://{BUCKET}/{uuid.uuid4().hex[:12]}"
        engines.unregister("stores")
        pool.close()


def works(seen: list[Any]) -> list[str]:
    return [type(details["work"]).__name__ for name, details in seen if name == "cluster.round"]


def test_save_and_ingest(matrix: Any, home: str, tmp_path: Path) -> None:
    (tmp_path / "deaths").mkdir()
    plan = map_elements(Deadly(str(tmp_path / "deaths"), 300.0), matrix)
    with sparrow.testing.observe("cluster.round", "cluster.death") as seen:
        A = plan.save(f"{home}/A", orders=[(1, 0)])
    assert works(seen) == ["Files", "Files"]
    assert len(seen) == 3
    assert elements(A) == elements(matrix)
    assert A.verify() == []
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("".join(f"a{k} b{k % 7}\n" for k in range(number, 90, 3)))
    with sparrow.testing.observe("cluster.round") as seen:
        B = sp.ingest.edges(str(tmp_path / "*.txt"), f"{home}/B")
    assert works(seen) == ["ParsedFiles", "MergedRows"]
    assert B.nnz == 90
    assert B.verify() == []


def test_failures_leave_nothing(matrix: Any, home: str) -> None:
    files = get_filesystem(home)
    with pytest.raises(OverflowError, match=r"300\.0 is refused"):
        map_elements(Refusing(300.0), matrix).save(f"{home}/C")
    assert not files.is_folder(f"{home}/C")
    C = (matrix * 2).save(f"{home}/C")
    assert elements(C) == elements(matrix * 2)
    with sparrow.testing.observe("cluster.round") as seen:
        C = (matrix * 3).save(f"{home}/C", overwrite=True)  # readers of the old one go on
    assert works(seen) == ["Elements"]
    assert elements(C) == elements(matrix * 3)
    with sparrow.testing.observe("cluster.round") as seen:
        D = (matrix * 3).save(f"{home}/D", storage_options=OPTIONS)  # which tasks do not get
    assert works(seen) == ["Elements"]
    assert elements(D) == elements(matrix * 3)
