"""Tensors on an S3 server behind a proxy that counts, delays and refuses."""

from __future__ import annotations

import gzip
import itertools
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import sparrow as sp
import sparrow.testing
from sparrow import errors, storage
from sparrow.core.indexing import Box
from sparrow.core.schema import Schema
from sparrow.relations.edits import Edit, apply_edit
from sparrow.storage.fs.filesystem import get_filesystem
from sparrow.storage.fs.objects import ObjectStore
from sparrow.storage.parquet import reader
from tests.storage.helpers import TINY, assert_same, end_all_processes, entries, random_entries, read_all
from tests.storage.server import BUCKET, OPTIONS, SECRET, Proxy, Request, moto, refusing_from, slow

SCHEMA = Schema((20, 10))
OLD, NEW, LATER = (random_entries(SCHEMA, 60, seed) for seed in range(3))


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    pytest.importorskip("moto", reason="moto, of the extra dev, is the server")
    pytest.importorskip("obstore", reason="obstore, of the extra cloud, reads object stores")
    with moto() as address:
        yield address


@pytest.fixture(scope="module", name="shared")
def shared_proxy(server: str) -> Iterator[Proxy]:
    proxy = Proxy(server)
    yield proxy
    proxy.close()


@pytest.fixture
def proxy(shared: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    for name, value in {**OPTIONS, "AWS_ENDPOINT_URL": shared.address, "AWS_ALLOW_HTTP": "true"}.items():
        monkeypatch.setenv(name, value)
    shared.reset()
    yield shared
    shared.reset()


@pytest.fixture
def home(proxy: Proxy) -> str:
    return f"s3://{BUCKET}/{uuid.uuid4().hex[:12]}"


def keys(folder: str) -> list[str]:
    """Return the names of all files below a URL, relative to it."""
    store = get_filesystem(folder)
    assert isinstance(store, ObjectStore)
    start = len(store._key(folder)) + 1
    return sorted(found["path"][start:] for found in store._iter_below(folder))


# -- what a tensor does ----------------------------------------------------------------------------


def test_tensor_round_trip(home: str, tmp_path: Path) -> None:
    labels = {"user": ["ann", "bob", "eve"], "film": ["Alien", "Brazil"]}
    first = sp.from_coords([[0, 1, 2], [0, 1, 1]], [4.5, 3.0, 1.0], dims=("user", "film"), labels=labels)
    here, there = first.save(tmp_path / "t"), first.save(f"{home}/t", orders=[(1, 0)])
    assert there.path == f"{home}/t"
    for tensor in (here, there):
        tensor[0, 1] = 7
        tensor.append(pl.DataFrame({"film": ["Alien"], "user": ["dan"], "value": [2.0]}))
        with tensor.edit() as edit:
            edit[1, 1] = 0
            edit.put(np.array([[2], [0]]), [5.0])
        tensor.add_order((1, 0))
        tensor.compact()
    again = sp.open(f"{home}/t/")
    count = "select count(*), max(user) from"
    assert sp.sql(f"{count} '{home}/t'").fetchall() == sp.sql(f"{count} '{tmp_path / 't'}'").fetchall()
    assert again.to_numpy().tolist() == here.to_numpy().tolist()
    assert again.labels("user").to_pylist()[:4] == ["ann", "bob", "eve", "dan"]
    assert again.sel(user="dan", film="Alien") == 2.0
    assert again.version == here.version
    assert [(one["operation"], one["nnz"]) for one in again.history()] == [
        (one["operation"], one["nnz"]) for one in here.history()
    ]
    assert again.verify() == []
    assert [record.rows for record in again.files((1, 0))] == [record.rows for record in again.files()]
    assert sp.open(f"{home}/t", version=0).to_numpy().tolist() == first.to_numpy().tolist()
    again.restore(1)
    assert again.to_numpy().tolist() == sp.open(tmp_path / "t", version=1).to_numpy().tolist()
    assert again.vacuum("0 seconds")
    assert again.verify() == []
    assert again.vacuum("0 seconds") == []
    with pytest.raises(errors.NotFoundError, match="vacuum"):
        sp.open(f"{home}/t", version=2).to_numpy()
    assert not [name for name in keys(f"{home}/t") if "_creating" in name]


def test_append_runs(home: str) -> None:
    block = random_entries(SCHEMA, 60)
    handle = storage.save(f"{home}/t", SCHEMA, [block], sizes=storage.Sizes(file_rows=100, group_rows=5))
    handle.commit(Edit("append", upsert=random_entries(SCHEMA, 4, seed=1), existing="first"))
    assert handle.current.runs
    wanted = apply_edit(block, Edit("append", upsert=random_entries(SCHEMA, 4, seed=1), existing="first"), SCHEMA)
    assert_same(read_all(storage.open(f"{home}/t").current), wanted)
    a = sp.open(f"{home}/t")
    assert sp.sql("select count(*), sum(value) from a where d0 > 3").fetchall() == [(a[4:].nnz, a[4:].sum())]
    assert handle.verify() == []


def test_edits_equal_local_ones(home: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    places = (tmp_path / "t", f"{home}/t")
    handles = [storage.save(place, SCHEMA, [OLD], sizes=TINY) for place in places]
    for step in range(3):
        low, high = sorted(rng.integers(0, 20, 2).tolist())
        edit = Edit("put", (Box((range(low, high), range(10))),) if step % 2 else (), random_entries(SCHEMA, 9, step))
        for handle in handles:
            handle.commit(edit)
    assert_same(*(read_all(handle.current) for handle in handles))
    assert_same(*(read_all(storage.open(place).current) for place in places))
    assert [storage.open(place).verify() for place in places] == [[], []]
    assert handles[0].current.digest == handles[1].current.digest


def test_bundles(home: str) -> None:
    bundle = sp.Bundle({"X": sp.eye(3), "y": [1, -1, 0]}).save(f"{home}/b")
    assert {name: tensor.shape for name, tensor in sp.open(f"{home}/b").items()} == {"X": (3, 3), "y": (3,)}
    assert bundle["y"].to_numpy().tolist() == [1, -1, 0]
    with pytest.raises(errors.ExistsError, match="exists"):
        sp.eye(2).save(f"{home}/b")
    with pytest.raises(errors.NotFoundError, match="is a bundle, not a tensor"):
        storage.open(f"{home}/b")
    failing: Any = {"X": sp.eye(3), "y": np.array([1, 2])}

    class Broken(sp.Bundle):
        def __getitem__(self, name: str) -> Any:
            if name == "y":
                raise ZeroDivisionError
            return super().__getitem__(name)

    with pytest.raises(ZeroDivisionError):
        Broken(failing).save(f"{home}/c")
    assert keys(f"{home}/c") == []


@pytest.mark.parametrize("threads", [1, 2])
def test_sql_of_one_row_group(home: str, threads: int) -> None:
    sp.eye(50).save(f"{home}/t")
    with sp.config(threads=threads):
        for _ in range(5):
            assert sp.sql("select count(*), sum(d0) from t", t=sp.open(f"{home}/t")).fetchall() == [(50, 1225)]


def test_sql_and_engines(home: str) -> None:
    local = sp.random((300, 200), nnz=3000, seed=1)
    web = local.save(f"{home}/web")
    query = "select count(*), round(sum(a.value * b.value), 6) from web a join web b on a.d0 = b.d1 where a.d0 < 50"
    assert sp.sql(query).fetchall() == sp.sql(query, web=local).fetchall()
    found = sp.sql("select * from part order by d0, d1", part=web[10:20, ::2]).fetchall()
    assert found == sp.sql("select * from part order by d0, d1", part=local[10:20, ::2]).fetchall()
    x = np.arange(200.0)
    np.testing.assert_allclose(web @ x, local @ x)
    np.testing.assert_allclose(sp.matmul(web, x, engine="duckdb"), local @ x)
    assert (web + local).compute(engine="duckdb").sum() == pytest.approx(2 * local.sum())
    half = (local * 8).astype("float16").save(f"{home}/half")
    assert sp.sql("select count(*) from half").fetchall() == [(half.nnz,)]
    model = sp.models.ALS(factors=4, epochs=2, seed=0)
    np.testing.assert_array_equal(
        model.fit(web).user_factors, sp.models.ALS(factors=4, epochs=2).fit(local).user_factors
    )


def test_ingest_and_export(home: str) -> None:
    lines = {"a.svm": b"1 3:0.5\n-1 1:2\n", "e1.txt": b"0 1\n1 2\n", "e2.txt": b"0 5\n1 9\n", "other": b"x"}
    for name, data in lines.items():
        assert get_filesystem(home).put(f"{home}/raw/{name}", data)
    assert sp.ingest.libsvm(f"{home}/raw/a.svm", f"{home}/svm")["X"].to_numpy().tolist() == [[0, 0, 0.5], [2, 0, 0]]
    edges = sp.ingest.edges(f"{home}/raw/e*.txt", f"{home}/edges")
    assert np.argwhere(edges.to_numpy()).tolist() == [[0, 1], [0, 5], [1, 2], [1, 9]]
    for name in ("out.csv.gz", "out.parquet", "out.npz"):
        sp.export(edges, f"{home}/{name}")
        with pytest.raises(errors.ExistsError, match="exists"):
            sp.export(edges, f"{home}/{name}")
    for name in ("out.csv.gz", "out.parquet"):
        back = sp.ingest.columns(f"{home}/{name}", f"{home}/{name}.back", coords=["src", "dst"])
        assert np.argwhere(back.to_numpy()).tolist() == np.argwhere(edges.to_numpy()).tolist()
    assert sp.ingest.npz(f"{home}/out.npz", f"{home}/npz").nnz == edges.nnz
    with pytest.raises(errors.NotFoundError, match="no file matches"):
        sp.ingest.edges(f"{home}/raw/nothing*", f"{home}/no")
    with pytest.raises(errors.NotFoundError, match="there is no such file"):
        sp.ingest.edges(f"{home}/raw/nothing", f"{home}/no")
    assert keys(f"{home}/no") == []


def _upload_folder(folder: Path, home: str) -> None:
    """Put the files of a folder on the store."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            assert get_filesystem(home).put(f"{home}/{path.relative_to(folder)}", path.read_bytes())


def test_every_format_round_trips(home: str, tmp_path: Path) -> None:
    from sparrow.io.base.detect import detect_format

    links = sp.from_coords([[0, 0, 1, 3], [1, 2, 3, 0]], np.ones(4, np.int64), shape=(4, 4), dims=("src", "dst"))
    for name in ("a.mtx", "a.tns.bz2", "a.npy", "a.graph-txt.zst", "a.h5ad", "a.h5"):
        sp.export(links, f"{home}/raw/{name}")
        read = getattr(sp.ingest, (found := detect_format(f"{home}/raw/{name}")).format)
        assert found.format in ("mtx", "tns", "npy", "webgraph", "h5ad", "binsparse")
        back = read(f"{home}/raw/{name}", f"{home}/{found.format}")
        assert np.argwhere(back.to_numpy()).tolist() == np.argwhere(links.to_numpy()).tolist()
    with pytest.raises(errors.IngestError, match="this is a folder: pass one of its files"):
        sp.ingest.edges(f"{home}/raw", f"{home}/no")
    with pytest.raises(errors.UnsupportedError, match="written to a local folder"):
        sp.export(links, f"{home}/shards", format="alx")
    sp.export(links, tmp_path / "shards", format="alx", shards=2)
    for name, text in {
        "g.metis": "3 2 10\n1 2\n1 1 3\n1 2\n",
        "c.ffm": "1 0:3:1 1:5:0.5\n0 0:2:1\n",
        "kg/train.txt": "ann\tknows\tbob\n",
        "kg/test.txt": "bob\tknows\tann\n",
        "docs/one.txt": "no pain no gain\n",
        "docs/more/two.txt": "no smoke\n",
        "tenx/matrix.mtx": "%%MatrixMarket matrix coordinate integer general\n2 1 1\n2 1 7\n",
        "tenx/barcodes.tsv": "AAAC-1\n",
        "tenx/genes.tsv": "ENSG1\tDSCAM\nENSG2\tAPP\n",
        "bv.properties": "graphclass=it.unimi.dsi.webgraph.BVGraph\nversion=0\nnodes=2\narcs=0\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "bv.graph").write_bytes(b"\xc0")  # two lists of length 0
    _upload_folder(tmp_path, f"{home}/raw")
    for name, kind in (("shards", "alx"), ("kg", "triples"), ("tenx", "tenx"), ("bv.graph", "webgraph")):
        assert detect_format(f"{home}/raw/{name}").format == kind
    web = sp.ingest.alx(f"{home}/raw/shards", f"{home}/alx")
    assert np.argwhere(web["train"].to_numpy()).tolist() == np.argwhere(links.to_numpy()).tolist()
    graph = sp.ingest.metis(f"{home}/raw/g.metis", f"{home}/metis")
    assert (graph["graph"].nnz, graph["vertices"].nnz) == (4, 3)
    clicks = sp.ingest.libffm(f"{home}/raw/c.ffm", f"{home}/ffm")
    assert (clicks["X"].shape, clicks["y"].nnz) == ((2, 2, 6), 1)
    splits = sp.ingest.triples(f"{home}/raw/kg", f"{home}/kg")
    assert {name: tensor.nnz for name, tensor in splits.items()} == {"train": 1, "test": 1}
    assert sp.ingest.triples(f"{home}/raw/kg/train.txt", f"{home}/kg1").nnz == 1
    counts = sp.ingest.text(f"{home}/raw/docs", f"{home}/text")
    assert (counts.shape, counts.nnz) == ((2, 4), 5)
    assert sp.ingest.tenx(f"{home}/raw/tenx", f"{home}/tenx").sel(feature="ENSG2", barcode="AAAC-1") == 7
    assert sp.ingest.webgraph(f"{home}/raw/bv.graph", f"{home}/bv").shape == (2, 2)


class _Ranges(SimpleHTTPRequestHandler):
    """A web server with range requests."""

    def log_message(self, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        if span is None or not os.path.exists(self.translate_path(self.path)):
            super().do_GET()
            return
        whole = Path(self.translate_path(self.path)).read_bytes()
        first, last = int(span[1]), min(int(span[2]), len(whole) - 1)
        self.send_response(206)
        self.send_header("content-range", f"bytes {first}-{last}/{len(whole)}")
        self.send_header("content-length", str(last + 1 - first))
        self.end_headers()
        self.wfile.write(whole[first : last + 1])


class _NoRanges(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


class _NoQuestions(_Ranges):
    """Sends files elsewhere on, and answers no request about one."""

    refusals = itertools.cycle((400, 403, 405, 501))

    def do_HEAD(self) -> None:
        self.send_error(next(self.refusals))

    def do_GET(self) -> None:
        if self.path.startswith("/moved/"):
            super().do_GET()
            return
        self.send_response(302)
        self.send_header("location", f"/moved{self.path}")
        self.send_header("content-length", "0")
        self.end_headers()

    def translate_path(self, path: str) -> str:
        return super().translate_path(path.removeprefix("/moved"))


class _LeastOfAll(_NoRanges):
    """Knows no request but that for a whole file."""

    def do_HEAD(self) -> None:
        self.send_error(405)

    def do_GET(self) -> None:
        if "range" in self.headers and self.path.startswith("/empty"):
            self.send_error(416)
            return
        super().do_GET()


class _Wrong(_NoRanges):
    """A web server that omits the length, or sends only the first line."""

    def do_GET(self) -> None:
        if "unknown" in self.path:
            self._send(200, {}, b"0 1\n")
            return
        first, last = map(int, self.headers["range"].removeprefix("bytes=").split("-"))
        part = b"0 1\n1 2\n"[first : min(last + 1, 4)]
        self._send(206, {"content-range": f"bytes {first}-{last}/8", "content-length": str(len(part))}, part)

    def _send(self, code: int, headers: dict[str, str], data: bytes) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def _site(handler: Any) -> Iterator[str]:
    """Serve files of the web for a while."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        thread = threading.Thread(target=web.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{web.server_address[1]}"
        finally:
            web.shutdown()
            thread.join()


def test_web_servers_with_missing_headers(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    with _site(_Wrong) as site:
        with (
            sparrow.testing.tune("storage", cut_attempts=1),
            pytest.raises(errors.IngestError, match="expected 8 bytes at offset 0, got 4: did it change meanwhile"),
        ):
            sp.ingest.edges(f"{site}/short.txt", tmp_path / "e")
        with pytest.raises(errors.StorageError, match=r"does not say how long it is: .* curl -L URL \| sparrow ingest"):
            sp.ingest.edges(f"{site}/unknown.txt", tmp_path / "e")
        with pytest.raises(errors.UnsupportedError, match=r"curl -L URL \| sparrow ingest"):
            sp.ingest.edges(f"{site}/short.txt?download=1", tmp_path / "e")
    assert not (tmp_path / "e").exists()


def test_web_servers_without_ranges(tmp_path: Path) -> None:
    pytest.importorskip("obstore")
    (tmp_path / "e.txt").write_text("0 1\n1 2\n")
    (tmp_path / "empty.txt").touch()
    with _site(partial(_LeastOfAll, directory=str(tmp_path))) as site:
        assert sp.ingest.edges(f"{site}/e.txt", tmp_path / "e").nnz == 2
        with pytest.warns(UserWarning, match="there are no edges"):
            assert sp.ingest.edges(f"{site}/empty.txt", tmp_path / "none").nnz == 0
        with pytest.raises(errors.NotFoundError, match="there is no such file"):
            sp.ingest.edges(f"{site}/none.txt", tmp_path / "no")


class _Replaced(_Ranges):
    """A web server whose file changes at the third range request."""

    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        super().do_GET()

    def end_headers(self) -> None:
        if "range" in self.headers:
            new = self.asked > 2
            for word, name, values in (("tag", "etag", ('"a"', '"b"')), ("time", "last-modified", _TIMES)):
                if word in self.path:
                    self.send_header(name, values[new])
        super().end_headers()

    def translate_path(self, path: str) -> str:
        return super().translate_path("/longer.csv" if self.asked > 2 and "size" in path else path)


_TIMES = "Mon, 02 Nov 2026 10:00:00 GMT", "Mon, 02 Nov 2026 11:00:00 GMT"


@pytest.mark.parametrize("word", ["tag", "time", "size"])
def test_web_file_replaced_while_read(tmp_path: Path, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("obstore")
    for name in (f"{word}.csv", "longer.csv"):
        (tmp_path / name).write_text("i,value\n0,1.5\n1,2.5\n" + ("2,3.5\n" if name == "longer.csv" else ""))
    monkeypatch.setattr(_Replaced, "asked", 0)
    with _site(partial(_Replaced, directory=str(tmp_path))) as site:
        with pytest.raises(errors.SparrowError, match=rf"{word}.csv' was replaced while it was read.*or a copy"):
            sp.ingest.columns(f"{site}/{word}.csv", tmp_path / "t", coords=["i"], value="value")
        assert not (tmp_path / "t").exists()
        assert sp.ingest.columns(f"{site}/{word}.csv", tmp_path / "t", coords=["i"], value="value").nnz >= 2


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.npy", "a.h5"])
def test_object_replaced_while_read(home: str, proxy: Proxy, tmp_path: Path, name: str) -> None:
    """Replace the object before each request; two versions are never mixed."""
    versions = [sp.random((12, 12), nnz=90, seed=seed, dtype=np.float64) for seed in (1, 2)]
    place = f"{home}/{name}"
    kind = {"a.h5": "binsparse", "a.npy": "npy"}.get(name, "columns")
    options: Any = {"coords": ["d0", "d1"], "value": "value", "shape": (12, 12)} if kind == "columns" else {}

    def attempt(number: int) -> tuple[bool, str]:
        """Return whether the file was replaced at a request, and the error."""
        sp.export(versions[0], place, overwrite=True)
        asked = itertools.count()
        told = ""

        def before(request: Request) -> None:
            if request.key.endswith(name) and not request.writes and next(asked) == number:
                sp.export(versions[1], place, overwrite=True)

        proxy.before = before
        try:
            found = getattr(sp.ingest, kind)(place, tmp_path / "t", overwrite=True, **options).to_numpy()
            assert any(np.array_equal(found, tensor.to_numpy()) for tensor in versions)
        except errors.SparrowError as error:
            told = str(error)
        proxy.reset()
        return next(asked) > number, told

    with sparrow.testing.tune("storage", window_bytes=500):
        found = list(itertools.takewhile(lambda each: each[0], map(attempt, itertools.count())))
    refused = [told for _, told in found if told]
    assert 0 < len(refused) < len(found)
    assert all("was replaced while it was read" in told for told in refused)


@pytest.mark.parametrize("handler", [_Ranges, _NoRanges, _NoQuestions])
def test_web_files(tmp_path: Path, handler: type[SimpleHTTPRequestHandler]) -> None:
    pytest.importorskip("obstore")
    (tmp_path / "e 1.txt.gz").write_bytes(gzip.compress(b"0 1\n1 2\n"))
    pl.DataFrame({"i": [0, 2], "value": [1.5, 2.5]}).write_parquet(tmp_path / "t.parquet")
    with _site(partial(handler, directory=str(tmp_path))) as site:
        assert sp.ingest.edges(f"{site}/e%201.txt.gz", tmp_path / "e").nnz == 2
        found = sp.ingest.columns(f"{site}/t.parquet", tmp_path / "t", coords=["i"], value="value")
        assert found.to_numpy().tolist() == [1.5, 0, 2.5]
        with pytest.raises(errors.NotFoundError, match="there is no such file"):
            sp.ingest.edges(f"{site}/none.txt", tmp_path / "no")
        for work in (lambda: sp.open(f"{site}/t"), lambda: sp.eye(2).save(f"{site}/t")):
            with pytest.raises(errors.UnsupportedError, match="is on a web server"):
                work()


# -- what is asked of the store ----------------------------------------------------------------------


def test_slice_fetches_its_row_groups(home: str, proxy: Proxy) -> None:
    schema = Schema((4096, 64))
    path = f"{home}/t"
    storage.save(path, schema, [random_entries(schema, 20000)], sizes=storage.Sizes(file_rows=4096, group_rows=512))
    tensor = sp.open(path)
    proxy.reset()
    with storage.count_traffic() as counted:
        tensor[10:20].compute()
    assert counted.requests == len(proxy.requests) == 3, "the orders that there are, a footer, a row group"
    proxy.reset()
    with sp.explained(analyze=True) as plans:
        tensor[1000:1010].compute()
    groups = [request.span for request in proxy.requests if not request.span.startswith("bytes=-")]
    assert len(groups) == 1
    assert "row groups  1 of " in plans[0]
    assert f"fetched: {proxy.bytes / 1000:.1f} kB in {len(proxy.requests)} requests" in plans[0]
    proxy.reset()
    with storage.count_traffic() as counted:
        assert tensor.sum() == random_entries(schema, 20000).values.sum()
    asked = [(request.key, request.span) for request in proxy.requests]
    assert len(asked) == len(set(asked)) == counted.requests
    assert counted.nbytes < 1.2 * tensor.nbytes + 65536 * len(tensor.files())


def test_sql_prunes_row_groups(home: str, proxy: Proxy) -> None:
    schema = Schema((4096, 64), ("src", "dst"))
    entries = random_entries(schema, 20000)
    entries.values[::7] = np.nan
    storage.save(f"{home}/t", schema, [entries], sizes=storage.Sizes(group_rows=512))
    web, local = sp.open(f"{home}/t"), sp.from_coords(entries.coords, entries.values, schema.shape, schema.dims)
    assert re.search(r"row groups  (3\d|4\d) of", web.explain())
    for where in (
        "src between 1000 and 1010",
        "src = 5 or src = 4000",
        "src in (1, 2000) and value > 3",
        "src > 4090 and isnan(value)",
        "src < 10 and dst < 3 and value >= 50",
    ):
        query = f"select src, dst, isnan(value), value::varchar from web where {where} order by all"
        proxy.reset()
        found = sp.sql(query).fetchall()
        assert found == sp.sql(query, web=local).fetchall()
        assert found
        data = [request for request in proxy.requests if not request.span.startswith("bytes=-")]
        assert len([request for request in data if request.span]) <= 3
    narrow = "select count(*) from web where value > 3"
    assert sp.sql(narrow).fetchall() == sp.sql(narrow, web=local).fetchall()
    picked = "select count(*), sum(dst) from part where src < 2 and not isnan(value)"
    assert sp.sql(picked, part=web[[7, 3, 3]]).fetchall() == sp.sql(picked, part=local[[7, 3, 3]]).fetchall()


def test_footers_are_cached(home: str, proxy: Proxy) -> None:
    storage.save(f"{home}/t", SCHEMA, [OLD], sizes=TINY)
    handle = storage.open(f"{home}/t")
    files = len(handle.current.base)
    for path in map(handle.current.base.path, range(files)):
        reader.evict_footer(path)
    proxy.reset()
    handle.current.chunks(Box.from_shape(SCHEMA.shape))
    assert len(proxy.requests) == files > 4
    proxy.reset()
    handle.current.chunks(Box.from_shape(SCHEMA.shape))
    assert proxy.requests == []


def test_row_groups_are_prefetched(home: str, proxy: Proxy) -> None:
    storage.save(f"{home}/t", SCHEMA, [OLD], sizes=TINY)
    handle = storage.open(f"{home}/t")
    handle.current.chunks(Box.from_shape(SCHEMA.shape))
    proxy.reset()
    proxy.before = slow(0.03)
    with sp.config(threads=1):
        assert_same(read_all(handle.current), OLD)
    assert proxy.most >= 8
    assert len(proxy.requests) == len(handle.current.chunks(Box.from_shape(SCHEMA.shape)))


def test_transient_failures_are_retried(home: str, proxy: Proxy) -> None:
    number = itertools.count()
    proxy.before = lambda request: 503 if next(number) % 7 == 3 else None
    handle = storage.save(f"{home}/t", SCHEMA, [OLD])
    handle.commit(Edit("put", upsert=entries([(0, 0)], [5])))
    proxy.reset()
    assert storage.open(f"{home}/t").verify() == []
    assert storage.open(f"{home}/t").current.version == 1


def test_hanging_requests_are_retried(home: str, proxy: Proxy) -> None:
    storage.save(f"{home}/t", SCHEMA, [OLD])
    hanging, over = itertools.count(), threading.Event()

    def hang(request: Request) -> int | None:
        if request.span and next(hanging) == 1:
            over.wait(60)
        return None

    handle = storage.open(f"{home}/t", storage_options={"timeout": "500ms"})
    proxy.before = hang
    try:
        assert_same(read_all(handle.current), OLD)
    finally:
        over.set()
    assert next(hanging) >= 3  # more where the machine is slow: others are given up too


def test_cut_answers_are_repeated(home: str, proxy: Proxy, tmp_path: Path) -> None:
    storage.save(f"{home}/t", SCHEMA, [OLD])
    seen: set[str] = set()

    def cut_the_first(request: Request) -> None:
        request.cut = repr(request) not in seen and request.method != "HEAD" and len(seen) % 3 == 1
        seen.add(repr(request))

    proxy.before = cut_the_first
    with (
        sparrow.testing.tune("storage", cut_backoff_max_seconds=0.001),
        sparrow.testing.observe("storage.repeat_cut") as repeated,
    ):
        tensor = sp.open(f"{home}/t")
        assert_same(read_all(storage.open(f"{home}/t").current), OLD)
        tensor[0, 0] = 7
        tensor.append(sp.from_coords([[19], [9]], [1.0], shape=(20, 10)), duplicates="last")
        assert len(tensor.history()) == 3
        assert tensor.save(f"{home}/copy").nnz == tensor.nnz
        sp.export(tensor, f"{home}/t.csv")
        made = sp.ingest.columns(f"{home}/t.csv", tmp_path / "t", coords=["d0", "d1"], value="value")
        assert made.nnz == tensor.nnz
    assert repeated
    proxy.before = lambda request: setattr(request, "cut", request.method == "GET")
    with sparrow.testing.tune("storage", cut_attempts=2), pytest.raises(errors.StorageError) as refused:
        sp.open(f"{home}/t")
    assert not isinstance(refused.value, errors.CorruptionError)
    assert "body" in str(refused.value)


def test_lost_response_is_not_a_race(home: str, proxy: Proxy) -> None:
    handle = storage.save(f"{home}/t", SCHEMA, [OLD])
    lost: list[Request] = []

    def lose(request: Request) -> int | None:
        """Let the entry of the log arrive, and tell that it did not."""
        if request.method == "PUT" and request.key.endswith("01.json") and not lost:
            lost.append(request)
            request.lost = True
        return None

    proxy.before = lose
    handle.commit(Edit("put", upsert=entries([(0, 0)], [5])))
    assert lost
    assert storage.open(f"{home}/t").current.version == 1


# -- one in the place of another ----------------------------------------------------------------------


def test_overwrite(home: str) -> None:
    path = f"{home}/t"
    old = sp.from_coords([[0, 2], [0, 0]], [1, 2], shape=(3, 1), labels={"d0": ["a", "b", "c"]}).save(path)
    old.resize((3, 2))
    lazy = old + 0
    new = sp.from_coords(
        [[0, 1], [1, 0], [5, 2]], [0.5, 1.5], shape=(2, 2, 6), dims=("x", "y", "z"), labels={"y": ["u", "v"]}
    )
    there = new.save(path, overwrite=True, orders=[(2, 0, 1)])
    assert (there.version, there.dims) == (2, ("x", "y", "z"))
    assert there.dtype == np.float64
    assert there.to_numpy().tolist() == new.to_numpy().tolist()
    assert there.sel(y="v").nnz == 1
    assert there.verify() == []
    assert [(one["nnz"], one["shape"]) for one in there.history()] == [(2, (2, 2, 6)), (2, (3, 2)), (2, (3, 1))]
    assert lazy.to_numpy().tolist() == [[1, 0], [0, 0], [2, 0]]
    before = sp.open(path, version=0)
    assert (before.shape, before.sel(d0="c").sum()) == ((3, 1), 2)
    for work in (old.refresh, lambda: old.put([[0], [0]], [3])):
        with pytest.raises(errors.ConflictError, match="another one was saved over it"):
            work()
    with pytest.raises(errors.UnsupportedError, match="which this one was saved over"):
        there.restore(1)
    there[0, 0, 0] = 4
    flat = sp.from_coords([[7], [1]], [True], shape=(9, 4), dims=("z", "b")).save(path, overwrite=True)
    assert (flat.version, flat.labels(0), flat[7, 1]) == (4, None, True)
    assert flat.vacuum("0 seconds")
    assert flat.verify() == []
    with pytest.raises(errors.NotFoundError, match="vacuum"):
        sp.open(path, version=2).to_numpy()


def test_failed_overwrite_keeps_the_old_tensor(home: str, proxy: Proxy, tmp_path: Path) -> None:
    path, labels = f"{home}/t", ["a", "b", "c"]
    sp.from_coords([[0], [2]], [1], shape=(3, 3), labels={"d0": labels, "d1": labels}).save(path)
    before = keys(path)
    proxy.before = lambda request: 403 if request.method == "PUT" and "_delta_log" in request.key else None
    with pytest.raises(errors.StorageError):
        sp.from_coords([[0], [1]], [5], shape=(3, 3), labels={"d0": labels, "d1": labels}).save(path, overwrite=True)
    proxy.reset()
    assert keys(path) == before
    assert sp.open(path).sel(d0="a", d1="c") == 1
    with pytest.raises(errors.UnsupportedError, match="a bundle cannot replace it"):
        sp.Bundle({"y": [1, 2]}).save(path, overwrite=True)
    assert keys(path) == before
    (tmp_path / "e.txt").write_text("0 1\n4 2\n")
    edges = sp.ingest.edges(tmp_path / "e.txt", path, if_exists="replace")
    assert edges.version == 1
    assert np.argwhere(edges.to_numpy()).tolist() == [[0, 1], [4, 2]]


def test_overwrite_beside_a_writer(home: str, proxy: Proxy) -> None:
    path = f"{home}/t"
    storage.save(path, SCHEMA, [OLD])
    first = True

    def between(request: Request) -> int | None:
        nonlocal first
        if first and request.method == "PUT" and request.key.endswith("01.json"):
            first = False
            storage.open(path).commit(Edit("put", upsert=entries([(0, 0)], [5])))
        return None

    proxy.before = between
    handle = storage.save(path, SCHEMA, [NEW], overwrite=True)
    assert handle.current.version == 2
    assert_same(read_all(handle.current), NEW)
    assert handle.verify() == []
    late = storage.open(f"s3a://{home.partition('://')[2]}/t")
    storage.save(path, SCHEMA, [LATER], overwrite=True)
    with pytest.raises(errors.ConflictError, match="another one was saved over it"):
        late.commit(Edit("put", upsert=entries([(0, 0)], [5])))
    assert_same(read_all(storage.open(path).current), LATER)


# -- several writers, and some that die ----------------------------------------------------------------


@pytest.mark.parametrize("apart", [True, False])
def test_concurrent_commits(home: str, proxy: Proxy, apart: bool) -> None:
    handle = storage.save(f"{home}/t", SCHEMA, [OLD])
    other = storage.open(f"s3a://{home.partition('://')[2]}/t")  # a lock of its own, as in another process
    raced: list[Request] = []

    def race(request: Request) -> int | None:
        if request.method == "PUT" and request.key.endswith("00001.json") and not raced:
            raced.append(request)
            other.commit(Edit("put", upsert=entries([(19, 9) if apart else (0, 0)], [3])))
        return None

    proxy.before = race
    mine = Edit("put", upsert=entries([(0, 0)], [5]))
    if apart:
        handle.commit(mine)
    else:
        with pytest.raises(errors.ConflictError, match="by another writer"):
            handle.commit(mine)
    latest = storage.open(f"{home}/t")
    assert len(raced) == 1
    assert latest.current.version == (2 if apart else 1)
    assert latest.verify() == []
    used = {
        name
        for version in range(latest.current.version + 1)
        for name in storage.open(f"{home}/t", version).current.base.names
    }
    assert {name for name in keys(f"{home}/t") if name.endswith(".parquet")} == used


def test_concurrent_creation_has_one_winner(home: str, proxy: Proxy) -> None:
    line = threading.Barrier(3)
    won: list[int] = []

    def work(seed: int) -> None:
        line.wait(60)
        try:
            storage.save(f"{home}/t", SCHEMA, [random_entries(SCHEMA, 60, seed)])
        except errors.ExistsError:
            return
        won.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    handle = storage.open(f"{home}/t")
    assert_same(read_all(handle.current), random_entries(SCHEMA, 60, won[0]))
    assert [name for name in keys(f"{home}/t") if not name.startswith("_delta_log/")] == handle.current.base.names


@pytest.fixture
def dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take all processes for dead that left something."""
    end_all_processes(monkeypatch)


@pytest.mark.usefixtures("dead")
def test_kill_while_creating(home: str, proxy: Proxy) -> None:
    labels = {0: pa.array([f"row {k}" for k in range(20)])}
    seen = set()
    for last in itertools.count(1):
        path = f"{home}/{last}"
        proxy.before, passed = refusing_from(last)
        with suppress(errors.StorageError):
            storage.save(path, SCHEMA, [NEW], labels=labels)
        ended = len(passed) < last
        proxy.reset()
        if ended:
            break
        made = storage.is_tensor(path)
        seen.add(made)
        if not made:
            with pytest.raises(errors.NotFoundError):
                storage.open(path)
            storage.save(path, SCHEMA, [LATER])
        handle = storage.open(path)
        assert_same(read_all(handle.current), NEW if made else LATER)
        assert handle.verify() == []
        if not made:
            found = {name for name in keys(path) if "/" not in name}
            assert found == set(handle.current.base.names)
    assert seen == {True, False}
    assert last > 4


@pytest.mark.usefixtures("dead")
def test_kill_while_adding_an_order(home: str, proxy: Proxy) -> None:
    handle = storage.save(f"{home}/t", SCHEMA, [OLD])
    for last in range(1, 5):
        proxy.before, _ = refusing_from(last)
        with suppress(errors.StorageError):
            handle.add_order((1, 0))
        proxy.reset()
        found = storage.open(f"{home}/t")
        assert_same(read_all(found.current), OLD)
        assert found.verify() == []
    found.add_order((1, 0))
    assert found.current.orders == ((0, 1), (1, 0))
    assert read_all(found.current, (1, 0)).count == OLD.count
    assert [name for name in keys(f"{home}/t/_orders/1-0") if name.endswith("parquet")] == found.current.table(
        (1, 0)
    ).names


@pytest.mark.usefixtures("dead")
def test_kill_while_writing(home: str, proxy: Proxy) -> None:
    wanted = storage.save(f"{home}/t", SCHEMA, [OLD]).current
    for last in itertools.count(1):
        handle = storage.open(f"{home}/t")
        proxy.before, passed = refusing_from(last)
        with suppress(errors.StorageError):
            handle.commit(Edit("put", upsert=entries([(0, 0)], [500 + last])))
        ended = len(passed) < last
        proxy.reset()
        again = storage.open(f"{home}/t")
        assert again.current.version == wanted.version + ended
        assert again.verify() == []
        if ended:
            break
        assert_same(read_all(again.current), read_all(wanted))
        wanted = again.commit(Edit("put", upsert=entries([(1, 1)], [600 + last])))
    assert last > 2
    again.vacuum("0 seconds")
    assert {name for name in keys(f"{home}/t") if name.endswith(".parquet")} == set(again.current.base.names)


@pytest.mark.usefixtures("dead")
def test_kill_while_creating_a_bundle(home: str, proxy: Proxy) -> None:
    seen = set()
    for last in (4, 9):
        path = f"{home}/{last}"
        proxy.before, _ = refusing_from(last)
        with suppress(errors.StorageError):
            sp.Bundle({"X": sp.eye(2), "y": [1, 2]}).save(path)
        proxy.reset()
        seen.add(storage.is_bundle(path))
        if not storage.is_bundle(path):
            sp.Bundle({"y": [3], "z": [4]}).save(path)
            assert {name.split("/")[0] for name in keys(path)} == {"bundle.json", "y", "z"}
        assert sp.open(path)["y"].to_numpy().tolist() == ([3] if "z" in sp.open(path) else [1, 2])
    assert False in seen


def test_killed_process(home: str, proxy: Proxy) -> None:
    path = f"{home}/t"
    script = f"import sparrow as sp; print('go', flush=True); sp.eye(50).save({path!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, cwd=Path(sp.__file__).parent.parent
    )

    def kill(request: Request) -> int | None:
        if request.method == "PUT" and "_delta_log" in request.key:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            return 403
        return None

    proxy.before = kill
    with process:
        assert process.wait(120) == -signal.SIGKILL
    proxy.reset()
    assert any(name.endswith(".parquet") for name in keys(path))
    assert any(name.startswith("_creating-") for name in keys(path))
    with pytest.raises(errors.NotFoundError):
        sp.open(path)
    assert sp.eye(3).save(path).nnz == 3
    assert len([name for name in keys(path) if not name.startswith("_delta_log/")]) == 1


# -- what was written is what is read --------------------------------------------------------------------


def test_changed_byte_is_detected(home: str) -> None:
    path = f"{home}/t"
    handle = storage.save(path, SCHEMA, [OLD])
    (name,) = handle.current.base.names
    store = get_filesystem(path)
    whole = store.read(f"{path}/{name}")
    read_all(storage.open(path).current)
    for at in (20, len(whole) - 30):
        with store.atomic_write(f"{path}/{name}") as file:
            file.write(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        reader.evict_footer(f"{path}/{name}")
        with pytest.raises(errors.CorruptionError, match=name):
            read_all(storage.open(path).current)
        assert storage.open(path).verify() != []
    with store.atomic_write(f"{path}/{name}") as file:
        file.write(whole)
    reader.evict_footer(f"{path}/{name}")
    assert storage.open(path).verify() == []
    store.delete(f"{path}/{name}")
    with pytest.raises(errors.NotFoundError, match="is gone"):
        read_all(storage.open(path).current)


# -- errors --------------------------------------------------------------------------------------------------


def test_error_messages(home: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    for work in (lambda: sp.open("s3://nowhere/t"), lambda: sp.eye(2).save("s3://nowhere/t")):
        with pytest.raises(errors.NotFoundError, match="there is no bucket s3://nowhere: make it first"):
            work()
    with pytest.raises(errors.NotFoundError, match="nothing is there"):
        sp.open(f"{home}/t")
    with pytest.raises(errors.InvalidValueError, match="'aws_nonsense' is not an option"):
        sp.open(f"{home}/t", storage_options={"aws_nonsense": SECRET})
    with pytest.raises(errors.InvalidValueError, match="must name a bucket"):
        sp.open("s3:///t")
    for name, problem in (
        ("q#h", "contains '#'"),
        ("/t", "a part that is empty"),
        ("a/../t", "a part that is empty or dots"),
    ):
        with pytest.raises(errors.InvalidValueError, match=problem):
            sp.eye(2).save(f"{home}/{name}")
        with pytest.raises(errors.InvalidValueError, match=problem):
            sp.open(f"{home}/{name}")
    sp.eye(2).save(f"{home}/t")
    with pytest.raises(errors.ExistsError, match="exists"):
        sp.eye(2).save(f"{home}/t")
    sp.Bundle({"y": [1, 2]}).save(f"{home}/b")
    with pytest.raises(errors.UnsupportedError, match="cannot replace several tensors in one step"):
        sp.eye(2).save(f"{home}/b", overwrite=True)
    assert get_filesystem(home).put(f"{home}/foreign/x", b"x")
    with pytest.raises(errors.ExistsError, match="exists"):
        sp.eye(2).save(f"{home}/foreign")
    proxy.before = lambda request: 403
    with pytest.raises(errors.StorageError, match="is denied: set AWS_ACCESS_KEY_ID") as raised:
        sp.open(f"{home}/t")
    assert SECRET not in str(raised.value)
    options = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ALLOW_HTTP": "false"}
    with pytest.raises(errors.StorageError, match=r"is not encrypted; to allow that set AWS_ALLOW_HTTP=true"):
        sp.open("s3://another/t", storage_options=options)
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(errors.MissingDependencyError, match=r"pip install obstore"):
        sp.open("s3://another/t")


def test_options_are_not_pickled(home: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*OPTIONS, "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP"):
        monkeypatch.delenv(name)
    given = {**OPTIONS, "AWS_ENDPOINT_URL": proxy.address, "allow_http": "true", "timeout": "20s"}
    path = f"{home}/t"
    tensor = sp.eye(3).save(path, storage_options=given)
    assert sp.Bundle({"y": [1, 2]}).save(f"{home}/b", storage_options=given)["y"].nnz == 2
    assert sp.open(path).nnz == 3  # they hold for what was opened with them
    wrong = given | {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "max_retries": "0"}
    with pytest.raises(errors.StorageError) as raised:
        sp.open(path, storage_options=wrong)
    error: BaseException | None = raised.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__ or error.__context__
    assert tensor[1, 1] == 1.0
    text = pickle.dumps(tensor)
    assert SECRET.encode() not in text
    assert pickle.loads(text).nnz == 3
    store = get_filesystem(path)
    for shown in (repr(tensor), repr(store), repr(tensor._handle), str(vars(tensor._handle))):
        assert SECRET not in shown
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(store)
    with pytest.raises(errors.UnsupportedError, match="which may be secrets"):
        get_filesystem(f"s3://me:{SECRET}@bucket/t")


def test_options_from_settings(home: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*OPTIONS, "AWS_ENDPOINT_URL", "AWS_ALLOW_HTTP"):
        monkeypatch.delenv(name)
    given = {**OPTIONS, "AWS_ENDPOINT_URL": proxy.address, "AWS_ALLOW_HTTP": "true"}
    with sp.config(storage_options=given) as settings:
        assert SECRET not in repr(settings)
        sp.export(sp.eye(3), f"{home}/eye.csv")
        tensor = sp.ingest.columns(f"{home}/eye.csv", f"{home}/t", coords=["d0", "d1"])
    change = sp.config(storage_options=given)
    with change:
        assert SECRET not in repr(change)
    assert tensor[1:].nnz == 2
    assert sp.open(f"{home}/t").nnz == 3


def test_command_line(home: str, capfd: pytest.CaptureFixture[str]) -> None:
    from sparrow.cli import main

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        assert ended.value.code in (0, None)
        return capfd.readouterr().out

    assert get_filesystem(home).put(f"{home}/raw.txt", b"0 1\n1 2\n")
    run("ingest", "edges", f"{home}/raw.txt", f"{home}/e")
    assert "(src: 3, dst: 3)" in run("info", f"{home}/e")
    assert "1    2      1" in run("show", f"{home}/e", "1:2")
    assert "2" in run("sql", "select count(*) from e", f"e={home}/e")
    run("export", f"{home}/e", f"{home}/e.csv")
    assert get_filesystem(home).read(f"{home}/e.csv").startswith(b"src,dst,value")
