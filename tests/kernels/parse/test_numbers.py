"""Number scanner against ``int`` and ``float`` of Python."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparrow.kernels.parse.numbers import BAD, HARD, OK, OVERFLOW, address, kernel, scan_float, scan_integer


@kernel
def _floats(data: Any, starts: Any, values: Any, ends: Any, statuses: Any) -> None:
    for k in range(len(starts)):
        values[k], ends[k], statuses[k] = scan_float(address(data), starts[k])


@kernel
def _integers(data: Any, starts: Any, values: Any, ends: Any, statuses: Any) -> None:
    for k in range(len(starts)):
        values[k], ends[k], statuses[k] = scan_integer(address(data), starts[k])


def scan(loop: Any, tokens: Sequence[str], dtype: Any) -> tuple[Any, list[str], list[int]]:
    """Return the values, what was left over of each token, and the statuses."""
    data = np.frombuffer(bytearray("".join(token + "\n" for token in tokens).encode()), np.uint8)
    lengths = np.array([len(token) + 1 for token in tokens], np.int64)
    starts = np.cumsum(lengths) - lengths
    values, ends, statuses = np.zeros(len(tokens), dtype), np.zeros(len(tokens), int), np.zeros(len(tokens), int)
    loop(data, starts, values, ends, statuses)
    rest = [token[end - start :] for token, start, end in zip(tokens, starts, ends, strict=True)]
    return values, rest, statuses.tolist()


def bits(x: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", x))[0])


def double(word: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", word))[0])


def check_floats(tokens: Sequence[str], most_hard: float = 0.0) -> None:
    values, rest, statuses = scan(_floats, tokens, np.float64)
    wrong = [
        (token, value)
        for token, value, left, status in zip(tokens, values.tolist(), rest, statuses, strict=True)
        if left or (status != HARD and (status != OK or bits(value) != bits(float(token))))
    ]
    assert not wrong
    assert statuses.count(HARD) <= most_hard * len(tokens)


@given(st.lists(st.floats(allow_nan=False).map(repr), min_size=1))
def test_python_floats_round_trip(tokens: list[str]) -> None:
    check_floats(tokens)


def test_random_bits_round_trip() -> None:
    rng = random.Random(1)
    words = [rng.randrange(0x7FF << 52) | rng.randrange(2) << 63 for _ in range(20_000)]
    words += [rng.randrange(1 << rng.randrange(1, 54)) for _ in range(5_000)]
    check_floats([repr(double(word)) for word in words])
    check_floats([format(double(word), ".18e") for word in words])


def test_19_digits_are_never_hard() -> None:
    rng = random.Random(2)
    tokens = []
    for _ in range(20_000):
        digits = str(rng.randrange(10 ** rng.randrange(1, 20)))
        point = rng.randrange(len(digits) + 1)
        tokens.append(f"{digits[:point]}.{digits[point:]}e{rng.randrange(-365, 330)}")
        tokens.append(digits)
    check_floats(tokens)


def test_halfway_between_two_doubles() -> None:
    rng = random.Random(3)
    exact, near = [], []
    with localcontext() as context:
        context.prec = 1200
        for _ in range(3_000):
            word = (
                rng.randrange(0x7FE << 52)
                if rng.randrange(2)
                else rng.randrange(1018, 1090) << 52 | rng.randrange(1 << 52)
            )
            half = (Decimal(double(word)) + Decimal(double(word + 1))) / 2
            exact += [str(half), str(half) + "1" if "E" not in str(half) else str(half)]
            near += [format(half, ".18e"), format(half, ".17e"), format(half, ".16e")]
    check_floats(exact, most_hard=1.0)
    check_floats(near)


def test_long_numbers_are_rarely_hard() -> None:
    rng = random.Random(4)
    check_floats([f"0.{rng.randrange(10**30):030d}" for _ in range(20_000)], most_hard=0.01)


@pytest.mark.parametrize(
    "token",
    ["0", "-0", "+0.0", "1.", ".5", "-.5", "1e5", "1E+5", "1e-5", "00012", "0.0001", "9007199254740993", "1e22", "1e23",
     "8.5e-324", "2.4703282292062327e-324", "2.4703282292062328e-324", "5e-324", "2.2250738585072011e-308",
     "1.7976931348623157e308", "1.7976931348623159e308", "1e309", "-1e400", "1e-400", "0e99999999999999999999",
     "1e99999999999999999999", "1e-99999999999999999999", "1" + "0" * 400, "0." + "0" * 400 + "1e401",
     "18446744073709551615", "18446744073709551616", "9999999999999999999", "0.1", "0.30000000000000004",
     "inf", "-INF", "+Infinity", "iNfInItY"],
)  # fmt: skip
def test_single_floats(token: str) -> None:
    check_floats([token])


def test_nan_in_any_case() -> None:
    values, rest, statuses = scan(_floats, ["nan", "NaN", "+nan", "-NAN"], np.float64)
    assert np.isnan(values).all()
    assert [math.copysign(1, value) for value in values.tolist()] == [1, 1, 1, -1]
    assert (rest, statuses) == ([""] * 4, [OK] * 4)


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "+",
        "-",
        "+.",
        "e5",
        ".e1",
        "1e",
        "1e+",
        "1e-",
        "1ex",
        "abc",
        "na",
        "in",
        "--1",
        "#",
        "1.#INF",
        "-1.#IND",
    ],
)
def test_invalid_floats(token: str) -> None:
    assert scan(_floats, [token], np.float64)[2] == [BAD]


@pytest.mark.parametrize(
    ("token", "left"),
    [("0x10", "x10"), ("1.5#c", "#c"), ("1_0", "_0"), ("1e5.", "."), ("infinit", "init"), ("nano", "o"), ("1 2", " 2")],
)
def test_rest_of_token_is_left_over(token: str, left: str) -> None:
    _, rest, statuses = scan(_floats, [token], np.float64)
    assert (rest, statuses) == ([left], [OK])


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.sampled_from(["", "0", "000000000000000000000"]))
def test_integers(numbers: list[int], zeros: str) -> None:
    tokens = [("-" if n < 0 else "") + zeros + str(abs(n)) for n in numbers]
    values, rest, statuses = scan(_integers, tokens, np.int64)
    assert values.tolist() == numbers
    assert (rest, statuses) == ([""] * len(tokens), [OK] * len(tokens))


@given(st.integers(2**63, 10**40), st.booleans())
def test_integers_beyond_64_bits(number: int, negative: bool) -> None:
    token = str(-number - 1 if negative else number)
    _, rest, statuses = scan(_integers, [token], np.int64)
    assert (rest, statuses) == ([""], [OVERFLOW])


@pytest.mark.parametrize(("token", "left"), [("", ""), ("-", ""), ("+", ""), ("x", "x"), ("--1", "-1"), (".5", ".5")])
def test_invalid_integers(token: str, left: str) -> None:
    _, rest, statuses = scan(_integers, [token], np.int64)
    assert (rest, statuses) == ([left], [BAD])


def test_integers_stop_at_non_digits() -> None:
    values, rest, statuses = scan(_integers, ["+5:1", "1.5", "7e3"], np.int64)
    assert (values.tolist(), rest, statuses) == ([5, 1, 7], [":1", ".5", "e3"], [OK] * 3)
