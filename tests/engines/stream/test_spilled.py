"""Products of spilled operands by every tiling, against products in memory."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import sparrow as sp
import sparrow.testing
from sparrow.engines.stream.product import operands
from sparrow.engines.stream.product.product import ProductCursor
from sparrow.errors import StorageError
from sparrow.kernels.coo import Block
from sparrow.testing import observe, tune

SMALL = {
    "part_share": 1e12,
    "min_part_bytes": 700 * 16,
    "max_batch_elements": 300,
    "panel_share": 1e12,
    "min_panel_elements": 700,
    "max_panel_batch": 300,
    "section_elements": 700,
    "section_partition_divisor": 1 << 25,
}
"""Sections and panels of about 700 elements."""


@pytest.fixture(params=["row_sections", "k_panels", "external_sum"])
def on_disk(request: pytest.FixtureRequest) -> Iterator[list[int]]:
    """Multiply stored tensors by small parts; return the number of each product."""
    counts: list[int] = []

    def count_panel(number: int) -> None:
        if number == 0:
            counts.append(0)
        counts[-1] += 1

    with (
        sparrow.testing.strategy(request.param),
        sparrow.testing.tune("product", **SMALL),
        sparrow.testing.on("product.row_sections", lambda sections, **_: counts.append(sections)),
        sparrow.testing.on("product.parts", lambda parts, **_: counts.append(parts)),
        sparrow.testing.on("product.external_panel", count_panel),
    ):
        yield counts
    assert counts


@pytest.fixture
def by_sections() -> Iterator[None]:
    """Multiply stored tensors by small row sections."""
    with sparrow.testing.strategy("row_sections"), sparrow.testing.tune("product", **SMALL):
        yield


def matrices(tmp_path: Path, seed: int) -> tuple[list[Any], list[sp.Tensor]]:
    shapes = [(70, 90, 0.1), (90, 120, 0.2), (70, 120, 0.1)]
    plain = [scipy.sparse.random(n, m, p, "csr", random_state=seed + k) for k, (n, m, p) in enumerate(shapes)]
    return plain, [sp.asarray(each).save(tmp_path / str(k)) for k, each in enumerate(plain)]


def close(found: sp.Tensor, wanted: Any) -> None:
    np.testing.assert_allclose(found.to_numpy(), wanted.toarray(), atol=1e-12)


def test_tilings_match_scipy(tmp_path: Path, on_disk: list[int]) -> None:
    (a, b, m), (A, B, M) = matrices(tmp_path, 3)
    product, inside = a @ b, (a @ b).multiply(m != 0)
    close(A @ B, product)
    assert on_disk[0] in (4, 23)  # 23 sections, each of the right rows that it needs
    close((A @ B).T, product.T)
    close((A @ B)[10:50, 3:], product[10:50, 3:])
    assert (A @ B).nnz == product.nnz
    close((A @ B).save(tmp_path / "saved"), product)
    close(sp.matmul(A, B, mask=M), inside)
    close(sp.matmul(A, B, mask=M, complement=True), product - inside)
    close(A @ B * M, product.multiply(m))
    assert np.isclose((A @ B * M).sum(), product.multiply(m).sum())
    assert np.isclose(sp.einsum("ij,ij->", B, B), b.multiply(b).sum())
    outer = sp.einsum("ij,kl->ijkl", A[:3, :20], B[:30, :40])
    wanted = np.einsum("ij,kl->ijkl", a[:3, :20].toarray(), b[:30, :40].toarray())
    np.testing.assert_allclose(outer.to_numpy(), wanted)


@pytest.mark.parametrize(
    ("semiring", "dtype"),  # tilings use the same kernels for other dtypes
    [*((name, "int64") for name in ("min_plus", "or_and", "plus_first", "any_pair")), ("min_plus", "float64")],
)
def test_tilings_match_memory_for_semirings(tmp_path: Path, on_disk: list[int], semiring: str, dtype: str) -> None:
    plain, _ = matrices(tmp_path, 5)
    scaled = [sp.asarray((each * 40).astype(dtype)) for each in plain]
    A, B = (each.save(tmp_path / f"scaled{k}") for k, each in enumerate(scaled[:2]))
    found = sp.matmul(A, B, semiring=semiring).compute()
    held = sp.matmul(*scaled[:2], semiring=semiring).compute()
    assert len(on_disk) == 1
    assert (found.dtype, found.fill_value) == (held.dtype, held.fill_value)
    np.testing.assert_allclose(found.to_numpy(), held.to_numpy(), atol=1e-12)


@pytest.mark.parametrize("on_disk", ["row_sections", "k_panels"], indirect=True)
def test_sections_and_panels_take_user_functions(tmp_path: Path, on_disk: list[int]) -> None:
    plain, (A, B, _) = matrices(tmp_path, 5)
    longest = sp.Semiring(max, lambda x, y: x + y, identity=-np.inf)
    held = sp.matmul(*map(sp.asarray, plain[:2]), semiring=longest)
    assert sp.matmul(A, B, semiring=longest).to_arrow().equals(held.to_arrow())
    assert len(on_disk) == 1


def test_untiled_product_of_user_functions_in_memory(tmp_path: Path) -> None:
    plain, (A, B, _) = matrices(tmp_path, 25)
    longest = sp.Semiring(max, lambda x, y: x + y, identity=-np.inf)
    one, other = A[7].compute(), plain[0][7].toarray().ravel()
    sums = np.where(other[:, None] * plain[1].toarray(), other[:, None] + plain[1].toarray(), -np.inf)
    with sparrow.testing.strategy("external_sum"):
        np.testing.assert_allclose(sp.einsum("j,jk->k", one, B, semiring=longest).to_numpy(), sums.max(axis=0))
        assert sp.einsum("j,jk->", one, B, semiring=longest) == sums.max()


def test_row_larger_than_memory(tmp_path: Path) -> None:
    plain = scipy.sparse.random(300, 5000, 0.05, "csr", random_state=27)
    A, x = sp.asarray(plain).save(tmp_path / "wide"), sp.asarray(np.arange(300.0))
    with sp.config(memory_limit="1MB"):  # the row would take 1.8 MB
        found = sp.einsum("ij,i->", A, x)
        sums = sp.einsum("ij,ik->k", A, A[::-1]).to_numpy()  # what waits to be added up leaves room for the operands
    np.testing.assert_allclose(found, (plain.T @ np.arange(300.0)).sum())
    np.testing.assert_allclose(sums, plain[::-1].T @ (plain @ np.ones(5000)))


def test_composite_codes_count_as_memory(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(29), 10_000
    ids = np.sort(rng.choice(2**40, n, replace=False))
    A = sp.from_coords([ids, rng.permutation(ids)], np.ones(n), shape=(2**40, 2**40))
    stored = A.save(tmp_path / "wide")
    with sp.config(memory_limit="1MB"), sparrow.testing.observe("product.spill") as spilled:
        found = (stored @ stored).compute()  # a third of it holds the elements, but not their codes beside them
    assert spilled
    assert found.to_arrow().equals((A @ A).to_arrow())


@pytest.mark.parametrize("on_disk", ["k_panels"], indirect=True)
@sparrow.testing.tune("stream", partition_rows=50)
def test_partitions_have_few_mask_elements(tmp_path: Path, on_disk: list[int]) -> None:
    (a, b, m), (A, B, _) = matrices(tmp_path, 31)
    M = sp.asarray(m.T.tocsr()).save(tmp_path / "turned").T
    few = A[:, :2] @ B[:2]
    with sparrow.testing.observe("product.mask_values") as reads:
        check_mask_reads(few, A, B, M, (a, b, m), reads)


def check_mask_reads(few: Any, A: Any, B: Any, M: Any, plain: Any, reads: list[Any]) -> None:
    a, b, m = plain
    assert sp.matmul(A[:, :2], B[:2], mask=M).nnz
    assert not reads  # values of the mask are not needed
    np.testing.assert_allclose((few * M).sum(), (a[:, :2] @ b[:2]).multiply(m).sum())
    read = [details["elements"] for _, details in reads]
    assert sum(read) == m.nnz
    assert max(read) < m.nnz / 2


def test_split_at_rows_cuts_long_rows() -> None:
    read: list[int] = []

    def blocks() -> Iterator[Block]:
        for leading in [0, 1] + [2] * 50 + [3]:
            read.append(leading)
            yield Block((np.full(10, leading, np.int32),), np.ones(10))

    parts = operands.split_at_rows(blocks(), 20, 60)
    found = [next(parts), next(parts)]
    assert len(read) <= 11  # no more than it needs
    found += parts
    assert max(part.count for part in found) <= 80
    assert sum(part.count for part in found) == 530
    assert [part.coords[0][-1] for part in found].count(2) == 8
    assert found[-1].coords[0].tolist()[-10:] == [3] * 10


@pytest.mark.parametrize("on_disk", ["k_panels"], indirect=True)
@pytest.mark.parametrize("semiring", ["plus_times", "max_plus", "function"])
def test_right_rows_longer_than_a_panel(tmp_path: Path, on_disk: list[int], semiring: str) -> None:
    rng = np.random.default_rng(41)
    a, b = (rng.integers(1, 9, shape) * (rng.random(shape) < p) for shape, p in (((40, 50), 0.3), ((50, 4000), 0.02)))
    b[[0, 7, 8, 49]] = rng.integers(1, 9, (4, 4000))  # each has the elements of several panels
    way: Any = sp.Semiring(max, lambda x, y: x + y, identity=0) if semiring == "function" else semiring
    A, B = (sp.asarray(each.astype(float)).save(tmp_path / name) for each, name in ((a, "a"), (b, "b")))
    found = sp.matmul(A, B, semiring=way).compute()
    held = sp.matmul(A.compute(), B.compute(), semiring=way).compute()
    assert found.to_arrow().equals(held.to_arrow())
    assert on_disk[0] > 10


@pytest.mark.parametrize("on_disk", ["k_panels"], indirect=True)
def test_outer_products_by_panels(tmp_path: Path, on_disk: list[int]) -> None:
    _, (A, B, _) = matrices(tmp_path, 43)
    longest = sp.Semiring(max, lambda x, y: x + y, identity=-np.inf)
    for semiring in ("plus_times", longest):
        found = sp.einsum("ij,kl->ijkl", A[:6, :20], B, semiring=semiring)
        held = sp.einsum("ij,kl->ijkl", A[:6, :20].compute(), B.compute(), semiring=semiring)
        assert found.compute().to_arrow().equals(held.compute().to_arrow())
    assert min(on_disk) > 2


def test_dtypes_match_memory(tmp_path: Path, on_disk: list[int]) -> None:
    (a, b, _), _ = matrices(tmp_path, 7)
    for k, dtype in enumerate(["bool", "uint8", "float32", "complex128"]):
        one, other = (sp.asarray((each * 300).astype(dtype)) for each in (a, b))
        found = one.save(tmp_path / f"a{k}") @ other.save(tmp_path / f"b{k}")
        np.testing.assert_allclose(found.to_numpy(), (one @ other).to_numpy(), rtol=1e-6)
        assert found.dtype == dtype
    assert len(on_disk) == 4


def test_same_bits_with_any_thread_count(tmp_path: Path, on_disk: list[int], request: pytest.FixtureRequest) -> None:
    plain, (A, B, _) = matrices(tmp_path, 9)
    with sp.config(threads=1):
        one = (A @ B).compute().to_arrow()
    with sp.config(threads=3):
        assert (A @ B).compute().to_arrow().equals(one)
    assert len(on_disk) == 2
    held = sp.asarray(plain[0]) @ sp.asarray(plain[1])
    assert "row_sections" not in request.node.callspec.params.values() or held.to_arrow().equals(one)


def test_einsum_subscripts_on_disk(tmp_path: Path, on_disk: list[int]) -> None:
    sizes = {"i": 9, "j": 11, "k": 13, "l": 8, "m": 7}

    def some(letters: str, seed: int) -> sp.Tensor:
        shape = tuple(sizes[letter] for letter in letters)
        return sp.random(shape, density=0.4, seed=seed).save(tmp_path / f"{letters}{seed}")

    for number, letters in enumerate(
        ["ijk,kjl->ilj", "ijk,klj->ijl", "ijk,klm->imjl", "ijk,jkl->l", "ijk,ijk->i", "iij,jkk->i", "ijk,ijl->ikl"]
    ):
        own, out = letters.split("->")
        A, B = (some(each, 2 * number + k) for k, each in enumerate(own.split(",")))
        wanted = np.einsum(letters, A.to_numpy(), B.to_numpy())
        np.testing.assert_allclose(sp.einsum(letters, A, B).to_numpy(), wanted, atol=1e-12, err_msg=letters)
        M = some(out, 50 + number)
        inside, outside = (sp.einsum(letters, A, B, mask=M, complement=way).to_numpy() for way in (False, True))
        pattern = M.to_numpy() != 0
        np.testing.assert_allclose(inside, wanted * pattern, atol=1e-12, err_msg=letters)
        np.testing.assert_allclose(outside, wanted * ~pattern, atol=1e-12, err_msg=letters)


def test_ids_up_to_2_to_the_40(tmp_path: Path, on_disk: list[int], request: pytest.FixtureRequest) -> None:
    (a, b, _), (one, other, _) = matrices(tmp_path, 15)
    assert (one @ other).nnz
    spread = np.int64(2**33)
    places = [(each.tocoo().row * spread, each.tocoo().col * spread) for each in (a, b)]
    A, B = (
        sp.from_coords(at, each.tocoo().data, shape=(2**40, 2**40)).save(tmp_path / name)
        for name, at, each in zip(["wide a", "wide b"], places, (a, b), strict=True)
    )
    found = (A @ B).compute()
    wanted = (a @ b).tocsr().sorted_indices().tocoo()
    rows, columns = sp.nonzero(found)
    np.testing.assert_array_equal(rows // spread, wanted.row)
    np.testing.assert_array_equal(columns // spread, wanted.col)
    np.testing.assert_allclose(found.to_arrow()["value"], wanted.data)
    assert len(on_disk) == 2
    if "k_panels" in request.node.callspec.params.values():
        assert on_disk[1] > on_disk[0]  # numbers of coordinates take room too


def test_interrupt_closes_spill_files(tmp_path: Path, on_disk: list[int]) -> None:
    _, (A, B, _) = matrices(tmp_path, 11)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with sparrow.testing.observe("product.spill_file") as files:
        with sparrow.testing.on("product.multiply", interrupt), pytest.raises(KeyboardInterrupt):
            (A @ B).save(tmp_path / "never")
        assert not (tmp_path / "never").exists()
        gc.collect()  # the product goes with the traceback
        assert files
        assert all(details["spool"]._file is None for _, details in files)
        assert (A @ B).nnz > 0
        assert files[-1][1]["spool"]._file is None


def test_full_disk_raises_with_folder(tmp_path: Path, on_disk: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    _, (A, B, _) = matrices(tmp_path, 17)
    left, write = [5], os.pwrite

    def fill_disk(*args: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(*args)

    folder = tmp_path / "aside"
    folder.mkdir()
    with sp.config(temp_directory=folder), monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", fill_disk)
        with pytest.raises(StorageError, match=rf"{folder}.*No space left.*sp.config\(temp_directory="):
            (A @ B).save(tmp_path / "never")
        assert not (tmp_path / "never").exists()
        assert not list(folder.iterdir())
    assert (A @ B).nnz


def test_small_left_operand(tmp_path: Path, on_disk: list[int]) -> None:
    (a, b, _), (A, B, _) = matrices(tmp_path, 19)
    few = (A[:8] * 2.0).save(tmp_path / "few")
    close(few @ B, (a[:8] * 2.0) @ b)


def test_progress_counts_elements(tmp_path: Path, on_disk: list[int]) -> None:
    _, (A, B, _) = matrices(tmp_path, 13)
    done: dict[str, list[int]] = {}
    invisible = tune("runtime", progress_delay_seconds=1e9)
    with sp.config(progress=True), invisible, observe("progress.start", "progress.advance") as seen:
        (A @ B).compute()
    for name, details in seen:
        steps = done.setdefault(details["description"], [])
        steps.append(details["total"] if name == "progress.start" else details["n"])
    for what in {"multiplying part by part", "multiplying panels", "adding up panels"}.intersection(done):
        total, *steps = done[what]
        assert 0 < total == sum(steps) or what == "adding up panels"
    assert {"multiplying part by part", "multiplying panels", "computing"}.intersection(done)
    assert len(on_disk) == 1


def test_memory_stays_within_the_limit(tmp_path: Path) -> None:
    n, rng = 350_000, np.random.default_rng(1)
    held = []
    for name, nnz in [("A", 700_000), ("B", 2_000_000)]:
        at = np.unique(rng.integers(0, n * n, nnz))
        held.append(sp.from_coords([at // n, at % n], np.ones(len(at)), shape=(n, n)))
        held[-1].save(tmp_path / name)
    assert (held[0][:100] @ held[1]).nnz  # compiles kernels outside of the memory limit
    code = """
import re, sys
import sparrow as sp

A, B = (sp.open(f"{sys.argv[1]}/{name}") for name in "AB")
sp.config(memory_limit="150MB", temp_directory=sys.argv[1])
C = (A @ B).save(sys.argv[1] + "/C")
told = dict(re.findall(r"(VmHWM|RssFile):\\s*(\\d+)", open("/proc/self/status").read()))
print(1024 * (int(told["VmHWM"]) - int(told["RssFile"])))
"""
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, stdout=subprocess.PIPE, text=True)
    C, x = sp.open(tmp_path / "C"), rng.random(n)
    assert 24 * (C.nnz + sum(each.nnz for each in held)) > 150e6
    np.testing.assert_allclose(C @ x, held[0] @ (held[1] @ x), rtol=1e-9)
    # How much is mapped of the files of libraries is up to the system: 100 MB and more.
    assert int(run.stdout) <= 220e6


def test_sections_limit_reads(tmp_path: Path) -> None:
    plain, (A, B, _) = matrices(tmp_path, 21)
    held = sp.asarray(plain[0]) @ sp.asarray(plain[1])

    def multiply(**parameters: Any) -> bool:
        """Return whether sections were used."""
        with (
            sparrow.testing.strategy("row_sections"),
            sparrow.testing.tune("product", section_elements=300, **parameters),
            sparrow.testing.observe("product.row_sections") as sections,
        ):
            np.testing.assert_allclose((A @ B).to_numpy(), held.to_numpy())
        return len(sections) == 1

    assert multiply()
    assert not multiply(section_max_reads=0)
    assert not multiply(section_max_rows=60)
    tall = sp.from_coords([np.zeros(90, int), np.arange(90)], np.ones(90), shape=(70, 90)).save(tmp_path / "tall")
    with (
        sparrow.testing.strategy("row_sections"),
        sparrow.testing.tune("product", section_elements=300),
        sparrow.testing.observe("product.row_sections") as sections,
    ):
        np.testing.assert_allclose((tall @ B).to_numpy(), tall.to_numpy() @ plain[1])  # one row needs all of it
    assert not sections


@pytest.mark.usefixtures("by_sections")
def test_sections_in_any_order_on_several_threads(tmp_path: Path) -> None:
    plain, (A, B, _) = matrices(tmp_path, 23)
    wanted = (plain[0] @ plain[1]).toarray()
    with (
        sparrow.testing.tune("product", section_wait_seconds=0),
        sparrow.testing.observe("product.prepare") as products,
    ):
        np.testing.assert_allclose((A @ B).to_numpy(), wanted)
        (product,) = [details["product"] for _, details in products]

        def read(start: int, stop: int) -> Any:
            return ProductCursor(product, start, stop).read(start, stop)

        ends = np.sort(np.random.default_rng(0).integers(0, 71, (60, 2)), axis=1)
        with ThreadPoolExecutor(4) as pool:
            for (start, stop), found in zip(ends, pool.map(lambda span: read(*span.tolist()), ends), strict=True):
                dense = np.zeros_like(wanted)
                dense[found.coords] = found.values
                dense[start:stop] -= wanted[start:stop]
                np.testing.assert_allclose(dense, 0, atol=1e-12)


@pytest.mark.usefixtures("by_sections")
def test_section_stays_in_memory_until_its_last_row(tmp_path: Path) -> None:
    """Bounds that split a partition, as those of a mask do, count it once."""
    plain, (A, B, _) = matrices(tmp_path, 23)
    with (
        sparrow.testing.tune("product", section_partition_divisor=1 << 9),
        sparrow.testing.observe("product.prepare") as products,
        sparrow.testing.observe("product.row_sections") as sections,
        sparrow.testing.observe("product.section_read") as reads,
    ):
        np.testing.assert_allclose((A @ B).to_numpy(), (plain[0] @ plain[1]).toarray())
        product = products[0][1]["product"]
        number = -1
        rest: list[int] = []
        for row in range(70):
            reads.clear()
            ProductCursor(product, row, row + 1).read(row, row + 1)
            (_, read) = reads[-1]
            if read["section"] != number:
                assert rest == [] or rest[-1] == 0
                number, rest = read["section"], []
            rest.append(read["rest"])
            assert rest == sorted(rest, reverse=True)
    assert rest[-1] == 0
    assert number == sections[0][1]["sections"] - 1 > 0
    assert sections[0][1]["partitions"] < 70
