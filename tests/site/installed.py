"""Installs the built wheel and the source archive in environments of their own and tries them from elsewhere.

    python -m tests.site.installed dist

The environments see what this one has installed (PyTorch and its friends) but not this checkout, so nothing is downloaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

RECIPE = "bp-resnet98-k2"


def main(dist: Path) -> int:
    """Try every file of `dist`; 1 where one does not work."""
    files = sorted([*dist.glob("*.whl"), *dist.glob("*.tar.gz")])
    if {f.suffix for f in files} != {".whl", ".gz"}:
        print(f"{dist}: a wheel and a source archive are wanted; make dist builds them", file=sys.stderr)
        return 1
    for file in files:
        with tempfile.TemporaryDirectory() as folder:
            try_out(file.resolve(), Path(folder))
        print(f"{file.name}: installs, trains and reports")
    return 0


def try_out(file: Path, folder: Path) -> None:
    """Install `file` and use it from a folder that is no checkout; CalledProcessError where a command fails."""
    python = environment(folder / "env")
    call(
        [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--no-index",
            str(file),
        ],
        folder,
    )
    repro = str(Path(python).with_name("repro"))
    where = call([python, "-c", "import repro; print(repro.__file__)"], folder)
    assert str(folder) in where, f"not the installed package: {where}"
    assert RECIPE in call([repro, "list", "resnet98"], folder)
    call([repro, "run", RECIPE, "--profile", "smoke", "--engine", "sequential"], folder)
    assert "BP" in call([repro, "table", "accuracy", "--profile", "smoke"], folder)
    assert "D1" in call([repro, "table", "claims", "--reference"], folder)
    call([repro, "report", "--out", "report.html"], folder)
    assert (folder / "report.html").stat().st_size > 100_000


def environment(place: Path) -> str:
    """A new environment that sees this one's packages, but not the project; its Python."""
    venv.create(place, with_pip=False)
    (site,) = (place / "lib").glob("python3*/site-packages")
    ours = [sysconfig.get_paths()["purelib"]]
    # A line of a .pth file is a folder; only the .pth files of that folder itself, such as this checkout's, are not read.
    (site / "outside.pth").write_text("\n".join(ours) + "\n")
    return str(place / "bin" / "python")


def call(words: list[str], folder: Path) -> str:
    """What a command prints, run in `folder` without this checkout."""
    unset = ("PYTHONPATH", "REPRO_CACHE", "REPRO_DATA")
    clean = {k: v for k, v in os.environ.items() if k not in unset} | {"REPRO_CACHE": str(folder / "cache")}
    done = subprocess.run(words, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{' '.join(words)}\n{done.stdout}{done.stderr}", file=sys.stderr)
        done.check_returncode()
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
