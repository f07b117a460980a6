"""Check the built site in a browser: ``python -m tools.site_check [--screens FOLDER]``.

It needs the site (`make docs`) and Chromium or Chrome. It opens pages, searches, and fails if the
console of a page reports an error, a picture or table is missing, or a search finds nothing. With
``--screens`` it saves screenshots of the pages.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

_ROOT: Final = Path(__file__).parents[1]
_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
_PAGES: Final = (
    "index.html",
    "tutorials/first-kernel.html",
    "reference/tirscript.html",
    "reference/api.html",
    "performance.html",
    "cookbook.html",
    "from/tvm.html",
    "settings.html",
    "errors/RUN0010.html",
)
_SEARCHES: Final = {"softmax": "Cookbook", "LOOMIR_NUM_THREADS": "Settings", "RUN0010": "RUN0010"}
_FAULTS: Final = """(() => {
  const text = document.querySelector("article").innerText;
  return {
    title: document.title,
    pictures: [...document.querySelectorAll("article img")]
      .filter(i => !i.complete || !i.naturalWidth).map(i => i.src),
    tables: text.split("\\n").filter(l => /^\\|.*\\|$/.test(l) || /\\| --- \\|/.test(l)),
    fences: text.split("\\n").filter(l => l.startsWith("```")),
    wide: document.documentElement.scrollWidth > window.innerWidth + 1,
  };
})()"""
_RESULTS: Final = (
    """[...document.querySelectorAll(".md-search-result__item")].map(i => i.innerText)"""
)


class Browser:
    """A browser without windows, which is spoken to over a pipe."""

    def __init__(self, program: str, profile: str) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # The browser reads from 3 and writes to 4, which this process has given to others.
        given = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (to_read, to_write)]
        script = f'exec "$@" 3<&{given[0]} 4>&{given[1]}'
        options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", program, *options, "--window-size=1300,1500"]
            + [f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"],
            pass_fds=given,
            stderr=subprocess.DEVNULL,
        )
        for fd in (*given, to_read, to_write):
            os.close(fd)
        self._data = b""
        self._number = 0
        self.errors: list[str] = []
        made = self.call("Target.createTarget", url="about:blank")
        target = made["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session: str = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command, and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self._data:
                self._data += os.read(self._read, 1 << 20)
            raw, _, self._data = self._data.partition(b"\0")
            answer = json.loads(raw)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        if event.get("method") == "Runtime.exceptionThrown":
            self.errors.append(event["params"]["exceptionDetails"]["text"])
        elif event.get("method") == "Log.entryAdded":
            entry = event["params"]["entry"]
            if entry["level"] == "error":
                self.errors.append(f"{entry['text']} {entry.get('url', '')}")

    def evaluate(self, text: str) -> Any:
        """Return the value of an expression on the page."""
        found = self.call("Runtime.evaluate", expression=text, returnByValue=True)
        return found["result"].get("value")

    def open(self, url: str) -> None:
        """Open a page, and wait until it is there."""
        self.call("Page.navigate", url=url)
        self.wait_for(
            f"location.href === {json.dumps(url)} && document.readyState === 'complete'"
            " && !!document.querySelector('article')"
        )

    def wait_for(self, text: str, seconds: float = 60) -> bool:
        """Wait until an expression on the page holds; tell whether it did."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.evaluate(text):
                return True
            time.sleep(0.1)
        return False

    def picture(self, path: Path) -> None:
        """Write what the page looks like."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """End the browser."""
        self._process.terminate()
        self._process.wait(30)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of each request."""


def look(browser: Browser, address: str, screens: Path | None) -> list[str]:
    """Open pages and search; return what is wrong."""
    faults: list[str] = []
    for page in _PAGES:
        browser.open(f"{address}/{page}")
        seen: dict[str, Any] = browser.evaluate(_FAULTS)
        for what in ("pictures", "tables", "fences"):
            faults += [f"{page}: {what}: {each}" for each in seen[what]]
        if seen["wide"]:
            faults.append(f"{page}: wider than the window")
        if screens is not None:
            browser.picture(screens / f"{page.replace('/', '-')}.png")
    for word, wanted in _SEARCHES.items():
        browser.open(f"{address}/index.html?q={word}")
        browser.wait_for(f"{_RESULTS}.length > 0")
        found: list[str] = browser.evaluate(_RESULTS) or []
        if not any(wanted in each for each in found[:10]):
            faults.append(f"search for {word}: {wanted} is not among {len(found)} results")
        if screens is not None:
            browser.picture(screens / f"search-{word}.png")
    return faults + browser.errors


def main() -> int:
    """Serve the site to a browser, and say what is wrong with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--site", type=Path, default=_ROOT / "site")
    parser.add_argument("--screens", type=Path, help="a folder for pictures of the pages")
    options = parser.parse_args()
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if program is None or not (options.site / "index.html").exists():
        sys.exit("site_check needs Chromium or Chrome, and the site: make docs")
    if options.screens is not None:
        options.screens.mkdir(parents=True, exist_ok=True)
    handler = functools.partial(_Quiet, directory=str(options.site))
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = Browser(program, profile)
        try:
            address = f"http://127.0.0.1:{server.server_address[1]}"
            faults = look(browser, address, options.screens)
        finally:
            browser.close()
            server.shutdown()
    for fault in faults:
        print(fault)
    print(f"{len(_PAGES)} pages, {len(_SEARCHES)} searches: {len(faults) or 'no'} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
