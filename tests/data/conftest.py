"""Small data sets in their true file formats, and a loopback server that counts."""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from repro.data import fashion_mnist


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


@dataclass
class Mirror:
    """Serves `files` by name; `stall` holds each answer halfway until it is set."""

    files: dict[str, bytes] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    stall: threading.Event | None = None
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mirror]:
    """A loopback server that REPRO_MIRROR points to."""
    mirror = Mirror()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.strip("/")
            mirror.requests[name] += 1
            if name not in mirror.files:
                self.send_error(404)
                return
            content = mirror.files[name]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            half = len(content) // 2
            self.wfile.write(content[:half])
            if mirror.stall is not None:
                self.wfile.flush()
                mirror.stall.wait(20)
            self.wfile.write(content[half:])

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that was killed
    mirror.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv("REPRO_MIRROR", mirror.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield mirror
    server.shutdown()
    server.server_close()


@dataclass
class SmallCifar:
    """A CIFAR-10 of 40 + 7 images in the publisher's format, known to (patched) torchvision."""

    archive: bytes
    files: dict[str, bytes]
    images: np.ndarray  # [40, 3, 32, 32]
    labels: list[int]


@pytest.fixture
def small_cifar(monkeypatch: pytest.MonkeyPatch) -> SmallCifar:
    from torchvision.datasets import CIFAR10

    rng = np.random.default_rng(1)
    names = [name for name, _ in (*CIFAR10.train_list, *CIFAR10.test_list)]
    files, images, labels = {}, [], []
    for name in names:
        count = 7 if name == "test_batch" else 8
        data = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
        classes = rng.integers(0, 10, count).tolist()
        files[name] = pickle.dumps({"data": data, "labels": classes, "batch_label": name}, protocol=2)
        if name != "test_batch":
            images.append(data)
            labels += classes
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    archive = buffer.getvalue()
    monkeypatch.setattr(CIFAR10, "tgz_md5", md5(archive))
    monkeypatch.setattr(CIFAR10, "train_list", [[n, md5(files[n])] for n in names if n != "test_batch"])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", md5(files["test_batch"])]])
    return SmallCifar(archive, files, np.concatenate(images).reshape(-1, 3, 32, 32), labels)


@pytest.fixture
def small_fashion(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, bytes]:
    """A Fashion-MNIST of 20 + 10 images: the four files' content; nothing of Debian's is found."""
    from torchvision.datasets import FashionMNIST

    rng = np.random.default_rng(2)
    files = {}
    for split, count in (("train", 20), ("t10k", 10)):
        images = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        head = np.array([0x803, count, 28, 28], dtype=">i4").tobytes()
        files[f"{split}-images-idx3-ubyte"] = head + images.tobytes()
        labels = (np.arange(count) % 10).astype(np.uint8)
        files[f"{split}-labels-idx1-ubyte"] = (
            np.array([0x801, count], dtype=">i4").tobytes() + labels.tobytes()
        )
    monkeypatch.setattr(fashion_mnist, "CONTENT", {name: md5(content) for name, content in files.items()})
    monkeypatch.setattr(fashion_mnist, "DEBIAN", tmp_path / "no-package")
    packed = {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in files.items()}
    monkeypatch.setattr(FashionMNIST, "resources", [(name, md5(content)) for name, content in packed.items()])
    return files
