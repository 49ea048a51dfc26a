"""The errors a user meets, each with the exit code that the command ends with."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ReproError(Exception):
    """Base of all errors that are printed as one sentence, without a traceback."""

    exit_code = 1


class RunFailed(ReproError):
    """A run failed or diverged, or a check did not hold."""

    exit_code = 1


class UserError(ReproError):
    """The command or the recipe is wrong; raised before any work starts."""

    exit_code = 2


class MissingError(ReproError):
    """Hardware, data or a package that the recipe needs is not here."""

    exit_code = 3


def nearest(name: str, names: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the closest of `names`, or an empty string."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return f" Did you mean '{close[0]}'?" if close else ""
