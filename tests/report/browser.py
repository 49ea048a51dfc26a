"""Opens a page in a real headless browser, at several widths, and tells what the browser found.

A harness page holds one frame per width; each frame loads the page with a probe in its head, which measures
and posts what it saw back to the server of this module. A content security policy blocks, and reports,
whatever the page asks for from elsewhere. Any browser that opens an address will do: no driver is needed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, Queue
from typing import Any

CHROMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "chrome-headless-shell",
)
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-probe'; connect-src 'self'; img-src data:"
PROBE = """<script nonce="probe">
const errors = [];
const note = (kind, what) => errors.push(kind + ": " + what);
for (const kind of ["error", "warn"]) {
  const old = console[kind];
  console[kind] = (...words) => { note("console." + kind, words.join(" ")); old.apply(console, words); };
}
addEventListener("error", e => note("error", e.message || (e.target && e.target.outerHTML)), true);
addEventListener("unhandledrejection", e => note("rejection", e.reason));
addEventListener("securitypolicyviolation", e => note("blocked", e.blockedURI + " by " + e.violatedDirective));
addEventListener("load", () => setTimeout(() => {
  const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.width, r.height].map(Math.round); };
  const all = what => [...document.querySelectorAll(what)];
  const clipped = e => e.closest(".scroll, svg, defs");
  const start = e => e.outerHTML.slice(0, 90);
  const wide = all("body *").filter(e => !clipped(e) && box(e)[0] + box(e)[1] > innerWidth + 1).map(start);
  const unseen = all("h1, h2, p, table").filter(e => box(e)[1] * box(e)[2] === 0).map(start);
  fetch("/found", {method: "POST", body: JSON.stringify({
    width: innerWidth, scroll: document.documentElement.scrollWidth, wide, unseen, errors,
    figures: Object.fromEntries(all("figure").map(e => [e.id, box(e.querySelector("svg") || e)])),
    shapes: Object.fromEntries(all("figure").map(e => [e.id, e.querySelectorAll("svg path, svg use").length])),
    tables: all("table").length,
    requests: performance.getEntriesByType("resource").map(r => r.name),
  })});
}, 50));
</script>"""


def find() -> str | None:
    """A browser on PATH."""
    return next((path for name in (*CHROMES, "firefox", "firefox-esr") if (path := shutil.which(name))), None)


def visit(
    page: str, widths: Sequence[int], folder: Path, timeout: float = 90
) -> tuple[list[dict[str, Any]], str]:
    """What the probe found at each width, in the order of `widths`, and what the browser wrote to its own log.

    `folder` becomes the browser's profile. TimeoutError where it does not answer.
    """
    browser = find()
    assert browser is not None
    found: Queue[dict[str, Any]] = Queue()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(page, widths, found))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    log = folder / "browser.log"
    with log.open("wb") as stream:
        command = _command(browser, folder, f"http://127.0.0.1:{server.server_port}/")
        process = subprocess.Popen(
            command, stdout=stream, stderr=stream, stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "HOME": str(folder)},
        )  # fmt: skip
        try:
            answers = [found.get(timeout=timeout) for _ in widths]
        except Empty:
            words = log.read_text(errors="replace")[-2000:]
            raise TimeoutError(f"{browser} did not answer within {timeout} s:\n{words}") from None
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            server.shutdown()
            server.server_close()
    return sorted(answers, key=lambda a: list(widths).index(a["width"])), log.read_text(errors="replace")


def _command(browser: str, folder: Path, address: str) -> list[str]:
    if "firefox" in Path(browser).name:
        return [browser, "--headless", "--no-remote", "--profile", str(folder), address]
    return [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr",
        f"--user-data-dir={folder / 'profile'}", "--remote-debugging-port=0", address,
    ]  # fmt: skip


def _handler(page: str, widths: Sequence[int], found: Queue[dict[str, Any]]) -> type[BaseHTTPRequestHandler]:
    frames = "".join(
        f'<iframe src="/page?{w}" style="width:{w}px;height:900px;border:0"></iframe>' for w in widths
    )
    # The page's one script may run; any other is blocked, and that is an error.
    probed = page.replace("<head>", f"<head>{PROBE}", 1).replace(
        '<script id="page">', '<script id="page" nonce="probe">'
    )

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/page"):
                self._send(probed, POLICY)
            elif self.path == "/":
                self._send(
                    f"<!DOCTYPE html><html><head><link rel=icon href='data:,'></head><body>{frames}</body></html>",
                    "",
                )
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            found.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._send("", "")

        def _send(self, body: str, policy: str) -> None:
            data = body.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            if policy:
                self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """No log: the tests read the probe."""

    return Handler
