"""A headless browser, controlled by the DevTools protocol through its pipe."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

PROGRAM = "chromium"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--window-size=1400,850",
]
PATIENCE = 60.0
# Keys that have a function in the browser itself.
VIRTUAL_KEYS = {
    "Enter": 13, "Escape": 27, "End": 35, "Home": 36,
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip


class BrowserError(Exception):
    """The browser did not execute a command."""


class Browser:
    """One page in a browser of its own. Requests, errors and console output of the page are recorded."""

    def __init__(self) -> None:
        program = shutil.which(PROGRAM)
        if program is None:
            message = f"no {PROGRAM} here; run make setup-interop"
            raise BrowserError(message)
        self._folder = tempfile.TemporaryDirectory(prefix="alfirk-browser-")
        from_us, self._to = os.pipe()
        self._from, to_us = os.pipe()
        flags = [*FLAGS, f"--user-data-dir={self._folder.name}", "--remote-debugging-pipe", "about:blank"]
        # It reads commands from descriptor 3 and writes replies to 4.
        command = f"exec {shlex.join([program, *flags])} 3<&{from_us} 4>&{to_us}"
        self._process = subprocess.Popen(
            ["bash", "-c", command],
            pass_fds=(from_us, to_us),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(from_us)
        os.close(to_us)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.troubles: list[str] = []
        self.loaded: list[str] = []
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the browser and its child processes."""
        os.close(self._to)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, 9)
            self._process.wait()
        os.close(self._from)
        shutil.rmtree(self._folder.name, ignore_errors=True)
        self._folder.cleanup()

    def open(self, address: str) -> None:
        """Load a page and wait until it is ready."""
        # A page with another fragment only would not be loaded again.
        self._call("Page.navigate", url="about:blank")
        self._call("Page.navigate", url=address)
        self.wait("document.body && document.body.dataset.state && document.body.dataset.state !== 'loading'")

    def value(self, script: str) -> Any:
        """Return the value of an expression on the page."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(answer["exceptionDetails"]["exception"].get("description", script))
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """Return the text of the first element that matches a selector."""
        return str(self.value(f"document.querySelector({json.dumps(selector)}).innerText"))

    def wait(self, script: str) -> None:
        """Wait until an expression is true, and the page is drawn after that."""
        deadline = time.monotonic() + PATIENCE
        while not self.value(f"Boolean({script})"):
            if time.monotonic() > deadline:
                message = f"never true: {script}; {self.troubles}"
                raise BrowserError(message)
        self.drawn()

    def drawn(self) -> None:
        """Wait until changes are drawn."""
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def key(self, key: str, *, shift: bool = False, ctrl: bool = False) -> None:
        """Press a key."""
        if len(key) > 1:
            text: dict[str, Any] = {"windowsVirtualKeyCode": VIRTUAL_KEYS[key]}
        elif ctrl:
            text = {"windowsVirtualKeyCode": ord(key.upper())}
        else:
            text = {"text": key}
        modifiers = 8 * shift + 2 * ctrl
        for kind in ("keyDown", "keyUp"):
            self._call("Input.dispatchKeyEvent", type=kind, key=key, modifiers=modifiers, **text)
        self.drawn()

    def insert(self, text: str) -> None:
        """Insert a text at the cursor, as one input."""
        self._call("Input.insertText", text=text)
        self.drawn()

    def click(self, x: float, y: float) -> None:
        """Press the left mouse button at a position of the page."""
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.drawn()

    def _call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError(f"{method}: {answer['error']}")
                return answer["result"]
            self._take(answer)

    def _next(self) -> Any:
        while b"\0" not in self._rest:
            more = os.read(self._from, 1 << 16)
            if not more:
                raise BrowserError(f"{PROGRAM} has ended")
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        return json.loads(line)

    def _take(self, event: Any) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.troubles.append(str(parameters["exceptionDetails"]))
            case "Log.entryAdded":
                self.troubles.append(parameters["entry"]["text"])
            case "Network.requestWillBeSent":
                self.loaded.append(parameters["request"]["url"])
