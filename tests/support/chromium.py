"""A real browser for tests: headless Chromium, driven over a pair of pipes with nothing but the standard library."""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0

# A machine that must run everything fails when the browser is started instead of skipping.
needs_chromium = [
    pytest.mark.needs_chromium,
    pytest.mark.skipif(
        not any(map(shutil.which, PROGRAMS)) and os.environ.get("MLUOPS_TEST_REQUIRE_ALL") != "1",
        reason="chromium is not installed",
    ),
]
_KEYS = {
    "Enter": ("Enter", 13, "\r"),
    " ": ("Space", 32, " "),
    "ArrowDown": ("ArrowDown", 40, ""),
    "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "Home": ("Home", 36, ""),
    "End": ("End", 35, ""),
    "Escape": ("Escape", 27, ""),
    "/": ("Slash", 191, "/"),
}


class Chromium:
    """One browser with one page; what it complained about and what it asked the network for."""

    def __init__(self, folder: Path) -> None:
        program = next(filter(None, map(shutil.which, PROGRAMS)), None)
        assert program, "chromium is not installed"
        read_commands, self._commands = os.pipe()
        self._replies, write_replies = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4; from high numbers, so that neither is overwritten.
        here = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (read_commands, write_replies)]
        log = os.open(folder / "chromium.log", os.O_WRONLY | os.O_CREAT)
        moves = [
            (os.POSIX_SPAWN_DUP2, end, number) for end, number in zip((*here, log, log), (3, 4, 1, 2), strict=True)
        ]
        arguments = [program, *FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        self.process = os.posix_spawn(program, arguments, os.environ, file_actions=moves, setpgroup=0)
        for end in (read_commands, write_replies, *here, log):
            os.close(end)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict] = []
        target = next(t for t in self._call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._call(f"{domain}.enable")

    def open(self, address: str) -> None:
        """Load a page and wait until it is complete."""
        self.events.clear()
        self._call("Page.navigate", url=address)
        self._until(lambda event: event["method"] == "Page.loadEventFired")

    def value(self, expression: str):
        """What an expression is in the page."""
        reply = self._call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys as a person does."""
        for key in keys:
            code, number, text = _KEYS[key]
            about = {"key": key, "code": code, "windowsVirtualKeyCode": number}
            self._call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
            self._call("Input.dispatchKeyEvent", type="keyUp", **about)

    def type(self, text: str) -> None:
        """Type text into what has the focus."""
        self._call("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Press the mouse in the middle of the first such element."""
        place = self.value(
            f"(() => {{ const node = document.querySelector({json.dumps(selector)});"
            "node.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const r = node.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def window(self, width: int, height: int) -> None:
        """Give the page a window of this size."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def media(self, scheme: str = "light", kind: str = "screen") -> None:
        """Show the page as with this colour scheme, on screen or on paper."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", media=kind, features=features)

    def javascript(self, on: bool) -> None:
        """Switch scripts of the next page on or off."""
        self._call("Emulation.setScriptExecutionDisabled", value=not on)

    def printed(self) -> bytes:
        """The page as a PDF."""
        self.media(kind="print")
        return base64.b64decode(self._call("Page.printToPDF", printBackground=True)["data"])

    @property
    def complaints(self) -> list[str]:
        """Everything on the console, and exceptions that nobody caught."""
        named = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}
        return [json.dumps(event["params"]) for event in self.events if event["method"] in named]

    @property
    def requests(self) -> list[str]:
        """Addresses that the page asked for, but those that carry their data in themselves."""
        sent = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [address for address in sent if not address.startswith("data:")]

    def close(self) -> None:
        """End the browser and all its processes."""
        os.close(self._commands)
        os.close(self._replies)
        os.killpg(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)

    def _call(self, method: str, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        reply = self._until(lambda answer: answer.get("id") == self._number)
        assert "error" not in reply, f"{method}: {reply['error']}"
        return reply["result"]

    def _until(self, wanted):
        deadline = time.monotonic() + PATIENCE
        while True:
            message = self._receive(deadline)
            if "method" in message:
                self.events.append(message)
            if wanted({"method": "", **message}):
                return message

    def _receive(self, deadline: float) -> dict:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._replies], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "chromium does not answer"
            part = os.read(self._replies, 1 << 20)
            assert part, "chromium ended"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)
