"""The report in a real browser: it loads in silence, the explorer works by mouse, keyboard and touch, all is legible.

The tests need Playwright and a Chromium, and are skipped without; COUPLEDICT_BROWSER=required makes that a failure.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from coupledict.report import write_report
from support.browsing import DESKTOP, PHONE, pixels
from support.report_results import FIGURES, N_ATOMS, N_PATCHES, SIDE, make_dictionaries, make_figures, make_results
from support.waiting import wait_until

pytestmark = pytest.mark.slow

COLUMNS = 6  # of the grid of 27 atoms
LAST = N_ATOMS - 1
SPACE = "\N{NO-BREAK SPACE}"
VIEWS = ("focused", "blurred")


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_report(folder / "report.html", make_results(), make_dictionaries(), make_figures(folder))
    return (folder / "report.html").as_uri()


@pytest.fixture
def open_report(open_file, address):
    def open_report(address=address, **options):
        return open_file(address, **options)

    return open_report


def known(mode="together"):
    return make_results()["pairs"][mode]["atoms"]


def by_use(mode="together"):
    """Return the atoms in the order in which they should lie in the grids."""
    use = known(mode)["use"]
    return sorted(range(N_ATOMS), key=lambda t: -use[t])


def state(page):
    """Return atom, position and best partner as the explorer has them, and what the two grids light."""
    return page.evaluate(
        """() => {
          const [root, ...grids] = ["explorer", "explorer-focused", "explorer-blurred"].map(
            (name) => document.getElementById(name));
          const number = (text) => text === undefined || text === "" ? null : Number(text);
          return {
            mode: root.dataset.mode, atom: number(root.dataset.atom), position: number(root.dataset.position),
            lit: grids.map((grid) => number(grid.dataset.lit)), best: number(grids[1].dataset.best),
            active: grids.map((grid) => grid.getAttribute("aria-activedescendant")),
            selected: [...document.querySelectorAll('[aria-selected="true"]')].map((cell) => cell.id),
          };
        }"""
    )


def arrived(page, **wanted):
    """Wait until the explorer is in a state of which some entries are known; return all of it."""

    def found():
        now = state(page)
        return now if now | wanted == now else None

    return wait_until(found, f"the explorer came to {wanted}")


def grid(page, view):
    return pixels(page, f"#explorer-{view} canvas")


def levels(atom):
    """Return an atom as it should be drawn."""
    return np.rint(127.5 + 127.5 * atom / np.abs(atom).max()).reshape(SIDE, SIDE)


def blocks(square):
    """Return the middle pixel of each entry of an atom that was drawn as a square."""
    size = square.shape[0] / SIDE
    middle = ((np.arange(SIDE) + 0.5) * size).astype(int)
    return square[np.ix_(middle, middle)][..., 0].astype(float)


def cell(image, position):
    """Return the pixels of one place in the grid, without the lines around it."""
    pitch = (image.shape[1] - 1) / COLUMNS
    top, left = (round(1 + place * pitch) for place in divmod(position, COLUMNS))
    return image[top : top + round(pitch) - 1, left : left + round(pitch) - 1]


def around(image, position):
    """Return the pixels of one place in the grid and of half a place on every side of it."""
    pitch = (image.shape[1] - 1) / COLUMNS
    top, left = (round((place - 0.5) * pitch) for place in divmod(position, COLUMNS))
    return image[max(0, top) : top + round(2 * pitch), max(0, left) : left + round(2 * pitch)]


def place(page, view, position):
    """Return the middle of one place in the grid, in the page's window."""
    box = page.locator(f"#explorer-{view}").bounding_box()
    row, column = divmod(position, COLUMNS)
    rows = -(-N_ATOMS // COLUMNS)
    return box["x"] + (column + 0.5) * box["width"] / COLUMNS, box["y"] + (row + 0.5) * box["height"] / rows


def to_explorer(page):
    page.evaluate("document.getElementById('explorer-title').scrollIntoView()")


def hover(page, view, position):
    page.mouse.move(*place(page, view, position))


def has_colour(image, colour):
    wanted = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    return bool((image[..., :3] == wanted).all(axis=-1).any())


def variable(page, name):
    return page.evaluate("name => getComputedStyle(document.documentElement).getPropertyValue(name).trim()", name)


# Loading


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_loads_in_silence(open_report, scheme):
    page = open_report(color_scheme=scheme)
    assert page.title() == "Coupled dictionaries, measured again · coupledict"
    assert page.locator("#explorer").is_visible()
    images = page.evaluate("[...document.images].map((image) => [image.complete, image.naturalWidth])")
    assert images == [[True, 1200]] * len(FIGURES)
    assert (
        page.evaluate("performance.getEntriesByType('resource').filter((e) => !e.name.startsWith('data:')).length") == 0
    )
    assert page.evaluate("document.compatMode") == "CSS1Compat"


def test_without_scripts_it_says_so(open_report):
    page = open_report(java_script_enabled=False)
    assert page.locator("noscript p").is_visible()
    assert not page.locator("#explorer").is_visible()


def test_what_it_was_told_is_never_run(open_report, tmp_path):
    hostile = '</script><script>document.title = "run"</script><img src=x onerror="document.title=1"><b onclick=x>'
    results = make_results() | {"command": hostile, "notes": [hostile], "data": [hostile]}
    write_report(tmp_path / "report.html", results, make_dictionaries(), {})
    page = open_report((tmp_path / "report.html").as_uri())
    assert page.title() == "Coupled dictionaries, measured again · coupledict"
    assert page.locator("pre code").inner_text() == hostile
    assert page.locator("img").count() == 0


def test_it_is_laid_out_the_same_with_one_atom(open_report, tmp_path):
    pair = [np.arange(64.0)[None], np.ones((1, 64))]
    write_report(tmp_path / "report.html", {}, {"together": pair, "separate": pair}, {})
    page = open_report((tmp_path / "report.html").as_uri())
    page.locator("#explorer-focused").press("ArrowDown")
    page.locator("#explorer-next").click()
    arrived(page, atom=0)
    np.testing.assert_array_equal(blocks(pixels(page, "#explorer-large-focused")), levels(pair[0][0]))


# What is drawn


@pytest.mark.parametrize("mode", ["together", "separate"])
def test_atoms_lie_by_use_at_the_same_place_in_both_grids(open_report, mode):
    page = open_report()
    page.locator(f"input[value={mode}]").check()
    to_explorer(page)
    hover(page, "focused", 0)
    best = arrived(page, mode=mode, position=0)["best"]
    for view, atoms in zip(VIEWS, make_dictionaries()[mode], strict=True):
        image = grid(page, view)
        for position in (15, 20, LAST):  # far from what is lit, and from its best partner
            atom = by_use(mode)[position]
            if atom == best:
                continue
            assert np.abs(blocks(cell(image, position)) - levels(atoms[atom])).max() <= 1
        past_the_last = cell(image, LAST + 1)
        assert not past_the_last[..., 3].any()


def test_the_panel_shows_the_pair_enlarged(open_report):
    page = open_report()
    page.locator("input[value=separate]").check()
    page.locator("#explorer-focused").press("ArrowRight")
    atom = by_use("separate")[1]
    focused, blurred = make_dictionaries()["separate"]
    expected = [focused[atom], blurred[atom], blurred[known("separate")["best"][atom]]]
    for name, values in zip(("focused", "blurred", "best"), expected, strict=True):
        square = pixels(page, f"#explorer-large-{name}")
        assert square.shape[0] >= 56
        assert square.shape[0] % SIDE == 0
        np.testing.assert_array_equal(blocks(square), levels(values))


def sharp(canvas, ratio):
    drawn, shown = canvas.evaluate("(c) => [c.width, c.getBoundingClientRect().width]")
    return drawn == pytest.approx(shown * ratio, abs=0.1)


@pytest.mark.parametrize("ratio", [1, 1.5, 2, 3])
def test_canvases_have_the_pixels_of_the_screen(open_report, ratio):
    page = open_report(device_scale_factor=ratio)
    for selector in ("#explorer-focused canvas", "#explorer-blurred canvas", "#explorer-large-focused"):
        canvas = page.locator(selector)
        wait_until(functools.partial(sharp, canvas, ratio), "the canvas had the pixels of the screen")
        assert canvas.evaluate("(c) => c.width") > 40 * ratio


def test_canvases_follow_the_zoom(open_report):
    page = open_report()
    before = grid(page, "focused").shape[1]
    metrics = {"width": 1240, "height": 900, "deviceScaleFactor": 2, "mobile": False}  # no narrower for the explorer
    page.context.new_cdp_session(page).send("Emulation.setDeviceMetricsOverride", metrics)
    page.wait_for_function("devicePixelRatio === 2")
    wait_until(lambda: sharp(page.locator("#explorer-focused canvas"), 2), "the canvas had followed")
    assert grid(page, "focused").shape[1] > before


# The mouse


@pytest.mark.parametrize("view", VIEWS)
def test_pointing_lights_the_partner(open_report, view):
    page = open_report()
    to_explorer(page)
    frame = variable(page, "--same")
    before = [grid(page, name) for name in VIEWS]
    hover(page, view, 16)
    atom = by_use()[16]
    found = arrived(page, position=16)
    assert found["atom"] == atom
    assert found["lit"] == [atom, atom]
    assert found["best"] is None
    assert page.locator("#explorer-number").inner_text() == str(atom)
    for name, old in zip(VIEWS, before, strict=True):
        new = grid(page, name)
        lit = [[has_colour(around(image, position), frame) for position in (0, 16)] for image in (old, new)]
        assert lit == [[True, False], [False, True]]
        assert (cell(new, 16) != cell(old, 16)).any()


def test_pointing_past_the_last_atom_changes_nothing(open_report):
    page = open_report()
    to_explorer(page)
    hover(page, "focused", 9)
    arrived(page, position=9)
    hover(page, "focused", LAST + 2)
    assert state(page)["position"] == 9


def test_buttons_step_through_the_atoms(open_report):
    page = open_report()
    page.locator("#explorer-previous").click()
    arrived(page, position=0)
    for position in (1, 2, 3):
        page.locator("#explorer-next").click()
        arrived(page, position=position)
    assert page.locator("#explorer-place").inner_text() == f"4 of {N_ATOMS}"


def pinned(page):
    return page.locator("#explorer-pinned").is_visible()


def test_a_click_pins_an_atom_until_it_is_clicked_again(open_report):
    page = open_report()
    to_explorer(page)
    page.mouse.click(*place(page, "focused", 9))
    arrived(page, position=9)
    assert pinned(page)
    hover(page, "blurred", 14)
    assert state(page)["position"] == 9
    page.mouse.click(*place(page, "blurred", 14))
    arrived(page, position=14)
    assert pinned(page)
    page.mouse.click(*place(page, "blurred", 14))
    assert not pinned(page)
    hover(page, "focused", 3)
    arrived(page, position=3)


def test_escape_lets_go_of_an_atom_and_keys_move_a_pinned_one(open_report):
    page = open_report()
    to_explorer(page)
    page.mouse.click(*place(page, "focused", 9))
    arrived(page, position=9)
    page.keyboard.press("ArrowRight")
    arrived(page, position=10)
    assert pinned(page)
    page.keyboard.press("Escape")
    assert not pinned(page)
    hover(page, "focused", 3)
    arrived(page, position=3)


# The keyboard


@pytest.mark.parametrize("view", VIEWS)
def test_keys_move_and_update_the_panel(open_report, view):
    page = open_report()
    page.locator("#explorer-order").focus()
    for _ in range(3 + VIEWS.index(view)):  # past the two buttons of the panel
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == f"explorer-{view}"
    moves = [
        ("ArrowRight", 1),
        ("ArrowDown", 7),
        ("ArrowLeft", 6),
        ("ArrowLeft", 5),
        ("Home", 0),
        ("ArrowUp", 0),
        ("ArrowLeft", 0),
        ("End", 5),
        ("PageDown", 23),  # four rows down there is none in this column: the last one is three rows down
        ("ArrowDown", 23),
        ("PageUp", 5),
        ("Control+End", LAST),
        ("ArrowRight", LAST),
        ("End", LAST),
        ("Home", 24),
        ("PageUp", 0),
        ("PageDown", 24),
        ("Control+Home", 0),
        ("ArrowDown", 6),
    ]
    for key, position in moves:
        page.keyboard.press(key)
        atom = by_use()[position]
        found = arrived(page, position=position)
        assert (found["atom"], found["lit"]) == (atom, [atom, atom]), key
        assert found["active"] == [f"explorer-{name}-{position}" for name in VIEWS]
        assert found["selected"] == found["active"]
        assert page.locator("#explorer-number").inner_text() == str(atom)


def test_keys_that_mean_nothing_here_are_left_to_the_page(open_report):
    page = open_report()
    page.locator("#explorer-focused").focus()
    for key in ("a", "Alt+ArrowRight", "Escape"):
        page.keyboard.press(key)
    assert state(page)["position"] == 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "explorer-blurred"


@pytest.mark.parametrize("mode", ["together", "separate"])
def test_the_panel_tells_what_the_results_say(open_report, mode):
    page = open_report()
    page.locator(f"input[value={mode}]").check()
    atoms = known(mode)
    for key in ("Control+End", "ArrowUp"):
        page.locator("#explorer-blurred").press(key)
        atom = state(page)["atom"]
        facts = dict(
            zip(page.locator(".facts dt").all_inner_texts(), page.locator(".facts dd").all_inner_texts(), strict=True)
        )
        best = atoms["best"][atom]
        assert facts == {
            "Used in patches": f"{atoms['use'][atom]:,}{SPACE}({100 * atoms['use'][atom] / N_PATCHES:.1f}{SPACE}%)",
            "Norm, focused": f"{atoms['norms'][0][atom]:.2f}",
            "Norm, blurred": f"{atoms['norms'][1][atom]:.2f}",
            "Gain": f"{atoms['gain'][atom]:.2f}",
            "Correlation": f"{atoms['correlation'][atom]:.2f}",
            "Best partner": "the same number" if best == atom else f"atom{SPACE}{best}",
        }


def test_a_screen_reader_hears_the_panel(open_report):
    page = open_report()
    status = page.locator("#explorer-status")
    assert status.get_attribute("aria-live") == "polite"
    page.locator("#explorer-focused").press("Control+End")
    atom = by_use()[LAST]
    page.wait_for_function(
        "text => document.getElementById('explorer-status').textContent.startsWith(text)",
        arg=f"Atom {atom}. Used in patches",
    )
    assert f"Correlation {known()['correlation'][atom]:.2f}" in status.inner_text()
    tree = page.locator("#explorer-focused").aria_snapshot()
    assert tree.startswith('- grid "Focused atoms"')
    assert f'gridcell "atom {atom}" [selected]' in tree


# Dictionaries that were learned separately, and other orders


def test_separate_dictionaries_show_the_best_partner(open_report):
    page = open_report()
    page.locator("input[value=together]").focus()
    page.keyboard.press("ArrowRight")
    arrived(page, mode="separate")
    to_explorer(page)
    position = by_use("separate").index(known("separate")["best"][by_use("separate")[8]])
    hover(page, "focused", 8)
    found = arrived(page, position=8)
    atom = by_use("separate")[8]
    assert found["lit"] == [atom, atom]
    assert found["best"] == known("separate")["best"][atom] != atom
    assert has_colour(around(grid(page, "blurred"), position), variable(page, "--best"))
    assert not has_colour(grid(page, "focused"), variable(page, "--best"))
    assert page.locator("#explorer-large-best").is_visible()
    page.locator("input[value=together]").check()
    arrived(page, mode="together", best=None)
    assert not has_colour(grid(page, "blurred"), variable(page, "--best"))
    assert not page.locator("#explorer-large-best").is_visible()


def test_another_order_keeps_the_atom_in_view(open_report):
    page = open_report()
    page.locator("#explorer-focused").press("ArrowDown")
    atom = arrived(page, position=COLUMNS)["atom"]
    page.locator("#explorer-order").select_option("number")
    arrived(page, atom=atom, position=atom)
    page.locator("#explorer-focused").press("Control+Home")
    arrived(page, atom=0, position=0)
    page.locator("#explorer-order").select_option("correlation")
    page.locator("#explorer-focused").press("Control+Home")
    arrived(page, atom=int(np.argmax(known()["correlation"])), position=0)


# Touch, widths and colours


@pytest.mark.parametrize("view", VIEWS)
def test_a_tap_on_a_phone_lights_the_pair(open_report, view):
    page = open_report(**PHONE)
    page.locator(f"#explorer-{view}").scroll_into_view_if_needed()
    page.touchscreen.tap(*place(page, view, 13))
    atom = by_use()[13]
    arrived(page, position=13, lit=[atom, atom])
    panel, bounds = page.locator("#explorer-panel"), page.locator("#explorer-panel").bounding_box()
    assert panel.is_visible()
    assert bounds["y"] >= 0
    assert bounds["y"] + bounds["height"] < 740 / 2  # the pair is in sight, and so is the grid
    page.locator("input[value=separate]").check()
    arrived(page, mode="separate")
    page.locator("#explorer-next").tap()
    arrived(page, atom=by_use("separate")[14])


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_the_page_never_scrolls_sideways(open_report, width):
    page = open_report(viewport={"width": width, "height": 800})
    wide = page.evaluate(
        """() => [...document.body.querySelectorAll("*")]
          .filter((e) => !e.closest(".hidden-text, .skip"))
          .filter((e) => !e.parentElement.closest(".scroll, pre"))
          .filter((e) => e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
          .map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert wide == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for box in page.locator(".scroll").all():
        assert box.get_attribute("tabindex") == "0"


def test_the_explorer_follows_the_window(open_report):
    page = open_report()
    side_by_side = [page.locator(f"#explorer-{view}").bounding_box() for view in VIEWS]
    assert side_by_side[0]["y"] == side_by_side[1]["y"]
    page.set_viewport_size({"width": 360, "height": 800})

    def stacked():
        first, second = (page.locator(f"#explorer-{view}").bounding_box() for view in VIEWS)
        below = second["y"] >= first["y"] + first["height"]
        return below and all(box["width"] > 280 and box["x"] + box["width"] <= 360 for box in (first, second))

    wait_until(stacked, "one grid was below the other, both in the window")
    to_explorer(page)
    hover(page, "focused", 9)
    arrived(page, position=9)


@pytest.mark.parametrize("options", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_has_contrast(open_report, scheme, options):
    page = open_report(color_scheme=scheme, **options)
    texts = page.evaluate(
        """() => {
          const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          const found = [];
          for (let node = walker.nextNode(); node; node = walker.nextNode()) {
            let element = node.parentElement;
            if (!node.data.trim() || !element.checkVisibility({ visibilityProperty: true })) continue;
            if (element.closest("script, style, noscript")) continue;
            const colour = getComputedStyle(element).color;
            let back = "rgba(0, 0, 0, 0)";
            for (; element && back === "rgba(0, 0, 0, 0)"; element = element.parentElement) {
              back = getComputedStyle(element).backgroundColor;
            }
            found.push([node.data.trim().slice(0, 40), colour, back]);
          }
          return found;
        }"""
    )
    assert len(texts) > 100

    def luminance(colour):
        values = np.array([float(part) for part in colour[colour.index("(") + 1 : -1].split(",")][:3]) / 255
        linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    dark = luminance(texts[0][2]) < 0.1
    assert dark == (scheme == "dark")
    for text, colour, back in texts:
        low, high = sorted([luminance(colour), luminance(back)])
        assert (high + 0.05) / (low + 0.05) >= 4.5, (text, colour, back)


def test_the_frames_follow_the_colour_scheme(open_report):
    page = open_report()
    light = variable(page, "--same")
    page.emulate_media(color_scheme="dark")
    dark = variable(page, "--same")
    assert light != dark
    wait_until(lambda: has_colour(grid(page, "focused"), dark), "the page had heard of it")
    assert not has_colour(grid(page, "focused"), light)


def test_nothing_moves_by_itself(open_report):
    page = open_report(reduced_motion="reduce")
    hover(page, "focused", 3)
    assert page.evaluate("document.getAnimations().length") == 0


def test_on_paper_all_is_black_on_white_and_fits(open_report):
    page = open_report(color_scheme="dark")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 680, "height": 960})
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 680

    def apart():
        focused, blurred = (page.locator(f"#explorer-{view} canvas").bounding_box() for view in VIEWS)
        return focused["x"] + focused["width"] <= blurred["x"]

    wait_until(apart, "the canvases had followed the width of the paper")


# Numbers


def test_numbers_in_the_tables_are_those_of_the_results(open_report):
    page = open_report()
    results = make_results()
    for regime in results["time"]:
        table = page.get_by_role("region", name=f"Methods: {regime['title']}").locator("tbody tr")
        reached = {entry["key"]: entry for entry in regime["reached"]}
        for row, method in zip(table.all(), regime["methods"], strict=True):
            cells = [text.strip() for text in row.locator("th, td").all_inner_texts()]
            last = method["curve"][-1]
            assert cells[0] == method["name"]
            assert (int(cells[1]), int(cells[2])) == (method["iterations"], method["runs"])
            assert float(cells[3]) == pytest.approx(method["seconds"], rel=5e-3)
            names = ("train_nonzeros", "train_error", "held_nonzeros", "held_error")
            for text, name in zip(cells[4:8], names, strict=True):
                assert float(text) == pytest.approx(last[name], rel=1e-3)
            after = reached[method["key"]]
            if after["seconds"] is None:
                assert cells[8] == "not reached"
            else:
                assert float(cells[8].split()[0]) == pytest.approx(after["seconds"], rel=5e-3)
                assert float(cells[9][:-1]) == pytest.approx(after["ratio"], rel=5e-3)
    for bar, mode in zip(page.locator(".bars li").all(), ("together", "separate"), strict=False):
        share = results["pairs"][mode]["same_index_share"]
        whole, part = (bar.locator(name).bounding_box()["width"] for name in (".bar", ".bar i"))
        assert part / whole == pytest.approx(share, abs=0.01)
        assert bar.locator("strong").inner_text() == f"{100 * share:.1f}{SPACE}%"
