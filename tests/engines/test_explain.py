"""Rendered plans: text, HTML, JSON, pictures, counters per operator, no I/O."""

from __future__ import annotations

import json
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import sparrow as sp
import sparrow.testing
from sparrow import engines, storage
from sparrow.core.indexing import View
from sparrow.engines.profile import active
from sparrow.engines.tracing import NullTracer, trace
from sparrow.plan import Dense, make_matmul
from sparrow.plan.estimates import estimate_contraction
from sparrow.relations.protocol import Relation
from sparrow.runtime.duckdb_connection import isolate
from sparrow.runtime.progress import format_quantity
from sparrow.runtime.settings import config
from sparrow.storage.parquet.reader import evict_footer
from tests.engines.conftest import ENGINES
from tests.engines.helpers import Unreadable, at, memory, random_array, scan_of, stored_relation


@pytest.fixture(scope="module")
def tall(tmp_path_factory: pytest.TempPathFactory) -> Relation:
    folder = tmp_path_factory.mktemp("tall") / "a"
    sizes = storage.Sizes(file_rows=5000, group_rows=500)
    return stored_relation(folder, np.ones((400, 50)), (1, 0), sizes=sizes, dims=("src", "dst"))


def without_sizes(text: str) -> str:
    """Blank out sizes, and row groups of files whose footers were not read."""
    text = re.sub(r"groups  1 of \d+ read, \d+ skipped", "groups  1 of ALL read", text)
    return re.sub(r", [\d.]+ (bytes|kB|MB)\b", ", SIZE", text)


def test_scan_of_a_stored_tensor(tall: Relation) -> None:
    text = engines.explain(at(Unreadable(tall), slice(104, 99, -1), slice(10, 30, 2)))
    assert without_sizes(text) == (
        "scan (src: 5, dst: 10) float64, of (src: 400, dst: 50) float64 stored, version 0\n"
        "  engine      stream\n"
        "  predicate   src BETWEEN 100 AND 104 AND dst BETWEEN 10 AND 28 AND dst % 2 = 0\n"
        "  order       src, dst; the view's own order takes a sort\n"
        "  files       1 of 4 read, 3 skipped\n"
        "  row groups  1 of ALL read\n"
        "  rows        500 of 20000 read, 19500 skipped, SIZE"
    )


def test_scan_names_the_derived_order(tall: Relation) -> None:
    text = engines.explain(at(Unreadable(tall), slice(None), 7))
    assert "order       dst, src\n" in text
    assert "predicate   dst = 7\n" in text


def test_predicates_of_lists_and_full_scans() -> None:
    relation = Unreadable(memory(random_array((6, 7)), dims=("a", "b")))
    text = engines.explain(at(relation, [3, 1, 1], [0, 5, 2]))
    assert "predicate   a BETWEEN 1 AND 3 AND b <= 5 AND (a, b) IN a list of 3\n" in text
    assert "predicate   none: everything is read\n" in engines.explain(scan_of(relation))
    assert "no elements, nothing is read" in engines.explain(at(relation, slice(2, 2)))


def test_matmul(tall: Relation) -> None:
    with config(threads=2):
        text = engines.explain(make_matmul(at(Unreadable(tall), slice(0, 10)), Dense(np.ones(50))))
    assert without_sizes(text) == (
        "contraction ij,j->i plus_times (d0: 10) float64\n"
        "  engine      stream: whole of row_blocks x array, add, runs, array; 2 threads\n"
        "  choice      stream: product 1 of this matrix, repeated ones persist its rows\n"
        "  expected    500 products, 10 elements\n"
        "  costs       480 bytes held, SIZE spilled, 500 elements read\n"
        "  scan (src: 10, dst: 50) float64, of (src: 400, dst: 50) float64 stored, version 0\n"
        "    engine      stream\n"
        "    predicate   src <= 9\n"
        "    order       src, dst\n"
        "    files       1 of 4 read, 3 skipped\n"
        "    row groups  1 of ALL read\n"
        "    rows        500 of 20000 read, 19500 skipped, SIZE\n"
        "  dense (d0: 50) float64, in memory"
    )
    flipped = engines.explain(make_matmul(Dense(np.ones((3, 6))), scan_of(memory(random_array((6, 7))))))
    assert flipped.splitlines()[1].endswith("whole of row_blocks x array, add, scatter, array; 2 threads")
    assert flipped.splitlines()[5] == "  dense (d0: 3, d1: 6) float64, in memory"


def test_analyze_counts_reads(tall: Relation) -> None:
    text = engines.explain(at(tall, slice(0, 15)), analyze=True)
    assert "\nanalyzed: 750 elements from 1000 rows, 16.0 kB decoded in 2 chunks, " in text
    text = engines.explain(make_matmul(Dense(np.ones((3, 15))), at(tall, slice(0, 15))), analyze=True)
    assert "\nanalyzed: dense (d0: 3, d1: 50) float64 from 1000 rows, 16.0 kB decoded in 2 chunks, " in text


def test_expression_is_a_tree(tall: Relation) -> None:
    A: Any = sp.Tensor(tall)
    found = (A * 2 - A.T[:50].T).sum(axis=1)[100:104]
    text = engines.explain(found.__sparrow_scan__(), engine="duckdb")
    assert without_sizes(text) == (
        "reduce sum over dst (src: 4) float64\n"
        "  engine      duckdb\n"
        "  map subtract (src: 4, dst: 50) float64\n"
        "    engine      duckdb\n"
        "    elements    a union\n"
        "    map multiply (src: 4, dst: 50) float64\n"
        "      engine      duckdb\n"
        "      scan (src: 4, dst: 50) float64, of (src: 400, dst: 50) float64 stored, version 0\n"
        "        engine      duckdb\n"
        "        predicate   src BETWEEN 100 AND 103\n"
        "        order       src, dst\n"
        "        files       1 of 4 read, 3 skipped\n"
        "        row groups  1 of ALL read\n"
        "        rows        500 of 20000 read, 19500 skipped, SIZE\n"
        "      scalar 2\n"
        "    scan (src: 4, dst: 50) float64, of (src: 400, dst: 50) float64 stored, version 0\n"
        "      engine      duckdb\n"
        "      predicate   src BETWEEN 100 AND 103\n"
        "      order       src, dst\n"
        "      files       1 of 4 read, 3 skipped\n"
        "      row groups  1 of ALL read\n"
        "      rows        500 of 20000 read, 19500 skipped, SIZE"
    )
    assert "engine      duckdb" not in engines.explain(found.__sparrow_scan__())


def test_fallback_has_a_reason(tall: Relation) -> None:
    A: Any = sp.Tensor(Unreadable(tall))
    reason = "float64 to int8: overflow is undefined"
    text = engines.explain((A.astype("int8") + A)[:3, [5, 5]].__sparrow_scan__(), engine="duckdb")
    assert text.splitlines()[:9] == [
        "view (src: 3, dst: 2) float64",
        "  engine      duckdb",
        "  predicate   dst IN a list of 2",
        "  map add (src: 3, dst: 1) float64",
        "    engine      duckdb",
        "    elements    a union",
        "    map astype int8 (src: 3, dst: 1) int8",
        f"      engine      stream, fallback: {reason}",
        "      scan (src: 3, dst: 1) float64, of (src: 400, dst: 50) float64 stored, version 0",
    ]
    streamed = engines.explain((A + A).sum(axis=0, where="stored").__sparrow_scan__())
    assert streamed.startswith(
        "reduce sum over src of stored elements (dst: 50) float64\n"
        "  engine      stream\n"
        "  choice      stream: other engines take longer for this node\n"
        "  map add"
    )


def test_column_of_a_sum(tall: Relation) -> None:
    A: Any = sp.Tensor(tall)
    column = (A + A)[:, 7]
    assert "order       dst, src\n" in column.explain()
    assert column.to_numpy().tolist() == [2.0] * 400
    for engine in ("stream", "duckdb"):
        assert "\nanalyzed: 400 elements, " in column.explain(analyze=True, engine=engine)


@pytest.mark.parametrize("key", [(), (3,), ([2, 2],), (slice(None, None, -2), None, 4), (1, 1)])
def test_explain_reads_no_data(tmp_path: Path, key: Any) -> None:
    relation = Unreadable(stored_relation(tmp_path / "a", random_array((6, 7))))
    scan = at(relation, *key)
    engines.explain(scan)
    if scan.view.ndim in (1, 2):
        engines.explain(make_matmul(scan, Dense(np.ones(scan.schema.shape[-1]))))
    scan.transpose()
    with pytest.raises(AssertionError, match="was read"):
        engines.evaluate(scan_of(relation, View.identity((6, 7)).then(slice(1, None))))


def test_explain_loads_each_footer_once(tmp_path: Path) -> None:
    A: Any = sp.random((400, 50), nnz=5000, seed=1).save(tmp_path / "a")
    for tensor in (A, A[3], A[::-1], A[[3, 5]], A * 2 + A, A.T @ A):
        for file in A.files():
            evict_footer(file.path)
        with sparrow.testing.observe("storage.load_footer", "storage.read_row_group") as seen:
            tensor.explain()
        assert [name for name, _ in seen] == ["storage.load_footer"] * len(A.files())


def test_explain_shows_the_estimate_that_engines_use() -> None:
    A: Any = sp.random((40, 40), nnz=80, seed=2)
    for _ in range(sparrow.testing.tuning("plan").estimate_depth + 1):
        product = (A @ A).__sparrow_scan__()
        flops, nnz = estimate_contraction(product.step)
        expected = f"expected    {flops:.3g} products, {nnz:.3g} elements"
        assert expected in engines.explain(product)
        A = A * 2


def test_count_under_analyze_is_a_number() -> None:
    A: Any = sp.asarray(random_array((20, 30), seed=4))
    with sp.explained(analyze=True) as plans:
        count = (A + A).nnz
    assert plans[-1].summary[0].startswith(f"analyzed: {count}, ")
    with sp.explained(analyze=True) as plans:
        total, element, dot = A.sum(), (A + A)[0, 1], A[0] @ np.ones(30)
    results = [plan.summary[0].removeprefix("analyzed: ").split()[0].rstrip(",") for plan in plans]
    assert results == [str(total), str(element), str(dot)]


def entries_of(plan: engines.Plan) -> dict[str, Any]:
    return {entry.operation: entry for entry in plan.entries}


def test_analyze_counts_per_operator(tall: Relation) -> None:
    A: Any = sp.Tensor(tall)
    plan = (A[:100] * 2 + A[100:200]).sum(axis=1).explain(analyze=True)
    found = entries_of(plan)
    scan = found["scan"].actual
    assert scan["rows"] == 2 * 100 * 50
    assert scan["bytes_read"] == scan["rows"] * 16
    assert scan["partitions"] >= 2
    assert scan["seconds"] > 0
    assert f"actual      {scan['rows']} elements, {format_quantity(scan['bytes_read'], 'bytes')} decoded" in plan
    assert plan.summary[0].startswith("analyzed: 100 elements, ")


@pytest.mark.parametrize("engine", ENGINES)
def test_analyze_of_every_engine(engine: str) -> None:
    dense = random_array((6, 7), seed=1)
    A: Any = sp.asarray(dense)
    for tensor in (A, A * 2, (A + A).sum(axis=0), A @ A.T, A[::-1, 2:]):
        plan = tensor.explain(analyze=True, engine=engine)
        assert plan.startswith(tensor.explain(engine=engine).splitlines()[0])
        count = np.count_nonzero(tensor.to_numpy())
        assert f"analyzed: {count} elements" in plan


def test_plan_is_text_html_and_json(tall: Relation) -> None:
    A: Any = sp.Tensor(tall)
    for analyze in (False, True):
        plan = ((A + A.T[:50].T) * "<b>".count("b")).sum(axis=1).explain(analyze=analyze)
        assert isinstance(plan, str)
        assert isinstance(plan, engines.Plan)
        tree = json.loads(plan.to_json())
        assert tree["operation"] == "reduce sum over dst"
        assert tree["dims"] == {"src": 400}
        assert tree["dtype"] == "float64"
        assert tree["details"]["engine"] == "stream"
        operations, pending = [], [tree]
        while pending:
            node = pending.pop()
            operations.append(node["operation"])
            pending += reversed(node["operands"])
        assert operations == [entry.operation for entry in plan.entries]
        assert ("summary" in tree) is analyze
        text = plan._repr_html_()
        assert text.count("<details") == text.count("</details>") == len(plan.entries)
        assert "<td>stream</td>" in text
        copy = pickle.loads(pickle.dumps(plan))
        assert copy == plan
        assert copy.to_json() == plan.to_json()
    html = engines.explain(scan_of(memory(random_array((2, 2)), dims=("<i>", "b"))))._repr_html_()
    assert "<i>" not in html
    assert "&lt;i&gt;" in html


def test_plans_of_any_depth_render() -> None:
    chain: Any = sp.asarray(random_array((3, 3)))
    for _ in range(2000):
        chain = chain * 1
    plan = chain.explain()
    assert plan.to_json().count('"operation"') == len(plan.entries)
    assert plan._repr_html_().count("<details") == len(plan.entries)
    assert plan.plot().svg.count("<rect class='box'") == 2001


def nodes_of_json(plan: engines.Plan) -> list[dict[str, Any]]:
    found, pending = [], [json.loads(plan.to_json())]
    while pending:
        node = pending.pop()
        found.append(node)
        pending += reversed(node["operands"])
    return found


def test_repr_of_a_plan_is_its_text(tall: Relation) -> None:
    A: Any = sp.Tensor(tall)
    plan = A[3:5].explain()
    assert repr(plan) == str(plan) == "\n".join(plan.splitlines())
    assert type(str(plan)) is str
    with sp.explained() as plans:
        A.sum()
        A.max()
    assert repr(plans) == f"{plans[0]}\n\n{plans[1]}"
    assert plans._repr_html_().count("<details") == sum(len(each.entries) for each in plans)  # type: ignore[attr-defined]


@pytest.mark.parametrize("rows", [slice(None), slice(100, 104), slice(0, 150), slice(5, 5)], ids=str)
def test_scans_report_bytes_read_and_skipped(rows: slice, tmp_path: Path) -> None:
    values = random_array((400, 50), density=0.5)
    stored: Any = sp.asarray(values).save(tmp_path / "a")
    for A in (stored, sp.asarray(values)):
        (entry,) = A[rows].explain().entries
        reads, everything = entry.reads, A.explain().entries[0].reads
        assert everything["bytes_skipped"] == everything["rows_skipped"] == 0
        if rows != slice(5, 5):
            assert reads["bytes_read"] + reads["bytes_skipped"] == everything["bytes_read"]
        assert reads["rows_read"] + reads["rows_skipped"] == A.nnz
        assert (reads["bytes_read"] == 0) == (rows == slice(5, 5))


def test_skipped_files_count_as_skipped_bytes(tall: Relation) -> None:
    A: Any = sp.Tensor(tall)
    reads = A[100:104].explain().entries[0].reads
    assert (reads["files_read"], reads["files_skipped"]) == (1, 3)
    assert 0 < reads["bytes_read"] < reads["bytes_skipped"] < tall.nbytes
    assert nodes_of_json((A[100:104] * 2).explain())[1]["reads"] == reads


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("analyze", [False, True])
def test_pages_and_pictures_of_every_engine(engine: str, analyze: bool, tall: Relation) -> None:
    A: Any = sp.Tensor(tall)
    for tensor in (A, A[100:104] * 2, (A + A).sum(axis=0), A[:3] @ A[:5].T, A[5:5]):
        plan = tensor.explain(analyze=analyze, engine=engine)
        page, picture = plan._repr_html_(), plan.plot()
        scans = [entry for entry in plan.entries if entry.reads]
        assert scans
        assert page.count(" read, ") >= len(scans)
        assert page.count('class="sparrow-plan-bar"') == len(scans)
        boxes = sum(entry.schema is not None for entry in plan.entries)
        root = ElementTree.fromstring(picture.svg)
        shapes = [each.get("class") for each in root.iter("{http://www.w3.org/2000/svg}rect")]
        assert (shapes.count("box"), shapes.count("skipped")) == (boxes, len(scans))
        assert shapes.count("read") == sum(entry.reads["bytes_read"] > 0 for entry in scans)
        width, height = (float(root.get(name, 0)) for name in ("width", "height"))
        for each in root.iter("{http://www.w3.org/2000/svg}rect"):
            assert float(each.get("x", -1)) + float(each.get("width", 0)) <= width
            assert float(each.get("y", -1)) + float(each.get("height", 0)) <= height
        totals = json.loads(plan.to_json()).get("totals", {})
        assert ("seconds" in totals) is analyze
        if analyze:
            assert totals["elements"] == np.count_nonzero(tensor.to_numpy())
            assert plan.summary[0] in page
            assert f'<span class="sparrow-plan-chip">{totals["elements"]:,} elements</span>' in page
            assert f"{totals['elements']:,} elements, " in picture.svg


def test_analyzed_queries_have_the_operators_of_duckdb(tall: Relation) -> None:
    A: Any = sp.Tensor(tall)
    plan = (A[:100] @ A[:50].T).explain(analyze=True, engine="duckdb")
    names = [entry.operation for entry in plan.queries]
    assert "order by" in names
    assert any("join" in name for name in names)
    first = plan.queries[0].actual
    assert first["rows"] == 100 * 50
    assert first["spilled_bytes"] == 0
    assert all(entry.actual["seconds"] >= 0 for entry in plan.queries)
    found, pending = [], json.loads(plan.to_json())["queries"]
    while pending:
        node = pending.pop(0)
        found.append(node["operation"])
        pending = node["operands"] + pending
    assert found == names
    page = plan._repr_html_()
    assert "Operators of DuckDB" in page
    assert page.count("<details") == page.count("</details>") == len(plan.entries) + len(names) + 1
    assert pickle.loads(pickle.dumps(plan)).to_json() == plan.to_json()
    assert "queries" not in json.loads((A[:100] @ A[:50].T).explain(engine="duckdb").to_json())
    with sp.explained(analyze=True) as plans:
        (A * 2)[:5].compute()
    assert not plans[0].queries


def test_queries_are_profiled_under_analyze_only(tall: Relation) -> None:
    A: Any = sp.Tensor(tall)
    with sparrow.testing.observe("duckdb.open") as opened, isolate():
        (A * 2).compute(engine="duckdb")
        (A * 2).explain(analyze=True, engine="duckdb")
        con = sp.sql("SELECT current_setting('lock_configuration')")
    assert con.fetchall() == [(True,)]
    assert len(opened) == 2


def test_analyzed_pages_show_counters_of_operators(tall: Relation) -> None:
    A: Any = sp.Tensor(tall)
    with sparrow.testing.strategy("external_sum"):
        plan = (A[:100].T @ A[:100]).explain(analyze=True)
    (product,) = (entry.actual for entry in plan.entries if entry.operation.startswith("contraction"))
    page, picture = plan._repr_html_(), plan.plot().svg
    spilled = f"{format_quantity(product['spilled_bytes'], 'bytes')} spilled"
    assert product["spilled_bytes"] > 0
    for text in (f"{product['rows']:,} elements", f"{1000 * product['seconds']:,.1f} ms", product["strategy"], spilled):
        assert text in page
        assert text in picture


def test_pictures_are_saved_and_shown(tmp_path: Path) -> None:
    picture = engines.explain(scan_of(memory(random_array((2, 2)), dims=("<i>", "b")))).plot()
    picture.save(tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_text() == picture.svg == picture._repr_svg_()
    assert "&lt;i&gt;" in picture.svg
    assert "<style>" not in picture._repr_html_()  # text takes the color of the page
    with pytest.raises(sp.errors.InvalidValueError, match=r"path must end in '\.svg', got .*plan\.png"):
        picture.save(tmp_path / "plan.png")


def test_explained_collects_plans() -> None:
    A: Any = sp.asarray(random_array((4, 5)))
    with sp.explained(analyze=True) as plans:
        A @ np.ones(5)
        (A * 2).compute()
    assert all(isinstance(plan, engines.Plan) for plan in plans)
    assert json.loads(plans[0].to_json())["summary"][0].startswith("analyzed: dense (d0: 4) float64")
    assert json.loads(plans[1].to_json())["operands"][0]["actual"]["rows"] == A.nnz


def test_nothing_is_profiled_without_analyze() -> None:
    A: Any = sp.asarray(random_array((40, 50), seed=2))
    seen: list[Any] = []
    with sparrow.testing.on("stream.read", lambda **details: seen.append(active())), sp.explained():
        assert active() is None
        (A * 2 + A).compute()
        assert active() is None
    assert not any(seen)
    assert type(trace((A * 2).__sparrow_scan__(), engines.engine_for("stream"))) is NullTracer
    with sp.explained() as plans:
        (A * 2).compute()
    assert not any(entry.actual for entry in plans[0].entries)
    assert plans[0].summary == ()


def test_concurrent_analyses_do_not_mix() -> None:
    tensors = [sp.asarray(np.ones((n, 10))) for n in range(10, 18)]

    def analyze(A: Any) -> Any:
        return (A * 2).explain(analyze=True)

    with ThreadPoolExecutor(4) as pool:
        plans = list(pool.map(analyze, tensors * 3))
    for A, plan in zip(tensors * 3, plans, strict=True):
        assert entries_of(plan)["scan"].actual["rows"] == A.nnz
