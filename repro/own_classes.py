"""Finds a class of a user's own: in a Python file ("path/to/file.py:Class"), or under an entry point.

A results folder is data: while `files_refused` is open no file is run.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, TypeVar

Base = TypeVar("Base")

_refused: ContextVar[bool] = ContextVar("files_refused", default=False)


@contextmanager
def files_refused() -> Iterator[None]:
    """While it is open no Python file of a user's is run: for recipes that a results folder names."""
    token = _refused.set(True)
    try:
        yield
    finally:
        _refused.reset(token)


def from_file(name: str, base: type[Base], what: str) -> type[Base]:
    """The subclass of `base` that "file.py:Class" names; ValueError about `what` ("method") where there is none."""
    return checked(_attribute(name, what), name, base, what)


def function_from_file(name: str, what: str) -> Any:
    """The function that "file.py:function" names; ValueError about `what` where there is none."""
    found = _attribute(name, what)
    if not callable(found):
        raise ValueError(f"{what} '{name}': there is no function '{name.rpartition(':')[2]}' in the file")
    return found


def _attribute(name: str, what: str) -> Any:
    """What "file.py:name" names, the file run once; None where the file has no such name."""
    if _refused.get():
        raise ValueError(f"{what} '{name}' is a Python file, which a results folder cannot have run")
    path, _, attribute = name.rpartition(":")
    file = Path(path).expanduser()
    if not file.is_file():
        raise ValueError(f"{what} '{name}': there is no file {path}")
    module_name = f"repro_{what}_{file.stem}"
    module = sys.modules.get(module_name)
    if module is None or getattr(module, "__file__", None) != str(file.resolve()):
        spec = importlib.util.spec_from_file_location(module_name, file.resolve())
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        spec.loader.exec_module(module)
    return getattr(module, attribute, None)


def registered(group: str) -> dict[str, Any]:
    """Entry points of installed packages by name."""
    return {point.name: point for point in entry_points(group=group)}


def checked(found: Any, name: str, base: type[Base], what: str) -> type[Base]:
    """`found`, if it is a subclass of `base`."""
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ValueError(f"{what} '{name}' is not a subclass of repro.{what}s.{base.__name__}")
    return found
