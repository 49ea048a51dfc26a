"""`repro doctor`: what is here, what is missing, and how to get it."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

from repro import paths
from repro.errors import MissingError
from repro.recipe import DataSpec

DATA = ("digits", "text", "fashion-mnist", "cifar10", "cifar100", "imagenet")


def report(as_json: bool) -> None:
    """Print versions, devices, threads and data sets; nothing is downloaded."""
    from repro.planning.machine import environment

    facts = environment()
    rows = [_data(name) for name in DATA] + [_package(*row) for row in _OPTIONAL]
    if as_json:
        print(json.dumps({"rows": rows, "environment": facts}, indent=1))
        return
    for name, value in facts.items():
        if name != "command" and value not in (None, []):
            print(f"{name:<16} {value}")
    print()
    for row in rows:
        print(
            f"{row['name']:<16} {'found' if row['found'] else 'missing'}{': ' + row['note'] if row['note'] else ''}"
        )
    if not facts["gpus"]:
        print("\nno CUDA device: blocks run as processes on the CPU; profile quick is the default")


def _data(name: str) -> dict[str, Any]:
    from repro import data

    try:
        note = data.identity(
            DataSpec.model_validate({"name": name}), paths.data_root()
        )  # reads, never downloads
    except MissingError as error:
        return {"name": name, "found": False, "note": str(error)}
    return {"name": name, "found": True, "note": note}


_OPTIONAL = (
    ("cupy", "CUDA kernels: pip install 'repro[cuda12]' or 'repro[cuda13]'"),
    ("numba", "fast CPU kernels: pip install numba"),
    ("tokenizers", "texts in subwords (data.tokenizer): pip install 'repro[text]'"),
)


def _package(name: str, hint: str) -> dict[str, Any]:
    found = importlib.util.find_spec(name) is not None
    return {"name": name, "found": found, "note": "" if found else hint}
