"""A real headless browser for the tests: Chromium, driven over a pipe by its own protocol, with no driver to install.

One process serves a whole module of tests; each opens the page afresh. What the page asks for, logs and throws is kept.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "chrome-headless-shell",
)
KEYS = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    " ": (32, " "),
    "Escape": (27, ""),
}  # code and text of the keys that have a name


def find() -> str | None:
    """A browser on PATH."""
    return next((path for name in CHROMES if (path := shutil.which(name))), None)


class Browser:
    """A browser with one tab. `errors`: what went wrong on the page since it was opened; `requests`: what it asked for."""

    def __init__(self, folder: Path, timeout: float = 60) -> None:
        """Start with `folder` as home and profile; TimeoutError where the browser does not answer."""
        browser = find()
        assert browser is not None
        self._timeout = timeout
        self._log = (folder / "browser.log").open("wb")
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        flags = [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
            "--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe",
            f"--user-data-dir={folder / 'profile'}", "about:blank",
        ]  # fmt: skip
        # The protocol wants file 3 to read from and file 4 to write to.
        words = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", words, browser, *flags], pass_fds=(theirs_in, theirs_out), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log, env={**os.environ, "HOME": str(folder)},
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out = ours_in, ours_out
        self._buffer = b""
        self._count = 0
        self._session = ""
        self._loaded = False
        self.errors: list[str] = []
        self.requests: list[str] = []
        targets = self.ask("Target.getTargets")["targetInfos"]
        tab = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def close(self) -> None:
        """End the browser."""
        os.close(self._out)  # it ends with its pipe
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        self._log.close()

    def open(
        self, page: Path, width: int = 1300, *, dark: bool = False, scripts: bool = True, anchor: str = ""
    ) -> None:
        """Load `page` in a window of `width` times 900 pixels."""
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media="", features=[scheme])
        self._navigate("about:blank")
        self.errors.clear()
        self.requests.clear()
        self._navigate(page.as_uri() + (f"#{anchor}" if anchor else ""))

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression on the page."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press and release keys as a hand does: "Tab", "Enter", " ", or letters."""
        for key in keys:
            code, text = KEYS.get(key, (ord(key.upper()[0]), key))
            event = {"key": key, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
            self.ask("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **event)
            self.ask("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def point(self, x: float, y: float) -> None:
        """Move the mouse to (x, y), in pixels of the window."""
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, file: Path, *, whole: bool = True, at: tuple[float, float] | None = None) -> None:
        """A PNG of the window or of the whole page; `at`: (top, height) in pixels of the page."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        top, height = at or (0, size["height"] if whole else 900)
        clip = {
            "x": 0,
            "y": top,
            "width": size["width"],
            "height": min(height, size["height"] - top),
            "scale": 1,
        }
        data = self.ask("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        file.write_bytes(base64.b64decode(data))

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its answer; TimeoutError without one."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read(method)
            if answer.get("id") == self._count:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])

    def _navigate(self, address: str) -> None:
        self._loaded = False
        self.ask("Page.navigate", url=address)
        while not self._loaded:
            self._read(address)
        if address.startswith("file:"):
            self.requests.remove(address.partition("#")[0])

    def _read(self, waiting_for: str) -> dict[str, Any]:
        """The next message; events are noted on the way."""
        end = time.monotonic() + self._timeout
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            part = os.read(self._in, 1 << 20) if ready else b""
            if not part:
                words = Path(self._log.name).read_text(errors="replace")[-2000:]
                raise TimeoutError(f"the browser did not answer {waiting_for}:\n{words}")
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, facts: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Runtime.exceptionThrown":
            self.errors.append(
                f"thrown: {facts['exceptionDetails'].get('exception', {}).get('description', facts)}"
            )
        elif event == "Runtime.consoleAPICalled":
            self.errors.append(f"console.{facts['type']}: {[a.get('value') for a in facts['args']]}")
        elif event == "Log.entryAdded":
            self.errors.append(f"log: {facts['entry']['text']} {facts['entry'].get('url', '')}")
        elif event == "Network.requestWillBeSent" and not facts["request"]["url"].startswith("about:"):
            self.requests.append(facts["request"]["url"].partition("#")[0])
