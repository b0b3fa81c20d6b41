"""A headless Chromium, driven over its own pipe: no package, no port."""

import base64
import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_LEFT = re.compile("navigated or closed|context was destroyed|Cannot find context")  # a page


class Browser:
    """One page. `said` has what the page wrote to the console or failed at."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._rest, self._ids = b"", itertools.count(1)
        self.said: list[str] = []
        self._loaded: set[str] = set()  # the loads of documents that have ended
        self._session: str | None = None
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._send("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")
        self._send("Page.setLifecycleEventsEnabled", enabled=True)

    def open(self, path: Path) -> None:
        self.said.clear()
        loader = self._send("Page.navigate", url=path.absolute().as_uri())["loaderId"]
        while loader not in self._loaded:
            self._hear()

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        return self._value(self._evaluated(expression))

    def _evaluated(self, expression: str) -> dict[str, Any]:
        return self._answer(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )

    @staticmethod
    def _value(answer: dict[str, Any]) -> Any:
        assert "error" not in answer, answer
        made = answer["result"]
        assert "exceptionDetails" not in made, made["exceptionDetails"]
        return made["result"].get("value")

    def size(self, width: int, height: int, *, mobile: bool = False) -> None:
        self._send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=1, mobile=mobile,
        )  # fmt: skip

    def media(self, kind: str = "", *, scheme: str = "light") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._send("Emulation.setEmulatedMedia", media=kind, features=features)

    def press(self, key: str, code: int, text: str = "") -> None:
        keys = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self._send("Input.dispatchKeyEvent", type="keyDown", text=text, **keys)
        self._send("Input.dispatchKeyEvent", type="keyUp", **keys)

    def move(self, selector: str, x: float = 0.5, y: float = 0.5) -> tuple[float, float]:
        """The pointer goes to a place in an element, given as shares of its width and height."""
        left, top, width, height = self.run(
            f"(() => {{ const el = document.querySelector({json.dumps(selector)});"
            " el.scrollIntoView({block: 'center', behavior: 'instant'});"
            " const b = el.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
        )
        place = left + x * width, top + y * height
        self._send("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
        return place

    def click(self, selector: str, x: float = 0.5, y: float = 0.5) -> None:
        place = self.move(selector, x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self._send(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left",
                clickCount=1,
            )  # fmt: skip

    def write(self, text: str) -> None:
        """Types into what has the focus."""
        self._send("Input.insertText", text=text)

    def wait(self, expression: str, seconds: float = 120) -> Any:
        """The value of an expression, once it is true; another page may come meanwhile."""
        ends = time.monotonic() + seconds
        while True:
            answer = self._evaluated(expression)
            is_left = _LEFT.search(answer.get("error", {}).get("message", ""))
            if not is_left and (value := self._value(answer)):
                return value
            assert time.monotonic() < ends, f"never true: {expression}"
            time.sleep(0.02)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        made = self._send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(made["data"]))

    def pdf(self) -> bytes:
        made = self._send("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(made["data"])

    def _send(self, method: str, **params: Any) -> dict[str, Any]:
        heard = self._answer(method, **params)
        assert "error" not in heard, heard
        return heard["result"]

    def _answer(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == number:
                return heard

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            read = os.read(self._back, 1 << 16)
            assert read, "the browser is gone"
            self._rest += read
        line, self._rest = self._rest.split(b"\0", 1)
        heard = json.loads(line)
        self._note(heard.get("method"), heard.get("params", {}))
        return heard

    def _note(self, method: str | None, params: dict[str, Any]) -> None:
        if method == "Page.lifecycleEvent" and params["name"] == "load":
            self._loaded.add(params["loaderId"])
        elif method == "Runtime.consoleAPICalled":
            self.said.append(f"console.{params['type']}: {params['args']}")
        elif method == "Runtime.exceptionThrown":
            self.said.append(f"exception: {params['exceptionDetails']}")
        elif method == "Log.entryAdded":
            self.said.append(f"log: {params['entry']['text']}")
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if not url.startswith(("file:", "data:")):
                self.said.append(f"request: {url}")


@contextlib.contextmanager
def opened(profile: Path) -> Iterator[Browser]:
    """A browser with an empty profile; it ends with the block."""
    assert CHROMIUM
    (out, to), (back, into) = os.pipe(), os.pipe()
    command = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
        f"--user-data-dir={profile}", "--no-first-run", "--hide-scrollbars", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", "--disable-extensions",
        "--disable-dev-shm-usage",
    ]  # fmt: skip
    words = ["bash", "-c", f'exec "$@" 3<&{out} 4>&{into}', "bash", *command]
    process = subprocess.Popen(
        words, pass_fds=(out, into), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(out), os.close(into)
    try:
        yield Browser(to, back)
    finally:
        process.terminate()
        process.wait()
        os.close(to), os.close(back)
