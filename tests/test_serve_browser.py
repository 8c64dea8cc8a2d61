"""The page in a real browser, on a real server: files are dropped and chosen, results seen, compared and downloaded.

The tests need Playwright and a Chromium, and are skipped without; COUPLEDICT_BROWSER=required makes that a failure.
"""

from __future__ import annotations

import base64
import re

import numpy as np
import pytest
from browsing import DESKTOP, PHONE
from serving import png, program, read, stack
from waiting import PATIENCE, wait_until

import coupledict
from coupledict.images import MultiFocusFusion, SuperResolution

WIDTHS = (320, 360, 768, 1280)
TIMES = "\N{MULTIPLICATION SIGN}"
PROGRESS = "document.querySelector('#fuse progress').value"
STATUS = "document.querySelector('#fuse .status').textContent"
HOSTILE = "<img src=x onerror=alert(1)>.png"


@pytest.fixture(scope="module")
def address(tmp_path_factory, browser):
    with program(tmp_path_factory.mktemp("serve")) as (_, found, _):
        yield found[0]


@pytest.fixture
def open_page(browser, address):
    """Open the page; at the end nothing may have gone wrong, and nothing may have been asked of anyone else."""
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
        page.on("requestfailed", lambda request: complain("failed", request.url))
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


def files_of(pictures, names=("near.png", "far.png")):
    return [(name, png(picture)) for name, picture in zip(names, pictures, strict=True)]


def until(page, expression, argument=None):
    """Wait for a condition; the page's own rules forbid to evaluate one in it."""
    wait_until(lambda: page.evaluate(expression, argument), expression)


def status(page, task="fuse"):
    return page.locator(f"#{task} .status").inner_text()


def split(page):
    """Return where the line is, and how much of the left picture is hidden."""
    return page.evaluate(
        """() => [Number(document.querySelector(".split").value),
                  getComputedStyle(document.querySelector(".before")).clipPath]"""
    )


def line_comes_to(page, value, within=0):
    wait_until(lambda: abs(split(page)[0] - value) <= within, f"the line was at {value}")


# Files in, pictures out


def test_a_dropped_stack_is_fused_shown_and_downloaded(open_page, rng):
    page, sources = open_page(), stack(rng)
    drop(page, *files_of(sources, ("IMG 1.png", HOSTILE)))
    page.wait_for_selector("#fuse .compare")
    expected = MultiFocusFusion().fuse(sources)
    name, content = download(page, "Download the picture")
    assert name == "IMG-1-fused.png"
    assert np.array_equal(read(content), expected.image)
    name, content = download(page, "Download the map")
    assert name == "IMG-1-map.png"
    assert np.array_equal(read(content), expected.decision)
    assert status(page).startswith("Done")
    shares = page.locator(".shares li").all_inner_texts()
    assert HOSTILE in shares[1]  # as text
    assert page.locator("main img").count() == 3
    assert f"{100 * np.mean(expected.decision == 0):.1f} %" in shares[0]
    until(page, "() => [...document.images].every((image) => image.complete && image.naturalWidth === 56)")
    page.locator("#fuse select").select_option(label=HOSTILE)
    until(page, "(name) => document.querySelector('.tag-before').textContent === name", HOSTILE)
    assert page.locator(".before").get_attribute("src").endswith("source-1.png")


def test_a_chosen_picture_is_enlarged(open_page, rng):
    page = open_page()
    small = rng.integers(0, 255, (16, 20, 3), np.uint8)
    page.get_by_role("tab", name="Enlarge").click()
    page.get_by_role("radio", name=f"3{TIMES}").check()
    with page.expect_file_chooser() as chooser:
        page.locator("#enlarge .drop").click()
    assert not chooser.value.is_multiple()
    chooser.value.set_files({"name": "small.png", "mimeType": "image/png", "buffer": png(small)})
    page.wait_for_selector("#enlarge .compare")
    name, content = download(page, "Download the picture")
    assert name == "small-x3.png"
    assert np.array_equal(read(content), SuperResolution.pretrained(3).upscale(small))
    assert page.locator("#enlarge h2").inner_text() == f"20 {TIMES} 16 pixels became 60 {TIMES} 48 pixels"
    page.get_by_role("radio", name=f"2{TIMES}").check()
    page.get_by_role("button", name="Enlarge again").click()
    ending = f"40 {TIMES} 32 pixels"
    until(page, "(text) => document.querySelector('#enlarge h2')?.textContent.endsWith(text)", ending)


def test_a_model_is_explored_in_a_frame_apart(open_page, rng, tmp_path):
    learner = coupledict.CoupledDictionaryLearning(9, n_nonzero_coefs=2, max_iter=1, random_state=0)
    learner.fit([rng.standard_normal((40, 16)), rng.standard_normal((40, 16))]).save(tmp_path / "m.safetensors")
    page = open_page()
    page.get_by_role("tab", name="Explore").click()
    drop(page, ("<i>mine</i>".replace("/", "|") + ".safetensors", (tmp_path / "m.safetensors").read_bytes()))
    page.wait_for_selector("#explore iframe")
    frame = page.frame_locator("#explore iframe")
    assert frame.locator("h1").inner_text() == "<i>mine<|i>.safetensors"
    assert "9 atoms" in frame.locator(".lede").inner_text()
    inner = page.frames[1]
    assert inner.evaluate("window.origin") == "null"
    assert inner.evaluate("document.querySelector('canvas').width") > 0  # its script runs
    name, content = download(page, "Download the page")
    assert name == "i-mine-i-atoms.html"
    assert content.startswith(b"<!doctype html>")


def test_a_stack_may_come_one_by_one(open_page, rng):
    page, (near, far) = open_page(), files_of(stack(rng))
    drop(page, near)
    wait_until(lambda: status(page) == "One picture so far. Add the others of the same scene.", "it was told")
    assert page.locator("#fuse .progress").is_hidden()
    drop(page, far)
    page.wait_for_selector("#fuse .compare")
    assert [text.split()[0] for text in page.locator(".chosen li").all_inner_texts()] == ["near.png", "far.png"]
    drop(page, far)  # the first of another stack
    wait_until(lambda: page.locator(".chosen li").count() == 1, "the list had begun anew")


# What goes wrong


def test_bad_files_give_a_message_on_the_page(open_page, rng):
    page = open_page()
    drop(page, (HOSTILE, b"no picture"), ("b.png", b"no picture"))
    message = page.get_by_role("alert")
    message.wait_for()
    assert message.inner_text().startswith(f"'{HOSTILE}' could not be read as an image")
    assert page.locator("main img").count() == 0
    assert page.locator("#fuse .progress").is_hidden()
    drop(page, *files_of(stack(rng)))
    page.wait_for_selector("#fuse .compare")
    wait_until(lambda: message.count() == 0, "the message had gone")
    drop(page, *files_of([stack(rng)[0], stack(rng)[0][:30]]))
    message.wait_for()
    assert message.inner_text().startswith("Expected pictures of one size and kind, got 56 x 40 pixels of 8-bit colour")
    assert page.locator("#fuse .compare").count() == 0  # what is shown is never of other files
    page.get_by_role("tab", name="Enlarge").click()
    drop(page, *files_of(stack(rng)))
    assert page.get_by_role("alert").inner_text() == "Expected one picture at a time, got 2."


def test_too_much_is_refused_before_it_is_sent(open_page):
    sent = []

    def limit(page):
        told = '{"version": "0", "megabytes": 0.001, "megapixels": 1}'
        page.route("**/about", lambda route: route.fulfill(body=told, content_type="application/json"))
        page.on("request", lambda request: sent.append(request.method))

    page = open_page(before=limit)
    drop(page, ("a.png", b"x" * 600), ("b.png", b"x" * 600))
    assert page.get_by_role("alert").inner_text().startswith("Expected at most 0.001 MB at a time, got 2 kB;")
    assert "POST" not in sent


def test_a_server_that_is_gone_is_told(open_page, rng):
    page = open_page(
        before=lambda page: page.route("**/jobs/*", lambda route: route.abort()), expected="ERR_FAILED|jobs/fuse"
    )
    drop(page, *files_of(stack(rng)))
    page.get_by_role("alert").wait_for()
    assert "is coupledict serve still running" in page.get_by_role("alert").inner_text()
    assert page.locator("#fuse .progress").is_hidden()


def test_work_is_told_of_queued_and_cancelled(open_page, rng):
    large = files_of(np.tile(rng.integers(0, 255, (2, 8, 8), np.uint8), (1, 300, 300)))
    first, second, asked = open_page(expected="jobs/|about:blank"), open_page(), []
    first.on(
        "request", lambda request: request.method == "GET" and "/jobs/" in request.url and asked.append(request.url)
    )
    drop(first, *large)
    until(first, f"() => {PROGRESS} > 0 && {STATUS} === 'Comparing the pictures …'")
    assert first.locator("#fuse .sample").is_disabled()
    first.get_by_role("button", name="Cancel").click()
    until(first, f"() => {STATUS} === 'Cancelled.'")
    assert first.locator("#fuse .result").is_hidden()
    first.get_by_role("button", name="Fuse again").click()
    until(first, f"() => {PROGRESS} > 0")
    drop(second, *files_of(stack(rng)))
    until(second, f"() => {STATUS}.startsWith('Waiting; 1 before')")
    first.goto("about:blank")
    second.wait_for_selector("#fuse .compare")
    told = second.evaluate("(address) => fetch(address).then((answer) => answer.json())", asked[-1])
    assert told["state"] == "cancelled"  # nobody waited for it any more


# By hand


def test_the_line_moves_by_mouse_and_keys(open_page, rng):
    page = open_page()
    drop(page, *files_of(stack(rng)))
    page.wait_for_selector("#fuse .compare")
    until(page, "() => [...document.images].every((image) => image.complete)")
    slider = page.get_by_role("slider", name="Compare near.png with Fused")
    assert split(page) == [50, "inset(0px 50% 0px 0px)"]
    slider.focus()
    for key, value in [
        ("ArrowRight", 52), ("ArrowUp", 54), ("ArrowLeft", 52), ("Shift+ArrowLeft", 42), ("PageUp", 52), ("End", 100),
        ("ArrowRight", 100), ("Home", 0), ("ArrowDown", 0), ("PageUp", 10),
    ]:  # fmt: skip
        page.keyboard.press(key)
        line_comes_to(page, value)
        assert split(page)[1] == f"inset(0px {100 - value}% 0px 0px)", key
    assert slider.get_attribute("aria-valuetext") == "10 % near.png, the rest Fused"
    assert page.evaluate("getComputedStyle(document.querySelector('.stage')).outlineStyle") == "solid"
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 10)
    page.mouse.down()
    line_comes_to(page, 25, within=1)
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 30, steps=4)
    page.mouse.up()
    line_comes_to(page, 80, within=1)
    line = page.locator(".line").bounding_box()
    assert line["x"] + line["width"] / 2 == pytest.approx(box["x"] + split(page)[0] / 100 * box["width"], abs=1)


def test_all_of_it_works_by_keyboard(open_page):
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    for key, name in [("ArrowRight", "enlarge"), ("End", "explore"), ("ArrowRight", "fuse"), ("ArrowLeft", "explore")]:
        page.keyboard.press(key)
        until(page, "(name) => document.activeElement.id === name", f"tab-{name}")
        assert page.locator("[role=tabpanel]:not([hidden])").get_attribute("id") == name
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.type") == "file"
    drop_area = page.locator("#explore .drop")
    assert drop_area.evaluate("(area) => getComputedStyle(area).outlineStyle") == "solid"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # our model
    page.wait_for_selector("#explore iframe")
    assert page.locator("#explore h2").inner_text() == "256 atoms in 2 views"
    assert page.locator("#explore .status").get_attribute("aria-live") == "polite"
    for field in page.locator("input:visible, select:visible, button:visible").all():
        assert field.evaluate(
            "(field) => (field.labels?.length ?? 0) > 0 || field.ariaLabel || field.textContent.trim()"
        )


@pytest.mark.parametrize("options", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_legible_and_never_scrolls_sideways(open_page, rng, options, scheme):
    page = open_page(color_scheme=scheme, reduced_motion="reduce", **options)
    long_name = "a-very-long-name-" * 7 + ".png"
    drop(page, *files_of(stack(rng), (long_name, "far.png")))
    page.wait_for_selector("#fuse .compare")
    page.get_by_role("tab", name="Enlarge").click()
    drop(page, (long_name, b"no picture"))
    page.get_by_role("alert").wait_for()
    for task in ("enlarge", "explore", "fuse"):
        page.locator(f"#tab-{task}").click()
        for width in WIDTHS if options is DESKTOP else (360,):
            page.set_viewport_size({"width": width, "height": 740})
            until(page, "(width) => document.documentElement.scrollWidth <= width", width)
        for text, colour, back in page.evaluate(TEXTS):
            low, high = sorted([luminance(colour), luminance(back)])
            assert (high + 0.05) / (low + 0.05) >= 4.5, (text, colour, back)
    assert (luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) < 0.1) == (scheme == "dark")
    assert page.evaluate("document.getAnimations().length") == 0
    if options is PHONE:
        for button in page.locator("button:visible, a.button:visible, select:visible").all():
            assert button.bounding_box()["height"] >= 44  # for fingers


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


def test_a_finger_moves_the_line(open_page, rng):
    page = open_page(**PHONE)
    drop(page, *files_of(stack(rng)))
    page.wait_for_selector("#fuse .compare")
    slider = page.locator(".split")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.touchscreen.tap(box["x"] + 0.7 * box["width"], box["y"] + 0.5 * box["height"])
    until(page, "() => Math.abs(document.querySelector('.split').value - 70) < 2")
