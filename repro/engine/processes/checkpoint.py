"""Consistent checkpoints of all blocks: each block writes its own file, a manifest makes them count.

checkpoints/epoch-3/block-0.pt, block-1.pt, ..., manifest.json (written last, by the parent)

The files hold tensors and plain values, and are read as such (torch.load with weights_only): a checkpoint is no
program. The manifest names the format, the version of torch and every file's checksum; what does not fit is named and
passed over, for the checkpoint before it or for the start of the run.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from repro.errors import RunFailed
from repro.store import to_json, write_atomically

FORMAT = 3  # raise when the content of the files changes


def save_block(folder: Path, epoch: int, block: int, state: dict[str, Any]) -> tuple[str, str]:
    """Write one block's state; returns (file relative to `folder`, sha256). RunFailed on a full disk."""
    name = _file(epoch, block)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getbuffer()
    write(folder / name, content)
    return name, hashlib.sha256(content).hexdigest()


def write(target: Path, content: bytes | memoryview) -> None:
    """Write a block's file in one step. RunFailed on a full disk."""
    part = target.with_suffix(".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(target)
    except OSError as error:
        raise RunFailed(
            f"the checkpoint {target} cannot be written ({error.strerror}); the one before it is whole"
        ) from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def commit(
    folder: Path, epoch: int, updates: int, files: dict[int, tuple[str, str]], extra: dict[str, Any]
) -> None:
    """Write the manifest once all blocks have saved; the checkpoint before it stays, should this one be damaged."""
    manifest = {
        "format": FORMAT,
        "torch": torch.__version__,
        "epoch": epoch,
        "updates": updates,
        "files": {str(k): list(v) for k, v in files.items()},
        **extra,
    }
    write_atomically(folder / f"epoch-{epoch}" / "manifest.json", to_json(manifest, indent=1))
    epochs = _epochs(folder)
    before = next((e for e in epochs if e < epoch), None)
    for other in epochs:  # a later epoch is one that `newest` has passed over
        if other not in (epoch, before):
            shutil.rmtree(folder / f"epoch-{other}", ignore_errors=True)


def newest(folder: Path, blocks: int, warn: Callable[[str], None]) -> tuple[Path, dict[str, Any]] | None:
    """Return the newest whole checkpoint (folder, manifest); one that cannot be used is named to `warn`, passed over."""
    for epoch in _epochs(folder):
        place = folder / f"epoch-{epoch}"
        try:
            manifest = json.loads((place / "manifest.json").read_text(encoding="utf-8"))
            version = (int(manifest.get("format", 1)), str(manifest.get("torch", torch.__version__)))
            files = {int(k): v for k, v in manifest["files"].items()}
        except FileNotFoundError:
            continue  # cut off while it was being written
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            warn(f"checkpoint {place} is damaged ({error})")
            continue
        if version != (FORMAT, torch.__version__):
            warn(
                f"checkpoint {place} is of another version (format {version[0]}, torch {version[1]}; here format {FORMAT}, "
                f"torch {torch.__version__}) and is passed over: its numbers would not be those of one run"
            )
            continue
        wrong = [
            str(name)
            for k, (name, digest) in files.items()
            if name != _file(epoch, k) or not (folder / name).is_file() or _digest(folder / name) != digest
        ]
        if wrong or sorted(files) != list(range(blocks)):
            warn(f"checkpoint {place} is damaged ({', '.join(wrong) or 'blocks are missing'})")
            continue
        return place, manifest
    return None


def load_block(place: Path, block: int, device: torch.device) -> dict[str, Any]:
    """Read one block's state from a checkpoint folder; pickle.UnpicklingError for anything but tensors and plain values."""
    state: dict[str, Any] = torch.load(place / f"block-{block}.pt", map_location=device, weights_only=True)
    return state


def _file(epoch: int, block: int) -> str:
    return f"epoch-{epoch}/block-{block}.pt"


def _epochs(folder: Path) -> list[int]:
    names = [p.name.removeprefix("epoch-") for p in folder.glob("epoch-*")]
    return sorted((int(n) for n in names if n.isdigit()), reverse=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
