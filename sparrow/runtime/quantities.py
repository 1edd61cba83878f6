"""Amounts as text."""

from __future__ import annotations

__all__ = ["format_quantity"]


def format_quantity(n: float, unit: str) -> str:
    """Format an amount with three significant digits and its unit.

    Examples
    --------
    >>> format_quantity(12_345_678, "bytes"), format_quantity(999, "bytes"), format_quantity(2_500, "elements")
    ('12.3 MB', '999 bytes', '2.50k elements')
    """
    prefixes = ("", "k", "M", "G", "T", "P", "E")
    step = 0
    while n >= 999.5 and step < len(prefixes) - 1:
        n, step = n / 1000, step + 1
    number = f"{n:.0f}" if step == 0 or n >= 99.95 else f"{n:.1f}" if n >= 9.995 else f"{n:.2f}"
    if unit == "bytes":
        return f"{number} bytes" if step == 0 else f"{number} {prefixes[step]}B"
    return f"{number}{prefixes[step]} {unit}"
