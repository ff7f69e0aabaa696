"""Takes the steps of a browser check in Chromium. A program: it runs in a sandbox of its own, apart from the work.

It reads a request from standard input and prints what happened as JSON. It judges single steps; the rule about the
whole check is the engine's.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agenttalk.adapters.checking.service_relay import relay_connections

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

_PAUSE = 0.05
_MOST_ERRORS = 20
_LONGEST = 500
"""Characters of an error of the page."""


class _StepFailed(Exception):  # noqa: N818 - we raise it for steps
    """What a step asks for is not so."""


def main() -> int:
    """Take the steps, and print what happened."""
    request = json.load(sys.stdin)
    sys.stdout.write(json.dumps(_take_steps(request)))
    return 0


def _take_steps(request: dict[str, Any]) -> dict[str, Any]:
    from playwright.sync_api import Error, sync_playwright

    errors: list[str] = []
    pictures: list[dict[str, str]] = []
    steps: list[dict[str, Any]] = []
    _relay_port(request["port"], request["socket"])
    with sync_playwright() as playwright:
        # The program runs in a sandbox of ours; Chromium cannot make its own inside it.
        browser = playwright.chromium.launch(
            executable_path=request["browser"] or None, args=["--no-sandbox", "--disable-gpu", "--no-proxy-server"]
        )
        page = browser.new_page(viewport={"width": request["width"], "height": request["height"]}, locale="en-US")
        page.on("pageerror", lambda error: errors.append(str(error)[:_LONGEST]) if len(errors) < _MOST_ERRORS else None)
        page.set_default_timeout(request["step_seconds"] * 1000)
        try:
            for step in request["steps"]:
                try:
                    _take_step(page, step, request, pictures)
                    steps.append({"passed": True})
                except _StepFailed as failure:
                    steps.append({"passed": False, "found": str(failure)})
                    break
                except Error as error:
                    steps.append({"passed": False, "found": str(error).split("Call log:")[0].strip()[:_LONGEST]})
                    break
            with suppress(Error):
                pictures.append(_take_picture(page, "end"))
        finally:
            browser.close()
    return {"steps": steps, "errors": errors, "pictures": pictures}


def _take_step(page: Page, step: dict[str, Any], request: dict[str, Any], pictures: list[dict[str, str]]) -> None:
    """Take one step. Raises _StepFailed, or an error of Playwright, when it does not succeed."""
    place = page.locator(step.get("at") or "body")
    if "open" in step:
        page.goto(f"http://127.0.0.1:{request['port']}{step['open']}", wait_until="load")
    elif "click" in step:
        page.locator(step["click"]).first.click()
    elif "fill" in step:
        page.locator(step["fill"]).first.fill(step.get("text") or "")
    elif "press" in step:
        place.first.press(step["press"]) if step.get("at") else page.keyboard.press(step["press"])
    elif "choose" in step:
        page.locator(step["choose"]).first.select_option(label=step.get("text") or "")
    elif "screenshot" in step:
        pictures.append(_take_picture(page, step["screenshot"]))
    else:
        _await(lambda: _look(page, place, step), request["step_seconds"])


def _look(page: Page, place: Locator, step: dict[str, Any]) -> str:
    """Return what is seen instead of what the step asks for; empty if it is as asked."""
    if "see" in step:
        text = _visible_text(place)
        return "" if step["see"] in text else text
    if "miss" in step:
        text = _visible_text(place)
        return text if step["miss"] in text else ""
    if "count" in step:
        found = page.locator(step["count"]).filter(visible=True).count()
        return "" if found == step.get("number") else str(found)
    if "value" in step:
        value = page.locator(step["value"]).first.input_value()
        return "" if value == (step.get("text") or "") else repr(value)
    if "title" in step:
        return "" if page.title() == step["title"] else repr(page.title())
    parts = urlsplit(page.url)
    address = parts.path + (f"?{parts.query}" if parts.query else "")
    return "" if address == step["address"] else address


def _visible_text(place: Locator) -> str:
    return "\n".join(place.all_inner_texts()) or "nothing"


def _await(look: Any, seconds: float) -> None:
    """Look again until it is as asked, or the time of a step is over."""
    deadline = time.monotonic() + seconds
    while found := look():
        if time.monotonic() > deadline:
            raise _StepFailed(found[:_LONGEST])
        time.sleep(_PAUSE)


def _take_picture(page: Page, name: str) -> dict[str, str]:
    return {"name": name, "data": base64.b64encode(page.screenshot()).decode()}


def _relay_port(port: int, path: str) -> None:
    """Listen at the port of the service, in the network of this sandbox, and pass connections on."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return  # without a sandbox, the service itself listens there
    listener.listen()
    threading.Thread(target=relay_connections, args=(listener, lambda: _connect(path)), daemon=True).start()


def _connect(path: str) -> socket.socket:
    """Connect to a socket that is a file, whose path may be longer than such an address."""
    folder = os.open(Path(path).parent, os.O_RDONLY)
    try:
        service = socket.socket(socket.AF_UNIX)
        service.connect(f"/proc/self/fd/{folder}/{Path(path).name}")
        return service
    finally:
        os.close(folder)


if __name__ == "__main__":
    sys.exit(main())
