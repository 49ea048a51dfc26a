"""The training methods: settings and schedules, one file each, found by name.

A user's own method needs no change here: give `method.name` as "path/to/file.py:Class", or register a class
under the entry-point group "repro.methods" (docs/own-method.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from repro.errors import nearest
from repro.methods.bp import BP
from repro.methods.ddg import DDG
from repro.methods.delayed import Delayed
from repro.methods.dni import DNI
from repro.methods.dsp import DSP
from repro.methods.fdg import FDG
from repro.methods.fr import FR
from repro.methods.gpipe import GPipe
from repro.methods.method import Method
from repro.methods.pipedream import PipeDream
from repro.methods.pipemare import PipeMare
from repro.methods.two_bw import TwoBW
from repro.own_classes import checked, files_refused, from_file, registered

BUILT_IN: dict[str, type[Method]] = {
    "bp": BP,
    "ddg": DDG,
    "dni": DNI,
    "dsp": DSP,
    "fdg": FDG,
    "fr": FR,
    "gpipe": GPipe,
    "pipedream": PipeDream,
    "2bw": TwoBW,
    "pipemare": PipeMare,
    "delayed": Delayed,
}
ENTRY_POINTS = "repro.methods"

__all__ = ["BUILT_IN", "Method", "files_refused", "find_method", "parse_method", "stored_method"]


def find_method(name: str) -> type[Method]:
    """Return the class of a method by name, entry point or "file.py:Class"; ValueError lists the names."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    if ":" in name:
        return from_file(name, Method, "method")
    plugins = registered(ENTRY_POINTS)
    if name in plugins:
        return checked(plugins[name].load(), name, Method, "method")
    names = [*BUILT_IN, *plugins]
    raise ValueError(
        f"unknown method '{name}'.{nearest(name, names)} Allowed: {', '.join(names)}, or path/to/file.py:Class"
    )


def parse_method(value: Any) -> Method:
    """Turn a name or a mapping with `name` and settings into the method that it describes."""
    if isinstance(value, Method):
        return value
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise ValueError(f"method needs a name, one of: {', '.join(BUILT_IN)}")
    return find_method(value["name"]).model_validate(dict(value))


def stored_method(value: Any) -> Method:
    """The same for what lies in a results folder: data, so a "file.py:Class" in it is not run but a ValueError."""
    name = value.get("name") if isinstance(value, Mapping) else value
    if names_a_file(name):
        raise ValueError(f"method '{name}' is a Python file, which a results folder cannot have run")
    return parse_method(value)


def names_a_file(name: Any) -> bool:
    """Whether a method's name stands for a Python file of the user's."""
    return isinstance(name, str) and name not in BUILT_IN and ":" in name
