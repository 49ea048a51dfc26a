"""Every path on disk, in one place."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
_BUNDLED = PACKAGE / "bundled"  # what the wheel carries of the top-level folders
_TREE = PACKAGE.parent


def recipes() -> Path:
    """Folder of the recipes: the tree's own, or the copy inside an installed wheel."""
    return _BUNDLED / "recipes" if (_BUNDLED / "recipes").is_dir() else _TREE / "recipes"


def published() -> Path:
    """The papers' numbers with their sources."""
    return recipes() / "published.yaml"


def reference() -> Path:
    """The committed reference runs."""
    return _BUNDLED / "reference" if (_BUNDLED / "reference").is_dir() else _TREE / "results" / "reference"


def runs() -> Path:
    """Default folder of the user's own runs."""
    return Path("results") / "runs"


def figures() -> Path:
    """Default folder of the figures."""
    return Path("results") / "figures"


def page() -> Path:
    """Default file of the report page."""
    return Path("results") / "report.html"


def data_root() -> Path:
    """Folder that holds downloaded data sets (REPRO_DATA, else ./data)."""
    return Path(os.environ.get("REPRO_DATA", "data"))


def plain_name(name: str) -> str:
    """Return `name` if it can be that of one folder or file below another; ValueError says what it must not hold."""
    if not name or name[0] in ".-" or name != name.strip() or len(name.encode()) > 200:
        raise ValueError(
            f"the name {name!r} must not be empty, begin with '.' or '-', or be longer than 200 bytes"
        )
    if wrong := sorted({c for c in name if c in '/\\:*?"<>|[]' or not c.isprintable()}):
        raise ValueError(
            f"the name {name!r} names a folder of results, so it must not hold {' '.join(map(repr, wrong))}"
        )
    return name


def seed_folder(out: Path, recipe: str, run_hash: str, seed: int) -> Path:
    """`<out>/<recipe>/<hash>/seed-<s>`: one run."""
    return out / recipe / run_hash / f"seed-{seed}"


def costs() -> Path:
    """Measured layer times of this machine, from which blocks are cut: one place, so that a cut stays the same.

    REPRO_CACHE, else the user's cache folder.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME") or Path.home()) / ".cache"
    return Path(os.environ.get("REPRO_CACHE") or Path(home) / "repro") / "costs"


def bench(results: Path) -> Path:
    """Rows of the benchmarks that have been run."""
    return results / "bench"
