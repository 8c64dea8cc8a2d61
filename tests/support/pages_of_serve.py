"""The page of `coupledict serve` in a real browser, for the tests: opened, given files, and read."""

from __future__ import annotations

import base64
import re
from contextlib import contextmanager

import numpy as np

from support.browsing import DESKTOP
from support.waiting import PATIENCE, wait_until


@contextmanager
def opening(browser, address):
    """Give a function that opens the page.

    At the end nothing may have gone wrong, and nothing may have been asked of anyone else.
    """
    contexts, complaints = [], []

    def open_page(*, before=None, expected=None, **options):
        context = browser.new_context(**(DESKTOP | {"accept_downloads": True} | options))
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)

        def complain(kind, text):
            if expected is None or not re.search(expected, text):
                complaints.append(f"{kind}: {text[:200]}")

        page.on("console", lambda message: complain(message.type, message.text))
        page.on("pageerror", lambda error: complain("error", str(error)))
        # Chromium says of every answer that was read as a stream, also to its end, that it was aborted.
        page.on("requestfailed", lambda request: request.url.endswith("/watch") or complain("failed", request.url))
        page.on("request", lambda request: request.url.startswith(address) or complain("elsewhere", request.url))
        page.on("dialog", lambda dialog: complain("dialog", dialog.message))
        if before is not None:
            before(page)
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def drop(page, *files):
    """Drop files on the page, as a browser tells of it."""
    content = [{"name": name, "content": base64.b64encode(data).decode()} for name, data in files]
    transfer = page.evaluate_handle(
        """(files) => {
          const transfer = new DataTransfer();
          for (const { name, content } of files) {
            transfer.items.add(new File([Uint8Array.from(atob(content), (c) => c.charCodeAt(0))], name));
          }
          return transfer;
        }""",
        content,
    )
    place = page.locator("[role=tabpanel]:not([hidden]) .drop")
    place.dispatch_event("dragover", {"dataTransfer": transfer})
    assert "over" in place.get_attribute("class")
    place.dispatch_event("drop", {"dataTransfer": transfer})
    assert "over" not in place.get_attribute("class")


def download(page, text):
    with page.expect_download() as found:
        page.get_by_role("link", name=text).click()
    with open(found.value.path(), "rb") as file:
        return found.value.suggested_filename, file.read()


def until(page, expression, argument=None):
    """Wait for a condition; the page's own rules forbid to evaluate one in it."""
    wait_until(lambda: page.evaluate(expression, argument), expression)


def status(page, task="fuse"):
    return page.locator(f"#{task} .status").inner_text()


TEXTS = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    let element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility() || element.closest(".tag, button:disabled")) continue;
    const colour = getComputedStyle(element).color;
    let back = "rgba(0, 0, 0, 0)";
    for (; element && back === "rgba(0, 0, 0, 0)"; element = element.parentElement) {
      back = getComputedStyle(element).backgroundColor;
    }
    found.push([node.data.trim().slice(0, 40), colour, back]);
  }
  return found;
}"""


def luminance(colour):
    values = np.array([float(part) for part in re.findall(r"[\d.]+", colour)[:3]]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrasts(page):
    """Return all texts that are seen, and how much they differ from what is behind them, as WCAG counts it."""
    found = []
    for text, colour, back in page.evaluate(TEXTS):
        low, high = sorted([luminance(colour), luminance(back)])
        found.append((text, (high + 0.05) / (low + 0.05)))
    return found
