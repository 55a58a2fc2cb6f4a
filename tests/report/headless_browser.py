"""A headless Chromium, driven over a pipe in its own protocol: no driver, no port, no time-out guessed."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE_S = 90.0


class Browser:
    """One browser, many pages; `close` ends it."""

    def __init__(self, folder: Path) -> None:
        there, self.to = self._pipe()
        self.back, here = self._pipe()

        def wire() -> None:
            # The protocol's place: it reads from descriptor 3 and writes to 4.
            os.dup2(there, 3)
            os.dup2(here, 4)

        self.process = subprocess.Popen(
            [str(BROWSER), *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=wire,
        )
        os.close(there)
        os.close(here)
        self.folder = folder
        self.number = 0
        self.rest = b""
        self.events: list[dict[str, Any]] = []

    @staticmethod
    def _pipe() -> tuple[int, int]:
        ends = os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends]
        for end in ends:
            os.close(end)
        return high[0], high[1]

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result; events met meanwhile are kept."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer["error"])
                return dict(answer["result"])
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_S
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.back], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"the browser said nothing for {PATIENCE_S:.0f} s"
            part = os.read(self.back, 1 << 16)
            assert part, "the browser ended"
            self.rest += part
        message, _, self.rest = self.rest.partition(b"\0")
        return dict(json.loads(message))

    def open(self, html: str, *, width: int = 1280, height: int = 9000, scheme: str = "light") -> Page:
        """Open a page in a view of its own."""
        self.number += 1
        file = self.folder / f"page{self.number}.html"
        file.write_text(html, encoding="utf-8")
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setScrollbarsHidden", hidden=True)
        page.size(width, height)
        page.scheme(scheme)
        page.call("Page.navigate", url=file.as_uri())
        page.wait("document.readyState === 'complete' && location.protocol === 'file:'")
        return page

    def close(self) -> None:
        """End the browser."""
        self.call("Browser.close")
        self.process.wait(timeout=30)
        os.close(self.to)
        os.close(self.back)


class Page:
    """One open page."""

    def __init__(self, browser: Browser, session: str) -> None:
        self.browser = browser
        self.session = session

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **parameters)

    def size(self, width: int, height: int) -> None:
        """Make the view this many pixels wide and high, in front, so that the page is told of it."""
        self.call("Page.bringToFront")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def scheme(self, name: str) -> None:
        """Prefer the ``light`` or the ``dark`` colour scheme."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def value(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        until = time.monotonic() + PATIENCE_S
        while not self.value(condition):
            assert time.monotonic() < until, f"never came true: {condition}"
            time.sleep(0.05)

    def picture(self, height: int, top: int = 0) -> bytes:
        """Return what the page shows of so many pixels from the top or further down, as PNG."""
        clip = {"x": 0, "y": top, "width": self.value("innerWidth"), "height": height, "scale": 1}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", clip=clip)["data"])

    def paper(self) -> bytes:
        """Return the page as a PDF of A4 pages."""
        sheet = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True)
        return base64.b64decode(sheet["data"])

    def _seen(self, *methods: str) -> list[dict[str, Any]]:
        events = self.browser.events
        return [e["params"] for e in events if e.get("sessionId") == self.session and e["method"] in methods]

    @property
    def complaints(self) -> list[str]:
        """Everything that went to the console: exceptions, messages, refusals."""
        logged = [e["entry"]["text"] for e in self._seen("Log.entryAdded")]
        thrown = self._seen("Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return logged + [json.dumps(event) for event in thrown]

    @property
    def requests(self) -> set[str]:
        """Addresses that the page asked for, its own file left out."""
        asked = {e["request"]["url"] for e in self._seen("Network.requestWillBeSent")}
        return {address for address in asked if not address.startswith(self.browser.folder.as_uri())}
