"""The tracker that a word of --log means: tensorboard, mlflow, an entry point, or a function in a Python file."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from repro.errors import MissingError, UserError, nearest
from repro.own_classes import function_from_file, registered
from repro.trackers.tracker import Calls, Tracker

GROUP = "repro.trackers"  # of entry points


@dataclass(frozen=True)
class _Known:
    """A tracker of this program's: the module that must be there, what brings it, and the class."""

    needs: str
    install: str
    place: str


_OURS = {
    "tensorboard": _Known(
        "tensorboard", "pip install 'repro[tensorboard]' (or: pip install tensorboard)",
        "repro.trackers.tensorboard_events:TensorBoard",
    ),
    "mlflow": _Known(
        "mlflow", "pip install 'repro[mlflow]' (or: pip install mlflow)", "repro.trackers.mlflow_client:MLflow"
    ),
}  # fmt: skip


def factory(word: str) -> Callable[[], Tracker]:
    """What makes the tracker for a run. UserError where the word means none, MissingError where its package is not here."""
    if word in _OURS:
        return _ours(word)
    if ":" in word:
        try:
            function = function_from_file(word, "tracker")
        except ValueError as error:
            raise UserError(f"--log {word}: {error}") from None
        except Exception as error:
            raise UserError(
                f"--log {word}: the file cannot be run ({type(error).__name__}: {error})"
            ) from None
        return lambda: _tracker(function, word)
    points = registered(GROUP)
    if word not in points:
        known = [*_OURS, *points]
        raise UserError(
            f"--log {word!r} is unknown.{nearest(word, known)} Allowed: {', '.join(known)}, or path/to/file.py:function"
        )
    try:
        found = points[word].load()
    except Exception as error:
        raise MissingError(
            f"--log {word}: its entry point cannot be loaded ({type(error).__name__}: {error})"
        ) from None
    return lambda: _tracker(found, word)


def _ours(word: str) -> Callable[[], Tracker]:
    known = _OURS[word]
    if find_spec(known.needs) is None:  # not imported: that takes seconds
        raise MissingError(f"--log {word} needs the package {known.needs}: {known.install}")
    module, _, name = known.place.partition(":")
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]


def _tracker(found: Any, word: str) -> Tracker:
    """A subclass of Tracker is made, anything else is called with rows."""
    if isinstance(found, type) and issubclass(found, Tracker):
        return found()
    if not callable(found):
        raise UserError(f"--log {word}: {found!r} is no function")
    return Calls(found)
