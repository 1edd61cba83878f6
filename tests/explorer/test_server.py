"""The server answers only this machine, only with its token, and only reads."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparrow as sp
from sparrow.explorer import Explorer
from sparrow.testing import observe, on, tune
from tests.explorer.helpers import Client, expected_counts, make_sparse, save

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def matrix(tmp_path: Path) -> sp.Tensor:
    return save(make_sparse((400, 300), 6000, dims=("src", "dst")), tmp_path / "web.sparrow")


@pytest.fixture
def explorer(matrix: sp.Tensor) -> Iterator[Explorer]:
    with sp.explore(matrix) as found:
        yield found


@pytest.fixture
def client(explorer: Explorer) -> Client:
    return Client(explorer.url)


# -- who may ask -----------------------------------------------------------------------------------


def test_page_is_complete_and_self_contained(client: Client) -> None:
    for name, kind in (("", "text/html"), ("explorer.js", "text/javascript"), ("explorer.css", "text/css")):
        status, body, headers = client.request("GET", client.path + name)
        assert status == 200
        assert headers["content-type"].startswith(kind)
        text = body.decode()
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in text
        assert not any(
            word in text for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(")
        )


def test_policy_forbids_everything_else(client: Client) -> None:
    _, _, headers = client.request("GET", client.path)
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path", ["/", "/explorer.js", "/x/", "/{token}x/", "/{cut}/", "//{token}/", "/%00/", "/%E9/api/meta"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD"])
def test_wrong_tokens_are_refused(client: Client, path: str, method: str) -> None:
    token = client.path.strip("/")
    wrong = path.format(token=token, cut=token[:-1])
    status, body, _ = client.request(method, wrong, b"{}" if method == "POST" else None, JSON)
    if wrong.startswith("//"):
        assert status in (HTTPStatus.NOT_FOUND, HTTPStatus.OK)  # http.server merges leading slashes
        return
    assert (status, body) == (HTTPStatus.NOT_FOUND, b"")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "", "[::1]", "0.0.0.0"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_foreign_hosts_are_refused(client: Client, host: str, method: str) -> None:
    path = client.path if method == "GET" else f"{client.path}api/meta"
    headers = JSON | {"Host": host.format(port=client.port)}
    status, body, _ = client.request(method, path, b"{}" if method == "POST" else None, headers)
    assert (status, body) == (HTTPStatus.FORBIDDEN, b"")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:9999", "LOCALHOST"])
def test_names_of_this_machine_are_accepted(client: Client, host: str) -> None:
    assert client.request("GET", client.path, headers={"Host": host})[0] == HTTPStatus.OK


def test_other_origins_are_refused(client: Client) -> None:
    path, own = f"{client.path}api/meta", f"http://127.0.0.1:{client.port}"
    for origin, expected in (("http://evil.example", 403), ("http://127.0.0.1:1", 403), ("null", 403), (own, 200)):
        assert client.request("POST", path, b"{}", JSON | {"Origin": origin})[0] == expected


def test_simple_requests_of_other_sites_are_refused(client: Client) -> None:
    path = f"{client.path}api/meta"
    assert client.request("POST", path, b"{}", {"Content-Type": "text/plain"})[0] == HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    assert client.request("POST", path, b"{}")[0] == HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    assert client.request("GET", path)[0] == HTTPStatus.NOT_FOUND
    assert client.request("PUT", path, b"{}", JSON)[0] == HTTPStatus.NOT_IMPLEMENTED


def test_unknown_paths_and_large_bodies_are_refused(client: Client) -> None:
    for name in ("api/nothing", "api/__class__", "api/", "page/explorer.js", "../explorer.js", "explorer.css/x"):
        method = "POST" if name.startswith("api") else "GET"
        assert client.request(method, client.path + name, b"{}", JSON)[0] == HTTPStatus.NOT_FOUND
    with tune("explorer", request_bytes=100):
        body = b"{" + b" " * 200 + b"}"
        assert client.request("POST", f"{client.path}api/meta", body, JSON)[0] == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


def test_it_listens_on_the_loopback_only(explorer: Explorer) -> None:
    assert explorer.url.startswith("http://127.0.0.1:")
    port = Client(explorer.url).port
    with socket.socket() as other, pytest.raises(OSError, match="refused"):
        other.connect(("127.0.0.2", port))


def test_tokens_differ(matrix: sp.Tensor) -> None:
    with sp.explore(matrix) as one, sp.explore(matrix) as other:
        assert Client(one.url).path != Client(other.url).path
        assert len(Client(one.url).path) > 32
        assert Client(one.url).request("GET", Client(other.url).path)[0] == HTTPStatus.NOT_FOUND


def test_launches_lead_to_the_page_once(explorer: Explorer, client: Client) -> None:
    path = Client(explorer.launch_url()).path
    assert client.request("POST", f"{path}api/meta", b"{}", JSON)[0] == HTTPStatus.NOT_FOUND
    assert client.request("GET", f"{path}explorer.js")[0] == HTTPStatus.NOT_FOUND
    assert client.request("GET", path, headers={"Host": "evil.example"})[0] == HTTPStatus.FORBIDDEN
    status, _, headers = client.request("GET", path)
    assert (status, headers["location"]) == (HTTPStatus.SEE_OTHER, client.path)
    assert client.request("GET", path)[0] == HTTPStatus.NOT_FOUND


def test_only_notebooks_may_frame_the_page(matrix: sp.Tensor) -> None:
    for in_frames, expected in ((True, True), (False, False)):
        with Explorer(matrix, None, 0, 100, in_frames) as found:
            policy = Client(found.url).request("GET", Client(found.url).path)[2]["content-security-policy"]
            assert ("frame-ancestors 'none'" not in policy) == expected


def test_close_ends_everything(matrix: sp.Tensor) -> None:
    before = set(threading.enumerate())
    found = sp.explore(matrix)
    client = Client(found.url)
    with socket.create_connection((client.host, client.port)) as waiting:
        client.ask("meta")
        found.close()
        found.close()
        assert waiting.recv(10) == b""
    with pytest.raises(ConnectionRefusedError):
        client.ask("meta")
    for thread in set(threading.enumerate()) - before:
        if "process_request" in thread.name or thread.name.startswith("sparrow-explorer"):
            thread.join(10)
            assert not thread.is_alive()
    assert "closed" in repr(found)
    with sp.explore(matrix, port=client.port) as again:
        assert Client(again.url).port == client.port


def test_ports_in_use_are_refused(explorer: Explorer, matrix: sp.Tensor) -> None:
    with pytest.raises(sp.errors.InvalidValueError, match="port must be free"):
        sp.explore(matrix, port=Client(explorer.url).port)
    for port in (-1, 70_000, "80"):
        with pytest.raises(sp.errors.InvalidValueError, match="port must be from 0 to 65535"):
            sp.explore(matrix, port=port)  # type: ignore[arg-type]


# -- answers -----------------------------------------------------------------------------------------


def test_bins_are_refined_until_exact(client: Client, matrix: sp.Tensor) -> None:
    with tune("explorer", first_chunks=5, refine_chunks=50), observe("storage.read_row_group") as reads:
        found = client.ask("bins", bins=[40, 30], read=0)
        assert (found["read"], len(reads), found["exact"]) == (0, 0, False)
        found = client.ask("bins", bins=[40, 30])
        assert (found["read"], len(reads)) == (5, 5)
        found = client.ask("bins", bins=[40, 30])  # cached
        assert len(reads) == 5
        while not found["exact"]:
            found = client.ask("bins", bins=[40, 30], read="more", labels=False)
    assert found["total"] == matrix.nnz
    expected = expected_counts(matrix.to_numpy(), [(0, 400), (0, 300)], tuple(found["steps"]))
    assert np.array_equal(found["counts"], expected)
    assert found["code"] == "matrix"


def test_windows_that_were_overtaken_are_not_computed(client: Client, explorer: Explorer) -> None:
    ready, go = threading.Event(), threading.Event()
    answers: list[Any] = []

    def wait(**details: Any) -> None:
        ready.set()
        assert go.wait(30)

    def ask(number: int) -> None:
        window = {"ranges": [[0, number], [0, 300]]}
        answers.append((number, client.ask("bins", bins=[9, 9], window=window, page="p", number=number)))

    threads = [threading.Thread(target=ask, args=(number,)) for number in (1, 2, 3)]
    with on("explorer.window", wait):
        threads[0].start()
        assert ready.wait(30)
        arrived = threading.Barrier(2, timeout=30)
        with on("explorer.asked", lambda **details: arrived.wait()):
            for thread in threads[1:]:
                thread.start()
                arrived.wait()
        go.set()
        for thread in threads:
            thread.join()
    found = dict(answers)
    assert "counts" in found[1]
    assert found[2] == {"superseded": True}
    assert "counts" in found[3]


def test_few_windows_are_cached(client: Client) -> None:
    with tune("explorer", cached_windows=2), observe("explorer.window") as made:
        for start in (0, 1, 2, 0):
            client.ask("bins", bins=[9, 9], window={"ranges": [[start, 400], [0, 300]]})
    assert [details["cached"] for _, details in made] == [1, 2, 2, 2]


def test_labels_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    stored = save(make_sparse((9, 4), 30), tmp_path / "s", {0: [f"row {k}" for k in range(9)]})
    for file in (tmp_path / "s" / "_labels").iterdir():
        file.unlink()
    with sp.explore(stored) as found:
        client = Client(found.url)
        assert client.ask("meta")["tensors"][0]["labelled"] == [0]
        assert client.ask("bins", labels=False)["total"] == stored.nnz
        assert "error" in client.ask("bins")


def test_labels_of_bins_come_with_the_picture(tmp_path: Path) -> None:
    stars = save(make_sparse((9, 4), 30), tmp_path / "s", {0: [f"<b>{k}" for k in range(9)]})
    with sp.explore(stars) as found:
        answer = Client(found.url).ask("bins", bins=[3, 4], window={"ranges": [[3, 9], [0, 4]]})
        assert answer["labels"] == [["<b>3", "<b>5", "<b>7"], None]
        assert Client(found.url).ask("meta")["tensors"][0]["labelled"] == [0]


def test_elements_of_a_window(client: Client, matrix: sp.Tensor) -> None:
    window = {"ranges": [[5, 9], [0, 300]]}
    with tune("explorer", listed_elements=10_000, listing_chunks=100):
        found = client.ask("elements", window=window)
    dense = matrix.to_numpy()[5:9]
    rows, columns = np.nonzero(dense)
    assert found["complete"]
    assert found["columns"][0] == {"name": "src", "positions": (rows + 5).tolist(), "labels": None}
    assert found["columns"][1]["positions"] == columns.tolist()
    assert found["values"] == dense[rows, columns].tolist()
    with tune("explorer", listed_elements=7), observe("storage.read_row_group") as reads:
        found = client.ask("elements", window=window)
    assert (len(found["values"]), found["complete"], len(reads)) == (7, False, 1)


def test_row_groups_that_a_window_reads(client: Client, matrix: sp.Tensor) -> None:
    with observe("storage.read_row_group") as reads:
        everything = client.ask("groups")
        found = client.ask("groups", window={"ranges": [[300, 310], [0, 300]]})
    assert reads == []
    assert everything["read"] == everything["total"] == len(everything["cells"])
    assert sum(cell["rows"] for cell in found["cells"]) == found["rows"] == matrix.nnz
    with observe("storage.read_row_group") as reads:
        size = matrix[300:310].to_numpy().size
    assert size
    assert found["read"] == len(reads) < found["total"]
    assert [cell["read"] for cell in found["cells"]].count(1) == found["read"]
    with tune("explorer", map_cells=10):
        grouped = client.ask("groups", window={"ranges": [[300, 310], [0, 300]]})
    assert len(grouped["cells"]) <= 10
    assert sum(cell["read"] for cell in grouped["cells"]) == found["read"]


def test_plan_is_that_of_explain(client: Client, matrix: sp.Tensor) -> None:
    found = client.ask("plan", window={"ranges": [[300, 310], [2, 3]]})
    assert found["plan"] == matrix[300:310, 2:3].explain().to_json()
    assert found["code"] == "matrix[300:310, 2:3].explain()"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("17", [(0, 17, 18), (1, 17, 18)]),
        ("5:9", [(0, 5, 9), (1, 5, 9)]),
        ("350", [(0, 350, 351)]),
        ("350:", [(0, 350, 400)]),
        ("1,00", [(0, 100, 101), (1, 100, 101)]),
        ("x", []),
        ("-1", []),
        ("9:5", []),
        (":", [(0, 0, 400), (1, 0, 300)]),
        ("", []),
    ],
)
def test_positions_are_found(client: Client, text: str, expected: list[Any]) -> None:
    found = client.ask("search", text=text)["found"]
    assert [(each["axis"], each["start"], each["stop"]) for each in found] == expected


@pytest.mark.parametrize(
    ("labels", "text", "expected"),
    [
        (["Banana", "an apple", "apple", "applesauce", "100% <b>"], "apple", ["apple", "applesauce", "an apple"]),
        (["Banana", "an apple", "apple", "applesauce", "100% <b>"], "% <", ["100% <b>"]),
        (["Banana", "an apple", "apple", "applesauce", "100% <b>"], ".*", []),
        ([10, 7, 70, 17, 1], "7", ["7", "70", "17"]),
        ([10, 7, 70, 17, 1], "x", []),
    ],
)
def test_labels_are_found(labels: list[Any], text: str, expected: list[str], tmp_path: Path) -> None:
    stored = save(make_sparse((5, 4), 20), tmp_path / "s", {0: labels})
    with sp.explore(stored) as found:
        answer = Client(found.url).ask("search", text=text, axes=[0])["found"]
    assert [each["label"] for each in answer] == expected
    assert [labels[each["start"]] for each in answer] == [type(labels[0])(text) for text in expected]


def test_versions_are_looked_at(client: Client, matrix: sp.Tensor, tmp_path: Path) -> None:
    before = client.ask("bins", bins=[400, 300])["total"]
    other = sp.open(tmp_path / "web.sparrow")
    other[0] = 0
    other.resize((500, 300))
    found = client.ask("versions")
    assert [version["version"] for version in found["versions"]] == [2, 1, 0]
    assert client.ask("describe", version=2)["shape"] == [500, 300]
    assert client.ask("describe")["shape"] == [400, 300]
    with tune("explorer", first_chunks=10_000, step_seconds=1e9):
        assert client.ask("bins", bins=[400, 300], version=1)["total"] == other.nnz < before
        assert client.ask("bins", bins=[400, 300])["total"] == pytest.approx(before)
    assert "no version 9" in client.ask("describe", version=9)["error"]
    assert "version" in client.ask("describe", version="latest")["error"]


def test_versions_whose_files_are_gone_are_reported(tmp_path: Path) -> None:
    stored = save(make_sparse((40, 30), 600), tmp_path / "t")
    stored[...] = 0
    stored.vacuum("0 seconds")
    with sp.explore(stored) as found:
        client = Client(found.url)
        assert "vacuum" in client.ask("bins", version=0, bins=[4, 4])["error"]
        assert client.ask("bins", bins=[4, 4])["total"] == 0


# -- SQL ---------------------------------------------------------------------------------------------


def test_queries_return_first_rows(client: Client, matrix: sp.Tensor) -> None:
    found = client.ask(
        "sql", query="select src, count(*) as n from matrix group by src order by n desc, src", ident="1"
    )
    degrees = (matrix.to_numpy() != 0).sum(axis=1)
    order = sorted(range(400), key=lambda k: (-degrees[k], k))
    assert found["columns"] == ["src", "n"]
    assert found["rows"] == [[k, int(degrees[k])] for k in order if degrees[k]][:500]
    with tune("explorer", sql_rows=3):
        found = client.ask("sql", query="from range(10) order by 1 desc", ident="2")
    assert (found["rows"], found["more"]) == ([[9], [8], [7]], True)


def test_values_of_all_types_are_sent(client: Client) -> None:
    query = """select null, true, 1::hugeint << 100, 'nan'::double, 0.1::decimal(3, 1), date '2026-01-02', [1, 2],
    {'a': '<b>'}, 'x'::blob, repeat('y', 5000), 9007199254740993"""
    (row,) = client.ask("sql", query=query, ident="1")["rows"]
    assert row[:2] == [None, True]
    assert row[3:9] == ["nan", "0.1", "2026-01-02", "[1, 2]", "{'a': '<b>'}", "78"]
    assert len(row[9]) == 160
    assert row[10] == "9007199254740993"


@pytest.mark.parametrize(
    "query",
    [
        "create table t (a int)",
        "copy (select 1) to '{folder}/stolen.csv'",
        "attach '{folder}/x.db'",
        "install httpfs",
        "insert into matrix values (1, 2, 3)",
        "delete from matrix",
        "set memory_limit = '1GB'",
        "explain analyze copy (select 1) to '{folder}/stolen.csv'",
        "select 1; select 2",
        "",
        "selec 1",
        "from nowhere",
    ],
)
def test_statements_that_do_more_than_read_are_refused(client: Client, query: str, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    found = client.ask("sql", query=query.format(folder=tmp_path), ident="1")
    assert found.keys() == {"error"}
    assert found["error"]
    assert sorted(tmp_path.rglob("*")) == before


ENDLESS = "select count(*) from range(1000000000000) a, range(1000000) b where (a.range + b.range) % 7 = 3"


def test_long_queries_are_stopped(client: Client) -> None:
    with tune("explorer", sql_seconds=0.2):
        assert "more than 0.2 s" in client.ask("sql", query=ENDLESS, ident="1")["error"]
    assert client.ask("sql", query="select 1", ident="2")["rows"] == [[1]]


def test_queries_are_cancelled(client: Client, explorer: Explorer) -> None:
    answers: list[Any] = []
    running = threading.Event()
    with on("explorer.sql", lambda **details: running.set()):
        thread = threading.Thread(target=lambda: answers.append(client.ask("sql", query=ENDLESS, ident="long")))
        thread.start()
        assert running.wait(30)
        assert client.ask("cancel", ident="other") == {"cancelled": False}
        assert client.ask("cancel", ident="long") == {"cancelled": True}
        thread.join()
    assert answers == [{"error": "cancelled"}]


def test_page_quotes_all_reserved_words(client: Client) -> None:
    query = "select keyword_name from duckdb_keywords() where keyword_category in ('reserved', 'type_function')"
    words = {word for (word,) in client.ask("sql", query=query, ident="1")["rows"]}
    script = client.request("GET", f"{client.path}explorer.js")[1].decode()
    listed = script[script.index("const RESERVED") :]
    assert words <= set(re.findall(r"[a-z_]+", listed[: listed.index(".split")]))


# -- things that can be explored ----------------------------------------------------------------------


THINGS: dict[str, Callable[[Path], Any]] = {
    "path": lambda folder: str(save(make_sparse((9, 9), 30), folder / "t").path),
    "bundle": lambda folder: sp.Bundle({"X": make_sparse((9, 9), 30), "y": np.arange(9), "s": 3}).save(folder / "b"),
    "array": lambda folder: np.eye(4),
    "lazy": lambda folder: make_sparse((9, 9), 30) @ make_sparse((9, 9), 30),
    "view": lambda folder: save(make_sparse((9, 9), 30), folder / "t")[2:, 1],
    "boolean": lambda folder: make_sparse((9, 9), 30) > 2,
    "complex": lambda folder: make_sparse((9, 9), 30) * 1j,
    "fill": lambda folder: make_sparse((9, 9), 30) + 1,
    "five": lambda folder: make_sparse((3, 4, 2, 2, 3), 30),
}


@pytest.mark.parametrize("thing", THINGS)
def test_every_kind_of_tensor_has_every_answer(thing: str, tmp_path: Path) -> None:
    with sp.explore(THINGS[thing](tmp_path)) as found:
        client = Client(found.url)
        for tensor in client.ask("meta")["tensors"]:
            for name in ("describe", "bins", "distributions", "elements", "groups", "plan", "versions"):
                answer = client.ask(name, tensor=tensor["name"], sums=True)
                assert "error" not in answer
            answer = client.ask("sql", query=f'select count(*) from "{tensor["name"]}"', ident="1")
            assert answer["rows"][0][0] == sum(client.ask("bins", tensor=tensor["name"])["counts"].ravel())


def test_scalars_are_refused() -> None:
    with pytest.raises(sp.errors.InvalidValueError, match="at least one dimension"):
        sp.explore(sp.asarray(3))


def test_notebooks_show_a_frame(matrix: sp.Tensor) -> None:
    with sp.explore(matrix, height=321) as found:
        text = found._repr_html_()
        assert f'<iframe src="{found.url}"' in text
        assert 'height="321"' in text
        assert found.url in repr(found)
    assert "iframe" not in found._repr_html_()


def test_wrong_requests_are_answered_with_an_error(client: Client) -> None:
    for name, asked in (
        ("bins", {"window": {"axes": [0, 9]}}),
        ("bins", {"bins": 5}),
        ("bins", {"tensor": "other"}),
        ("search", {"text": "1", "axes": ["x"]}),
        ("describe", {"tensor": ["matrix"]}),
    ):
        assert "must be" in client.ask(name, **asked)["error"]
    for body in (b"", b"[]", b"{", b"[" * 5000):
        status, text, _ = client.request("POST", f"{client.path}api/meta", body, JSON)
        assert status == 200
        assert b'"error"' in text
