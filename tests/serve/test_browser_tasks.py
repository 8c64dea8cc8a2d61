"""What every task of the page has in a real browser: a help line, a share with the time left, errors in sight; speech.

The tests need Playwright and a Chromium, and are skipped without; COUPLEDICT_BROWSER=required makes that a failure.
"""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
import soundfile

from coupledict.audio import BandwidthExtension
from support.browsing import DESKTOP, PHONE
from support.pages_of_serve import contrasts, download, drop, opening, status, until
from support.serving import png, program, stack
from support.voices import RATE, telephone, voice
from support.waiting import wait_until

pytestmark = pytest.mark.slow

TASKS = ("fuse", "enlarge", "widen", "explore")
NARROW_PHONE = PHONE | {"viewport": {"width": 400, "height": 600}}
LONG = "a-name-without-end-" * 6
IN_SIGHT = """(selector) => {
  const box = document.querySelector(selector).getBoundingClientRect();
  return box.height > 0 && box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth;
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory, browser):
    with program(tmp_path_factory.mktemp("serve")) as (_, found, _):
        yield found[0]


@pytest.fixture
def open_page(browser, address):
    with opening(browser, address) as open_page:
        yield open_page


def sound(samples, rate=8000, kind="WAV"):
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format=kind)
    return out.getvalue()


def show(page, task):
    page.locator(f"#tab-{task}").click()


def try_with(page, task, *files):
    """Give files to a task, and let it begin."""
    page.locator(f"#{task} input[type=file]").set_input_files(
        [{"name": name, "mimeType": "application/octet-stream", "buffer": data} for name, data in files]
    )
    if task == "fuse":
        page.locator("#fuse .run").click()


# Speech


def test_a_recording_is_widened_heard_seen_and_downloaded(open_page):
    page, call = open_page(), telephone(voice(1, 2.0))
    show(page, "widen")
    drop(page, ("<b>call.wav", sound(call)))
    page.wait_for_selector("#widen .players")
    reported = page.locator("#widen .found").inner_text()
    assert reported.startswith("<b>call.wav: telephone speech, up to 3.")
    assert reported.endswith("kHz (measured), 1 channel at 8 kHz, 2.0 s.")
    until(page, "() => [...document.querySelectorAll('audio')].every((audio) => audio.readyState >= 1)")
    durations = page.evaluate("[...document.querySelectorAll('audio')].map((audio) => audio.duration)")
    assert durations == pytest.approx([2, 2], abs=0.01)
    until(page, "() => [...document.querySelectorAll('.spectra img')].every((image) => image.naturalWidth === 1024)")
    page.locator(".saving select").select_option("FLAC")
    link = page.get_by_role("link", name="Download the sound")
    wait_until(lambda: (link.get_attribute("href") or "").endswith(".flac"), "the file was there")
    name, content = download(page, "Download the sound")
    assert name == "b-call-wide.flac"
    stored, _ = soundfile.read(io.BytesIO(sound(call)))
    right = BandwidthExtension.pretrained().extend(stored)
    assert np.abs(soundfile.read(io.BytesIO(content))[0] - right).max() < 2**-15


def test_one_sound_is_heard_at_a_time(open_page):
    page = open_page()
    show(page, "widen")
    page.get_by_role("button", name="Try it with our recording").click()
    page.wait_for_selector("#widen .players")
    assert "a synthetic voice" in page.locator("#widen .note").inner_text()
    listening = page.evaluate(
        """async () => {
          const [before, after] = document.querySelectorAll("audio");
          before.loop = after.loop = true;
          before.muted = after.muted = true;
          await before.play();
          before.currentTime = 2;
          await after.play();
          return [before.paused, after.paused, after.currentTime];
        }"""
    )
    assert listening[:2] == [True, False]
    assert listening[2] >= 2  # where the other one was


def test_band_and_strength_are_chosen(open_page):
    page, sent = open_page(), []
    page.on("request", lambda request: request.method == "POST" and sent.append(request.post_data))
    show(page, "widen")
    strength = page.get_by_label("Strength of the added band")
    assert page.locator("#widen output").inner_text() == "0.2, careful"
    strength.fill("0.5")
    assert page.locator("#widen output").inner_text() == strength.get_attribute("aria-valuetext") == "0.5, as predicted"
    page.get_by_role("radio", name="Narrow").check()
    page.get_by_role("button", name="Try it with our recording").click()
    page.wait_for_selector("#widen .players")
    assert "(as given)" in page.locator("#widen .found").inner_text()
    form = sent[0].replace("\r\n", "\n")
    assert 'name="strength"\n\n0.5\n' in form
    assert 'name="band"\n\nnarrow\n' in form


def test_a_recording_that_is_wide_already_is_left(open_page):
    page = open_page()
    show(page, "widen")
    drop(page, ("wide.wav", sound(voice(2, 2.0), RATE)))
    page.wait_for_selector("#widen audio")
    assert page.locator("#widen h2").inner_text() == "Nothing was added"
    assert "choose Narrow" in page.locator("#widen .remark").inner_text()
    assert page.get_by_role("link", name="Download the sound").count() == 0


def test_a_missing_package_is_named_and_the_rest_works(open_page, rng):
    sentence = 'Expected soundfile to be installed. Install it with: pip install "coupledict[audio]"'
    reported = {
        "version": "0",
        "megabytes": 9,
        "megapixels": 1,
        "files": 3,
        "pictures": [],
        "missing": {"widen": sentence},
    }

    def answer(page):
        page.route("**/about", lambda route: route.fulfill(body=json.dumps(reported), content_type="application/json"))

    page = open_page(before=answer)
    show(page, "widen")
    assert page.locator("#widen .lacking").inner_text() == sentence
    assert page.locator("#widen code").inner_text() == 'pip install "coupledict[audio]"'
    assert page.locator("#widen .drop").is_hidden()
    assert page.locator("#widen .sample").is_hidden()
    show(page, "enlarge")
    drop(page, ("a.png", png(stack(rng)[0])))
    page.wait_for_selector("#enlarge .compare")


# A share, and the time left


def mocked(task, state):
    """Return what makes a page believe that a task has a job in some state, which may change."""

    def answer(page):
        def watch(route):
            line = json.dumps({"id": "x", "state": "running", "phase": "Working", **state})
            route.fulfill(body=line + "\n", content_type="application/x-ndjson")

        begun = json.dumps({"id": "x", "state": "waiting", "before": 0})
        page.route(f"**/jobs/{task}", lambda route: route.fulfill(status=202, body=begun))
        page.route("**/watch", watch)
        page.route("**/jobs/x", lambda route: route.fulfill(body=begun))

    return answer


def test_the_bar_of_a_file_that_was_chosen_is_in_sight_on_a_phone(open_page):
    page = open_page(before=mocked("widen", {"share": 0.5, "elapsed": 1}), reduced_motion="reduce", **NARROW_PHONE)
    show(page, "widen")
    page.evaluate("scrollTo(0, 0)")
    try_with(page, "widen", ("a.wav", b"anything"))
    wait_until(lambda: status(page, "widen") == "Working …", "it worked")
    assert page.evaluate(IN_SIGHT, "#widen .progress")


@pytest.mark.parametrize("task", TASKS)
def test_every_job_shows_its_share_and_the_time_left(open_page, task):
    state = {"share": None, "elapsed": 0.1}
    page = open_page(before=mocked(task, state), reduced_motion="reduce", **NARROW_PHONE)
    show(page, task)
    page.locator(f"#{task} .sample").click()
    bar, figures = page.locator(f"#{task} progress"), page.locator(f"#{task} .figures")
    wait_until(lambda: status(page, task) == "Working …", "it worked")
    assert bar.get_attribute("value") is None  # nobody knows yet
    assert "gradient" in bar.evaluate("(bar) => getComputedStyle(bar).backgroundImage")
    assert figures.inner_text() == ""
    state.update(share=0.1, elapsed=1)
    wait_until(lambda: figures.inner_text() == "10 %", "the share was known")
    assert float(bar.get_attribute("value")) == 0.1
    state.update(share=0.5, elapsed=20)
    wait_until(lambda: figures.inner_text() == "50 % · about 20 s left", "the time left was known")
    state.update(share=None, elapsed=21)
    wait_until(lambda: bar.get_attribute("value") is None, "it was unknown again")
    assert figures.inner_text() == ""


# What goes wrong


@pytest.mark.parametrize("task", TASKS)
def test_errors_are_in_sight_on_a_phone_until_the_next_try(open_page, task):
    page = open_page(reduced_motion="reduce", **NARROW_PHONE)
    show(page, task)
    files = [(f"{LONG}{number}.x", b"nothing of use") for number in range(2 if task == "fuse" else 1)]
    try_with(page, task, *files)
    message = page.locator(f"#{task}").get_by_role("alert")
    message.wait_for()
    text = message.inner_text()
    assert LONG in text.replace("\n", "")
    until(page, IN_SIGHT, f"#{task} .message")
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert message.evaluate("(message) => message.scrollWidth <= message.clientWidth")
    gap = message.bounding_box()["y"] - page.locator(f"#{task} .run").bounding_box()["y"]
    assert 0 < gap < 150  # near the button
    show(page, TASKS[TASKS.index(task) - 1])
    show(page, task)
    assert message.inner_text() == text
    if task == "fuse":  # more files are no try yet
        page.locator("#fuse input[type=file]").set_input_files(
            [{"name": "c.png", "mimeType": "image/png", "buffer": b"x"}]
        )
        assert message.inner_text() == text
    page.reload()
    page.wait_for_selector(f"#{task} .message:not([hidden])")
    assert message.inner_text() == text
    page.locator(f"#{task} .sample").click()
    page.wait_for_selector(f"#{task} .result:not([hidden])")
    assert message.count() == 0


def test_a_file_that_cannot_be_written_is_told_where_it_was_asked_for(open_page, rng):
    reason = "The file could not be written (the disk is full)."

    def answer(page):
        body = json.dumps({"message": reason})
        page.route("**/enlarged.tif", lambda route: route.fulfill(status=507, body=body))

    page = open_page(before=answer, expected="507", **NARROW_PHONE)
    show(page, "enlarge")
    drop(page, ("a.png", png(stack(rng)[0])))
    page.wait_for_selector("#enlarge .compare")
    page.locator(".saving select").select_option("TIFF")
    message = page.locator("#enlarge .result").get_by_role("alert")
    message.wait_for()
    assert message.inner_text() == reason
    until(page, IN_SIGHT, "#enlarge .result .message")
    page.locator(".saving select").select_option("PNG")
    wait_until(lambda: message.count() == 0, "the message had gone")


# Help


def test_every_task_has_a_line_of_help(open_page):
    page = open_page()
    sizes = {"fuse": "64 files, 120 megapixels", "enlarge": "120 megapixels", "widen": "200 million samples"}
    for task in TASKS:
        show(page, task)
        line = page.locator(f"#{task} .about").inner_text()
        assert line.endswith("on this machine.")
        assert line.count(". ") == 0  # one sentence
        assert sizes.get(task, "") in line
        assert "1000 MB" in line
        described = page.locator(f"#{task} input[type=file]").get_attribute("aria-describedby")
        assert page.locator(f"#{described}").inner_text() == line
        above, below = (page.locator(place).bounding_box()["y"] for place in (f"#{task} .about", f"#{task} .drop"))
        assert page.locator("[role=tablist]").bounding_box()["y"] < above < below


@pytest.mark.parametrize("options", [DESKTOP, NARROW_PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_speech_is_legible_and_never_scrolls_sideways(open_page, options, scheme):
    page = open_page(color_scheme=scheme, reduced_motion="reduce", **options)
    show(page, "widen")
    drop(page, (f"{LONG}.wav", sound(telephone(voice(1, 1.0)))))
    page.wait_for_selector("#widen .players")
    width = options["viewport"]["width"]
    until(page, "(width) => document.documentElement.scrollWidth <= width", width)
    for text, contrast in contrasts(page):
        assert contrast >= 4.5, text
    if options is not DESKTOP:
        for target in page.locator("#widen :is(button, a.button, select, audio, .slider input):visible").all():
            assert target.bounding_box()["height"] >= 44  # for fingers
