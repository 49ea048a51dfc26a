"""Consistent checkpoints of all blocks: each block writes its own file, a manifest makes them count.

checkpoints/epoch-3/block-0.pt, block-1.pt, ..., manifest.json (written last, by the parent)
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from repro.store import to_json, write_atomically

KEPT = 2  # newest checkpoints that stay: one more than needed, should the newest be damaged


def save_block(folder: Path, epoch: int, block: int, state: dict[str, Any]) -> tuple[str, str]:
    """Write one block's state; returns (file relative to `folder`, sha256). OSError on a full disk."""
    target = folder / f"epoch-{epoch}" / f"block-{block}.pt"
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    try:
        torch.save(state, part)
        digest = _digest(part)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return str(target.relative_to(folder)), digest


def commit(
    folder: Path, epoch: int, updates: int, files: dict[int, tuple[str, str]], extra: dict[str, Any]
) -> None:
    """Write the manifest once all blocks have saved, then drop older checkpoints."""
    manifest = {
        "epoch": epoch,
        "updates": updates,
        "files": {str(k): list(v) for k, v in files.items()},
        **extra,
    }
    write_atomically(folder / f"epoch-{epoch}" / "manifest.json", to_json(manifest, indent=1))
    for old in _epochs(folder)[KEPT:]:
        shutil.rmtree(folder / f"epoch-{old}", ignore_errors=True)


def newest(folder: Path, blocks: int, warn: Callable[[str], None]) -> tuple[Path, dict[str, Any]] | None:
    """Return the newest whole checkpoint (folder, manifest); a damaged one is named to `warn` and passed over."""
    for epoch in _epochs(folder):
        place = folder / f"epoch-{epoch}"
        try:
            manifest = json.loads((place / "manifest.json").read_text(encoding="utf-8"))
            files = {int(k): v for k, v in manifest["files"].items()}
        except FileNotFoundError:
            continue  # cut off while it was being written
        except (OSError, ValueError, KeyError) as error:
            warn(f"checkpoint {place} is damaged ({error})")
            continue
        wrong = [
            name
            for name, digest in files.values()
            if not (folder / name).is_file() or _digest(folder / name) != digest
        ]
        if wrong or sorted(files) != list(range(blocks)):
            warn(f"checkpoint {place} is damaged ({', '.join(wrong) or 'blocks are missing'})")
            continue
        return place, manifest
    return None


def load_block(place: Path, block: int, device: torch.device) -> dict[str, Any]:
    """Read one block's state from a checkpoint folder."""
    state: dict[str, Any] = torch.load(place / f"block-{block}.pt", map_location=device, weights_only=False)
    return state


def _epochs(folder: Path) -> list[int]:
    names = [p.name.removeprefix("epoch-") for p in folder.glob("epoch-*")]
    return sorted((int(n) for n in names if n.isdigit()), reverse=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
