from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sparrow.tensor.display import html, human_bytes, human_count, one_line, table


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.00 kB"),
        (9_994, "9.99 kB"),
        (9_996, "10.0 kB"),
        (99_960, "100 kB"),
        (999_600, "1.00 MB"),
        (10**21, "1000 EB"),
    ],
)
def test_human_bytes(n: int, text: str) -> None:
    assert human_bytes(n) == text


@pytest.mark.parametrize(
    ("n", "text"),
    [(0, "0"), (999_999, "999,999"), (1_000_000, "1 million"), (999_600_000, "1 billion"), (10**20, "1e+20")],
)
def test_counts(n: int, text: str) -> None:
    assert human_count(n) == text


def test_repr() -> None:
    shown = one_line((325557, 325557), ("src", "dst"), "int64", 3216152, "coo", "/data/web.sparrow", 0)
    assert shown == "<Tensor web.sparrow (src: 325557, dst: 325557) int64 nnz=3216152 coo v0>"
    assert "nnz=?" in one_line((3,), ("d0",), "bool", None, "coo")
    assert one_line((), (), "float64", 1, "coo") == "<Tensor () float64 nnz=1 coo in memory>"


def test_html_escapes() -> None:
    shown = html((2,), ("<script>",), "int64", 1, "coo", "a&b", 3, 4096)
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "a&amp;b" in shown
    assert "1 of 2 elements" in shown
    assert "4.10 kB" in shown


def test_table_alignment() -> None:
    assert table([], ("a", "b")).split("\n") == ["a  b", "-  -"]
    lines = table([("x", 1.5, None), ("yy", 22.25, "z")], ("name", "n", "note")).split("\n")
    assert lines == ["name      n  note", "----  -----  ----", "x       1.5", "yy    22.25  z"]


def test_table_replaces_control_characters() -> None:
    assert "\x1b" not in table([("\x1b[2J\n",)], ("a\n",))
    assert len(table([("\n\n",)], ("a",)).split("\n")) == 3


@given(st.lists(st.tuples(st.text(max_size=200), st.integers(), st.text(max_size=200)), max_size=5))
def test_table_fits_width(rows: list[tuple[str, int, str]]) -> None:
    lines = table(rows, ("first", "second", "third"), width=60).split("\n")
    assert len(lines) == len(rows) + 2
    assert max(map(cell_len, lines)) <= 60
