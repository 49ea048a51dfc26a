"""Compiling a loop with Numba: without the interpreter's lock, cached on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from repro.gradient.kernels.version import version

# Sums may be re-associated (so that they vectorise) but the code, and so the order, is the same on every
# call. NaN and infinity keep their meaning: a diverging run must show it.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "nsz", "contract"}}


def compiled(loop: Callable[..., None]) -> Any:
    """Compile `loop` on its first call; where no cache folder can be written to, compile anew in each process."""
    _stamp(loop)
    try:
        return numba.njit(cache=True, **_OPTIONS)(loop)
    except RuntimeError:  # "no locator available": neither next to the file nor in the user's own folder
        return numba.njit(**_OPTIONS)(loop)


def callback(signature: str) -> Callable[[Callable[..., None]], Any]:
    """Compile a function of that signature to native code that C can call with an address, without the interpreter."""

    def decorate(function: Callable[..., None]) -> Any:
        _stamp(function)
        try:
            return numba.cfunc(signature, cache=True, error_model="numpy")(function)
        except RuntimeError:
            return numba.cfunc(signature, error_model="numpy")(function)

    return decorate


def _stamp(function: Callable[..., None]) -> None:
    """Put the state of all sources into the name that the cached code is kept under.

    Numba takes cached code for fresh as long as the function's own file has not changed; what it calls may
    stand in another one, and the code then is that of an older version.
    """
    function.__qualname__ = f"{function.__qualname__}_{version()}"
