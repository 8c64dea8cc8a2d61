"""The page in a real browser, on a real server: files are dropped and chosen, results seen, compared and downloaded.

The tests need Playwright and a Chromium, and are skipped without; COUPLEDICT_BROWSER=required makes that a failure.
"""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

import coupledict
from coupledict.images import MultiFocusFusion, SuperResolution
from support.browsing import DESKTOP, PHONE
from support.browsing import pixels as canvas_pixels
from support.pages_of_serve import contrasts, download, drop, luminance, opening, status, until
from support.serving import long_work, png, program, read, stack
from support.waiting import wait_until

WIDTHS = (320, 360, 768, 1280)
TIMES = "\N{MULTIPLICATION SIGN}"
PROGRESS = "document.querySelector('#fuse progress').value"
FIGURES = "document.querySelector('#fuse .figures').textContent"
STATUS = "document.querySelector('#fuse .status').textContent"
HOSTILE = "<img src=x onerror=alert(1)>.png"


@pytest.fixture(scope="module")
def address(tmp_path_factory, browser):
    with program(tmp_path_factory.mktemp("serve")) as (_, found, _):
        yield found[0]


@pytest.fixture
def open_page(browser, address):
    with opening(browser, address) as open_page:
        yield open_page


def choose(page, *files):
    """Choose files from a folder, as it were."""
    given = [{"name": name, "mimeType": "image/png", "buffer": data} for name, data in files]
    page.locator("#fuse input[type=file]").set_input_files(given)


def fuse(page, *files):
    drop(page, *files)
    fuse_button(page).click()


def fuse_button(page):
    return page.get_by_role("button", name=re.compile(r"^Fuse( \d+ pictures)?$"))


def names(page):
    return page.locator("#fuse .chosen .name").all_inner_texts()


def order(page, *expected):
    wait_until(lambda: names(page) == list(expected), f"the files were {expected}")


def files_of(pictures, names=("near.png", "far.png")):
    return [(name, png(picture)) for name, picture in zip(names, pictures, strict=True)]


def split(page):
    """Return where the line is, and how much of the left picture is hidden."""
    return page.evaluate(
        """() => [Number(document.querySelector(".split").value),
                  getComputedStyle(document.querySelector(".side-before")).clipPath]"""
    )


def line_comes_to(page, value, within=0):
    wait_until(lambda: abs(split(page)[0] - value) <= within, f"the line was at {value}")


# Files in, pictures out


def test_a_dropped_stack_is_fused_shown_and_downloaded(open_page, rng):
    page, sources = open_page(), stack(rng)
    drop(page, *files_of(sources[::-1], (HOSTILE, "IMG 1.png")))
    fuse_button(page).click()
    page.wait_for_selector("#fuse .compare")
    expected = MultiFocusFusion().fuse(sources[::-1])  # in the order of their names
    name, content = download(page, "Download the picture")
    assert name == "img-src-x-onerror-alert-1-fused.png"
    assert np.array_equal(read(content), expected.image)
    name, content = download(page, "Download the map")
    assert name == "img-src-x-onerror-alert-1-map.png"
    assert np.array_equal(read(content), expected.decision)
    assert status(page).startswith("Done")
    shares = page.locator(".shares li").all_inner_texts()
    assert HOSTILE in shares[0]  # as text
    assert page.locator("main img").count() == 3
    assert f"{100 * np.mean(expected.decision == 0):.1f} %" in shares[0]
    until(page, "() => [...document.images].every((image) => image.complete && image.naturalWidth === 56)")
    page.get_by_label("Compare with").select_option(label="IMG 1.png")
    until(page, "(name) => document.querySelector('.tag-before').textContent === name", "IMG 1.png")
    assert page.locator(".before").get_attribute("src").endswith("source-1-view.png")


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_model_is_explored_in_a_frame_apart(open_page, rng, tmp_path):
    learner = coupledict.CoupledDictionaryLearning(9, n_nonzero_coefs=2, max_iter=1, predictor="ridge", random_state=0)
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


@pytest.mark.slow
def test_a_stack_is_gathered_and_put_in_order_before_it_is_fused(open_page, rng):
    sent = []
    page = open_page(before=lambda page: page.on("request", lambda request: sent.append(request.method)))
    near, far = (png(picture) for picture in stack(rng))
    drop(page, ("b10.png", near))
    wait_until(lambda: status(page) == "One picture so far. Add the others of the same scene.", "it was told")
    assert fuse_button(page).is_disabled()
    drop(page, ("b9.png", far), ("a.png", near))
    order(page, "a.png", "b9.png", "b10.png")  # 9 before 10
    page.get_by_role("button", name="Move up: b10.png").click()
    order(page, "a.png", "b10.png", "b9.png")
    assert page.evaluate("document.activeElement.ariaLabel") == "Move up: b10.png"
    page.keyboard.press("Enter")  # the focus went along
    order(page, "b10.png", "a.png", "b9.png")
    assert status(page) == "b10.png is now number 1 of 3."
    assert page.evaluate("document.activeElement.ariaLabel") == "Move down: b10.png"  # it cannot go further up
    drop(page, ("0.png", far))  # what was put in order stays so
    order(page, "b10.png", "a.png", "b9.png", "0.png")
    page.get_by_role("button", name="Remove: a.png").click()
    order(page, "b10.png", "b9.png", "0.png")
    assert page.evaluate("document.activeElement.ariaLabel") == "Remove: b9.png"
    page.get_by_role("button", name="Sort by name").click()
    order(page, "0.png", "b9.png", "b10.png")
    page.get_by_role("button", name="Clear").click()
    order(page)
    assert fuse_button(page).count() == 0
    drop(page, ("2.png", near), ("1.png", far))
    page.get_by_role("button", name="Move down: 1.png").click()
    order(page, "2.png", "1.png")
    assert "POST" not in sent  # all this is between the page and its user
    assert fuse_button(page).inner_text() == "Fuse 2 pictures"
    fuse_button(page).click()
    page.wait_for_selector("#fuse .compare")
    assert [text.split()[0] for text in page.locator(".shares li").all_inner_texts()] == ["2.png", "1.png"]
    drop(page, ("3.png", near))
    order(page, "2.png", "1.png", "3.png")
    assert page.locator("#fuse .compare").is_visible()  # until they are fused


@pytest.mark.slow
def test_a_file_is_not_taken_twice(open_page, rng):
    page = open_page()
    near, far = files_of(stack(rng))
    choose(page, near)
    choose(page, near, far)
    first = names(page)
    page.evaluate(
        """() => {
          const transfer = new DataTransfer();
          for (let copy = 0; copy < 2; copy += 1) transfer.items.add(new File(["x"], "x.png", { lastModified: 1 }));
          const dropped = new DragEvent("drop", { bubbles: true, dataTransfer: transfer });
          document.querySelector("#fuse .drop").dispatchEvent(dropped);
        }"""
    )
    order(page, *first, "x.png")
    assert status(page) == "One of them was already in the list."


@pytest.mark.slow
def test_files_are_dragged_into_order(open_page, rng):
    page, near = open_page(), png(stack(rng)[0])
    drop(page, *((f"{number}.png", near) for number in range(1, 5)))
    items = page.locator("#fuse .chosen li")
    bottom, top = {"x": 200, "y": 44}, {"x": 200, "y": 6}
    items.nth(0).drag_to(items.nth(2), target_position=bottom)
    order(page, "2.png", "3.png", "1.png", "4.png")
    items.nth(3).drag_to(items.nth(0), target_position=top)
    order(page, "4.png", "2.png", "3.png", "1.png")
    assert page.locator("#fuse .drop.over").count() == 0  # it is no file from outside


@pytest.mark.slow
def test_files_have_small_pictures(open_page):
    page = open_page()
    pixels = np.zeros((300, 200, 3), np.uint8)
    pixels[:150, :, 0] = pixels[150:, :, 2] = 255
    drop(page, ("a.png", png(pixels)), ("b.tiff", b"no picture"))
    page.wait_for_selector("#fuse .small canvas")
    small = canvas_pixels(page, "#fuse .small canvas")
    assert small.shape == (72, 48, 4)
    assert np.array_equal(small[[10, -10], 20], [[255, 0, 0, 255], [0, 0, 255, 255]])
    assert page.locator("#fuse .small").nth(1).inner_text() == "TIFF"
    box = page.locator("#fuse .small").nth(0).bounding_box()
    assert box["width"] <= 64
    assert box["height"] <= 48


@pytest.mark.slow
def test_the_format_follows_the_files_until_it_is_chosen(open_page, rng):
    page, data = open_page(), b"x"
    chosen = "document.querySelector('#fuse form').elements.format.value"
    for files, expected in (
        (["a.jpg", "b.JPEG"], "JPEG"), (["c.png"], "PNG"), ([], "PNG"), (["a.tif", "b.DNG"], "TIFF"),
    ):  # fmt: skip
        if expected in ("JPEG", "TIFF") and page.locator("#fuse .clear").is_visible():
            page.get_by_role("button", name="Clear").click()
        if files:
            drop(page, *((name, data) for name in files))
        until(page, f"(format) => {chosen} === format", expected)
    page.get_by_role("radio", name="PNG").check()
    page.get_by_role("button", name="Clear").click()
    drop(page, ("a.jpg", data), ("b.jpg", data))
    assert page.evaluate(chosen) == "PNG"


@pytest.mark.slow
def test_the_result_is_downloaded_as_jpeg_png_or_tiff(open_page, rng):
    page = open_page()
    posts = []
    page.on("request", lambda request: request.method == "POST" and posts.append(request.url))
    sources = [gaussian_filter(picture, (1, 1, 0)) for picture in stack(rng)]
    drop(page, *files_of(sources))
    page.get_by_role("radio", name="JPEG").check()
    fuse_button(page).click()
    page.wait_for_selector("#fuse .compare")
    expected = MultiFocusFusion().fuse(sources[::-1]).image
    contents = {}
    for kind, suffix in (("JPEG", "jpg"), ("TIFF", "tif"), ("PNG", "png")):
        page.locator("#fuse .saving select").select_option(kind)
        page.wait_for_selector(f"#fuse .saving a[href$='.{suffix}']")
        name, content = download(page, "Download the picture")
        assert name == f"far-fused.{suffix}"
        about = page.locator("#fuse .note").inner_text()
        assert about.startswith(f"far-fused.{suffix}, {expected.shape[1]} {TIMES} {expected.shape[0]} pixels, ")
        contents[kind] = read(content)
    assert np.array_equal(contents["PNG"], expected)
    assert np.array_equal(contents["TIFF"], expected)
    assert 0 < np.abs(contents["JPEG"].astype(float) - expected).mean() < 12
    assert len(posts) == 1  # no other fusion


@pytest.mark.slow
def test_what_was_done_to_a_source_is_told(open_page, rng):
    note = "Could not be aligned: <b>nothing fits</b>."

    def tell(route):
        answer = route.fetch()
        lines = [json.loads(line) for line in answer.text().splitlines()]
        shown = lines[-1]["result"]
        shown["shares"][0] |= {"note": note, "moved": 0}
        shown["shares"][1] |= {"moved": 12.34}
        shown["source"] = {"width": 60, "height": 44}
        route.fulfill(response=answer, body="\n".join(json.dumps(line) for line in lines) + "\n")

    page = open_page(before=lambda page: page.route("**/watch", tell))
    fuse(page, *files_of(stack(rng)))
    page.wait_for_selector("#fuse .compare")
    assert page.locator("#fuse .remark").inner_text() == f"far.png: {note}"
    sources = page.locator(".shares li").all_inner_texts()
    assert note in sources[0]
    assert "Moved by up to 12.3 pixels." in sources[1]
    assert (
        f"Of 60 {TIMES} 44 pixels, only the area that all pictures show is kept."
        in page.locator("#fuse .note").inner_text()
    )


@pytest.mark.slow
def test_options_reach_the_program(open_page, rng):
    keep_forms = """
      const send = XMLHttpRequest.prototype.send;
      window.forms = [];
      XMLHttpRequest.prototype.send = function (form) {
        window.forms.push(Object.fromEntries([...form].filter(([name]) => name !== "files")));
        return send.call(this, form);
      };"""
    page = open_page(before=lambda page: page.add_init_script(keep_forms))
    drop(page, *files_of(stack(rng)))
    align, whole = page.get_by_label("Align the pictures"), page.get_by_label("Keep the full size")
    assert align.is_checked()
    assert not whole.is_checked()
    for wanted in ((True, False), (True, True), (False, False)):
        whole.set_checked(wanted[1])
        align.set_checked(wanted[0])
        assert whole.is_enabled() == wanted[0]
        fuse_button(page).click()
        page.wait_for_selector("#fuse .compare")
        expected = {"register": "yes" if wanted[0] else "no", "format": "PNG"}
        assert page.evaluate("window.forms.at(-1)") == expected | ({"keep_size": "yes"} if wanted[1] else {})


# What goes wrong


@pytest.mark.slow
def test_bad_files_give_a_message_on_the_page(open_page, rng):
    page = open_page()
    fuse(page, (HOSTILE, b"no picture"), ("b.png", b"no picture"))
    message = page.get_by_role("alert")
    message.wait_for()
    assert message.inner_text().startswith(f"'{HOSTILE}' could not be read as an image")
    assert page.locator("main img").count() == 0
    assert page.locator("#fuse .progress").is_hidden()
    page.get_by_role("button", name="Clear").click()
    fuse(page, *files_of(stack(rng)))
    page.wait_for_selector("#fuse .compare")
    wait_until(lambda: message.count() == 0, "the message had gone")
    page.get_by_role("button", name="Clear").click()
    fuse(page, *files_of([stack(rng)[0][:30], stack(rng)[0]]))
    message.wait_for()
    assert message.inner_text().startswith("Expected pictures of one size and kind, got 56 x 40 pixels of 8-bit colour")
    assert page.locator("#fuse .compare").count() == 0  # what is shown is never of other files
    page.get_by_role("tab", name="Enlarge").click()
    drop(page, *files_of(stack(rng)))
    assert page.get_by_role("alert").inner_text() == "Expected one picture at a time, got 2."


@pytest.mark.slow
def test_too_much_is_refused_before_it_is_sent(open_page):
    sent = []

    def limit(page):
        reported = '{"version": "0", "megabytes": 0.001, "megapixels": 1, "files": 3, "pictures": []}'
        page.route("**/about", lambda route: route.fulfill(body=reported, content_type="application/json"))
        page.on("request", lambda request: sent.append(request.method))

    page = open_page(before=limit)
    assert "(up to 3 files, 1 megapixels each and 0.001 MB in all)" in page.locator("#fuse .about").inner_text()
    fuse(page, ("a.png", b"x" * 600), ("b.png", b"x" * 600))
    assert page.get_by_role("alert").inner_text().startswith("Expected at most 0.001 MB at a time, got 2 kB;")
    fuse(page, ("c.png", b"x"), ("d.png", b"x"))
    assert page.get_by_role("alert").inner_text() == "Expected at most 3 files at a time, got 4."
    assert "POST" not in sent


@pytest.mark.slow
def test_a_server_that_is_gone_is_told(open_page, rng):
    page = open_page(
        before=lambda page: page.route("**/jobs/*", lambda route: route.abort()), expected="ERR_FAILED|jobs/fuse"
    )
    fuse(page, *files_of(stack(rng)))
    page.get_by_role("alert").wait_for()
    assert "is coupledict serve still running" in page.get_by_role("alert").inner_text()
    assert page.locator("#fuse .progress").is_hidden()


@pytest.mark.slow
def test_a_program_that_ends_amid_work_is_told(open_page, rng):
    page = open_page(
        before=lambda page: page.route("**/watch", lambda route: route.abort()), expected="ERR_FAILED|watch"
    )
    fuse(page, *files_of(stack(rng)))
    page.get_by_role("alert").wait_for()
    assert "is coupledict serve still running" in page.get_by_role("alert").inner_text()


@pytest.mark.slow
def test_work_is_told_of_queued_and_cancelled(open_page, rng):
    large, small = long_work(rng, count=48), files_of(stack(rng))  # longer than a job is kept that nobody asks for
    first, second = open_page(expected="jobs/|about:blank"), open_page()
    fuse(first, *large)
    until(first, f"() => {PROGRESS} > 0.05 && {STATUS} === 'Fusing the pictures …'")
    until(first, f"() => /^\\d+ %/.test({FIGURES})")
    assert first.locator("#fuse .sample").is_disabled()
    assert fuse_button(first).is_disabled()
    first.get_by_role("button", name="Cancel").click()
    until(first, f"() => {STATUS} === 'Cancelled.'")
    assert first.locator("#fuse .result").is_hidden()
    fuse_button(first).click()
    until(first, f"() => {PROGRESS} > 0.05")
    job = first.evaluate("JSON.parse(sessionStorage.getItem('coupledict-jobs')).fuse.id")
    fuse(second, *small)
    until(second, f"() => {STATUS}.startsWith('Waiting; 1 before')")
    first.goto("about:blank")
    second.wait_for_selector("#fuse .compare")
    reported = second.evaluate("(address) => fetch(address).then((answer) => answer.json())", f"jobs/{job}")
    assert reported["state"] == "cancelled"  # nobody waited for it any more


@pytest.mark.slow
def test_a_reload_loses_neither_the_work_nor_its_result(open_page, rng):
    page = open_page(expected="watch")  # which the reload breaks
    fuse(page, *long_work(rng))
    until(page, f"() => {PROGRESS} > 0.05")
    job = "JSON.parse(sessionStorage.getItem('coupledict-jobs')).fuse.id"
    before = page.evaluate(job)
    for _ in range(2):
        page.reload()
        until(page, f"() => {PROGRESS} > 0.05 && {STATUS} === 'Fusing the pictures …'")
    assert page.evaluate(job) == before
    page.get_by_role("button", name="Cancel").click()
    until(page, f"() => {STATUS} === 'Cancelled.'")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    assert page.locator("#fuse .progress").is_hidden()
    fuse(page, *files_of(stack(rng)))
    page.wait_for_selector("#fuse .compare")
    shares = page.locator(".shares").inner_text()
    page.get_by_role("tab", name="Explore").click()
    page.reload()
    page.wait_for_selector("#fuse .compare", state="attached")
    assert page.locator("#tab-explore").get_attribute("aria-selected") == "true"
    page.get_by_role("tab", name="Fuse").click()
    assert page.locator(".shares").inner_text() == shares
    assert download(page, "Download the picture")[0] == "far-fused.png"
    page.evaluate("sessionStorage.setItem('coupledict-jobs', JSON.stringify({ fuse: { id: 'gone', handing: 0 } }))")


@pytest.mark.slow
def test_a_result_that_is_gone_is_not_missed(open_page):
    page = open_page(expected="404")  # of which the browser tells
    page.evaluate("sessionStorage.setItem('coupledict-jobs', JSON.stringify({ fuse: { id: 'gone', handing: 0 } }))")
    page.reload()
    page.wait_for_selector("html[data-ready]")
    until(page, "() => JSON.parse(sessionStorage.getItem('coupledict-jobs')).fuse === null")
    assert page.get_by_role("alert").count() == 0
    assert page.locator("#fuse .result").is_hidden()


@pytest.mark.slow
def test_the_time_left_is_told_when_it_is_known_and_steadily(open_page):
    page = open_page()
    reported = page.evaluate(
        """async () => {
          const { inWords, TimeLeft } = await import("./timing.js");
          const follow = (shares, pause) => {
            const left = new TimeLeft();
            return shares.map((share, number) => left.tell(pause * number, share));
          };
          const even = Array.from({ length: 201 }, (_, number) => number / 200);
          const rough = even.map((share, number) =>
            share === 1 ? 1 : Math.max(0, Math.min(0.999, share + 0.01 * Math.sin(2 * number))));
          return {
            words: [3, 12, 60, 61, 119, 121, 3600].map(inWords),
            even: follow(even, 0.2),
            rough: follow(rough, 0.2),
            slow: follow([0, 0.5, 0.51, 0.52, 0.53, 0.54, 0.55], 10),
            unknown: follow([0, 0, 0, 0.001], 10),
          };
        }"""
    )
    seconds = [3, *(f"about {left} left" for left in ("15 s", "60 s", "70 s", "120 s", "3 min", "60 min"))][1:]
    assert reported["words"] == ["a few seconds left", *seconds]
    for shares, first in ((reported["even"], 40), (reported["rough"], 35)):
        shown = [text for number, text in enumerate(shares) if not number or text != shares[number - 1]]
        steps = [f"about {left} s left" for left in range(first, 5, -5)]
        assert shown == ["", *steps, "a few seconds left", ""]  # each once, and never back
    assert reported["slow"][1] == "about 10 s left"
    assert reported["slow"][-1] == "about 45 s left"  # where it is slower than it seemed, that is told
    assert set(reported["unknown"]) == {""}


# By hand


@pytest.mark.slow
def test_the_line_moves_by_mouse_and_keys(open_page, rng):
    page = open_page()
    fuse(page, *files_of(stack(rng)))
    page.wait_for_selector("#fuse .compare")
    until(page, "() => [...document.images].every((image) => image.complete)")
    slider = page.get_by_role("slider", name="Compare far.png with Fused")
    assert split(page) == [50, "inset(0px 50% 0px 0px)"]
    slider.focus()
    for key, value in [
        ("ArrowRight", 52), ("ArrowUp", 54), ("ArrowLeft", 52), ("Shift+ArrowLeft", 42), ("PageUp", 52), ("End", 100),
        ("ArrowRight", 100), ("Home", 0), ("ArrowDown", 0), ("PageUp", 10),
    ]:  # fmt: skip
        page.keyboard.press(key)
        line_comes_to(page, value)
        assert split(page)[1] == f"inset(0px {100 - value}% 0px 0px)", key
    assert slider.get_attribute("aria-valuetext") == "10 % far.png, the rest Fused"
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


LARGE = np.array([900, 1500, 3])


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1, 2])
def test_the_pixels_are_seen_at_100_percent(open_page, rng, ratio):
    page = open_page(device_scale_factor=ratio)
    sources = stack(rng, tuple(LARGE * [ratio, ratio, 1]))
    choose(page, *files_of(sources, ("0.png", "1.png")))
    page.get_by_label("Align the pictures").uncheck()
    fuse_button(page).click()
    page.wait_for_selector("#fuse .compare")
    fused = read(download(page, "Download the picture")[1])
    zoom = page.get_by_role("button", name="100 %")
    zoom.click()
    assert zoom.get_attribute("aria-pressed") == "true"
    pan = page.get_by_role("region", name="The picture at 100 %; arrow keys move it")

    def seen():
        """Return left and top edge of what is in sight, in pixels of the picture, and a picture of the screen there."""
        loaded = "() => [...document.querySelectorAll('.tile')].every((tile) => tile.complete && tile.naturalWidth)"
        until(page, loaded)
        left, top = page.evaluate(
            "() => { const p = document.querySelector('.pan'); return [p.scrollLeft, p.scrollTop]; }"
        )
        pan.scroll_into_view_if_needed()
        box = page.locator(".stage").bounding_box()
        box["y"] = round(ratio * box["y"]) / ratio  # where it is drawn; a screenshot of it begins a pixel above
        return round(ratio * left), round(ratio * top), read(page.screenshot(clip=box))[..., :3]

    def compare(shown, left, top, width):
        """Compare both sides with the sources, where neither tags nor the line nor rounded corners are."""
        line = round(width * split(page)[0] / 100)
        middle = round(0.35 * len(shown))
        for part, picture in ((slice(20, line - 60), sources[0]), (slice(line + 60, width - 20), fused)):
            expected = picture[top : top + len(shown), left : left + width]
            rows = slice(middle - 50, middle + 50)
            difference = np.abs(shown[rows, part].astype(int) - expected[rows, part])
            assert difference.max() <= 2  # colours may be rounded, places may not

    width = round(ratio * pan.evaluate("(pan) => pan.clientWidth"))
    left, top, shown = seen()
    assert (left, top) != (0, 0)  # its middle
    compare(shown, left, top, width)
    pan.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    at = "document.querySelector('.pan')"
    moved = [left / ratio + 40, top / ratio + 40]  # where it comes to rest
    until(page, f"([left, top]) => {at}.scrollLeft === left && {at}.scrollTop === top", moved)
    pan.evaluate("(pan) => pan.scrollTo(7, 5)")
    until(page, f"() => {at}.scrollLeft === 7")
    left, top, shown = seen()
    assert (left, top) == (7 * ratio, 5 * ratio)
    compare(shown, left, top, width)
    box = page.locator(".line i").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2 + 0.2 * width / ratio, box["y"], steps=3)
    page.mouse.up()
    line_comes_to(page, 70, within=1)  # the handle moves the line
    compare(seen()[2], left, top, width)
    page.mouse.move(box["x"] - 100, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] - 140, box["y"] + 20, steps=3)
    page.mouse.up()
    until(page, f"() => {at}.scrollLeft === 47 && {at}.scrollTop === 35")  # all else moves the picture
    left, top, shown = seen()
    compare(shown, left, top, width)
    page.get_by_label("Compare with").select_option(label="1.png")
    sources[0] = sources[1]
    compare(seen()[2], left, top, width)
    zoom.click()
    until(page, "() => document.querySelectorAll('.tile').length === 0")
    assert zoom.get_attribute("aria-pressed") == "false"
    assert split(page)[1] == f"inset(0px {100 - split(page)[0]:g}% 0px 0px)"


@pytest.mark.slow
def test_a_double_click_shows_the_place(open_page, rng):
    page = open_page()
    fuse(page, *files_of(stack(rng, tuple(LARGE))))
    page.wait_for_selector("#fuse .compare")
    until(page, "() => [...document.images].every((image) => image.complete)")
    stage = page.locator(".stage")
    stage.scroll_into_view_if_needed()
    box = stage.bounding_box()
    page.mouse.dblclick(box["x"] + 0.9 * box["width"], box["y"] + 0.9 * box["height"])
    until(page, "() => document.querySelector('.stage.whole') !== null")
    gaps = """({ scrollWidth, clientWidth, scrollLeft, scrollHeight, clientHeight, scrollTop }) =>
      [scrollWidth - clientWidth - scrollLeft, scrollHeight - clientHeight - scrollTop]"""
    assert max(page.locator(".pan").evaluate(gaps)) <= 1  # that place is in its corner


KEYS = [("ArrowRight", "enlarge"), ("ArrowRight", "widen"), ("End", "explore"), ("ArrowRight", "fuse")]
KEYS += [("ArrowLeft", "explore")]


@pytest.mark.slow
def test_all_of_it_works_by_keyboard(open_page):
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    for key, name in KEYS:
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
    assert page.locator("#explore h2").inner_text() == f"{MultiFocusFusion().n_components} atoms in 2 views"
    assert page.locator("#explore .status").get_attribute("aria-live") == "polite"
    for field in page.locator("input:visible, select:visible, button:visible").all():
        assert field.evaluate(
            "(field) => (field.labels?.length ?? 0) > 0 || field.ariaLabel || field.textContent.trim()"
        )


@pytest.mark.slow
@pytest.mark.parametrize("options", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_legible_and_never_scrolls_sideways(open_page, rng, options, scheme):
    page = open_page(color_scheme=scheme, reduced_motion="reduce", **options)
    long_name = "a-very-long-name-" * 7 + ".png"
    fuse(page, *files_of(stack(rng), (long_name, "far.png")))
    page.wait_for_selector("#fuse .compare")
    page.get_by_role("tab", name="Enlarge").click()
    drop(page, (long_name, b"no picture"))
    page.get_by_role("alert").wait_for()
    for task in ("enlarge", "widen", "explore", "fuse"):
        page.locator(f"#tab-{task}").click()
        for width in WIDTHS if options is DESKTOP else (360,):
            page.set_viewport_size({"width": width, "height": 740})
            until(page, "(width) => document.documentElement.scrollWidth <= width", width)
        for text, contrast in contrasts(page):
            assert contrast >= 4.5, text
    assert (luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")) < 0.1) == (scheme == "dark")
    assert page.evaluate("document.getAnimations().length") == 0
    if options is PHONE:
        for button in page.locator("button:visible, a.button:visible, select:visible").all():
            assert button.bounding_box()["height"] >= 44  # for fingers


@pytest.mark.slow
def test_a_finger_moves_the_line(open_page, rng):
    page = open_page(**PHONE)
    fuse(page, *files_of(stack(rng)))
    page.wait_for_selector("#fuse .compare")
    slider = page.locator(".split")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.touchscreen.tap(box["x"] + 0.7 * box["width"], box["y"] + 0.5 * box["height"])
    until(page, "() => Math.abs(document.querySelector('.split').value - 70) < 2")
