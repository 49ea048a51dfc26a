"""Numbers as text: rounded half up on what the number is meant to be, so that every format shows the same digits."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

_LARGE = 1e9  # from here on in powers of ten: an interval that says nothing
_TRUSTED = 12  # significant digits; what lies behind is noise of the summation


def fixed(x: float, decimals: int) -> str:
    """`x` with `decimals` places: 89.995 is 90.00 although its binary form is a little less; never "-0.00"."""
    if not math.isfinite(x):
        return str(x)
    if abs(x) >= _LARGE:
        return f"{x:.1e}"
    number = Decimal(f"{x:.{_TRUSTED}g}").quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP)
    return f"{abs(number) if number == 0 else number:f}"


def decimals_for(x: float, significant: int = 3) -> int:
    """Places after the point that show `significant` digits of `x` (0 for large numbers, at most 12)."""
    if x == 0 or not math.isfinite(x):
        return significant - 1
    return min(12, max(0, significant - 1 - math.floor(math.log10(abs(x)))))
