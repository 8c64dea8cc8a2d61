"""Pages in a real browser, for the tests: one Chromium for all of them, and pages that must load in silence."""

from __future__ import annotations

import base64
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from support.waiting import PATIENCE

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {
    "viewport": {"width": 360, "height": 740},
    "has_touch": True,
    "is_mobile": True,
    "device_scale_factor": 2,
}


def give_up(reason):
    if os.environ.get("COUPLEDICT_BROWSER") == "required":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        give_up("Playwright is not installed: pip install playwright")
    program = shutil.which("chromium") or "/usr/bin/chromium"
    if not Path(program).exists():
        give_up("No chromium was found: install your system's package of that name")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_file(browser):
    """Open a page that is a file; at the end nothing may have gone wrong, and nothing else may have been asked for."""
    contexts, complaints = [], []

    def open_file(address, **options):
        context = browser.new_context(**(DESKTOP | options))
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url[:80]}"))

        def watch(request):
            if request.url != address and not request.url.startswith("data:image/png;base64,"):
                complaints.append(f"request: {request.url[:80]}")

        page.on("request", watch)
        page.goto(address)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert complaints == []


def pixels(page, selector):
    """Return a canvas as an array."""
    width, height, values = page.evaluate(
        """(selector) => {
          const canvas = document.querySelector(selector);
          const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
          copy.drawImage(canvas, 0, 0);
          const bytes = copy.getImageData(0, 0, canvas.width, canvas.height).data;
          let text = "";
          for (let start = 0; start < bytes.length; start += 8192) {
            text += String.fromCharCode(...bytes.subarray(start, start + 8192));
          }
          return [canvas.width, canvas.height, btoa(text)];
        }""",
        selector,
    )
    return np.frombuffer(base64.b64decode(values), np.uint8).reshape(height, width, 4)
