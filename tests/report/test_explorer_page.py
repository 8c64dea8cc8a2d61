"""The page that explores the atoms of any model: what it holds, and how it works in a real browser."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest

from coupledict.report import explorer_page
from support.browsing import pixels
from support.html import Page, explorer_data
from support.waiting import wait_until

pytestmark = pytest.mark.slow

HOSTILE = "</script><script>alert(1)</script><!--\"'><img src=x onerror=alert(1)>"
N_ATOMS = 10
COLUMNS = 4  # of the grid of 10 atoms


@pytest.fixture
def views(rng):
    """Grey patches, colour patches, and curves."""
    return [rng.standard_normal((N_ATOMS, n)) for n in (16, 27, 10)]


def unpacked(data, view):
    return np.frombuffer(base64.b64decode(data["modes"]["model"]["atoms"][view]), np.uint8).reshape(N_ATOMS, -1)


def test_the_page_is_whole_and_asks_for_nothing(views):
    text = explorer_page(views, title="A model")
    page = Page(text)
    assert page.all("title")
    assert len(re.findall(r"https?:", text)) == 0
    (policy,) = [m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    names = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(names)) == len(names)
    assert "10 atoms in 3 views." in page.text
    assert "Atoms of norms from " in page.text
    units = [view / np.linalg.norm(view, axis=1, keepdims=True) for view in views]
    assert "Atoms of norm 1 in each view." in Page(explorer_page(units, title="")).text
    joint = [view / np.sqrt(3) for view in units]
    assert "Atoms of norm 1 over all views together." in Page(explorer_page(joint, title="")).text


def test_hostile_titles_and_names_stay_text(views):
    harmless = Page(explorer_page(views, title="a", names=["b", "c", "d"]))
    hostile = Page(explorer_page(views, title=HOSTILE, names=[HOSTILE] * 3))
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in harmless.elements]
    assert hostile.text.count(HOSTILE) > 6


@pytest.mark.parametrize(
    ("n_features", "given", "expected"),
    [
        (64, None, {"height": 8, "width": 8, "channels": 1}),
        (27, None, {"height": 3, "width": 3, "channels": 3}),
        (10, None, {"length": 10}),
        (4, None, {"length": 4}),
        (1, None, {"length": 1}),
        (64, (4, 16), {"height": 4, "width": 16, "channels": 1}),
        (64, (64,), {"length": 64}),
        (12, [(2, 2, 3)], {"height": 2, "width": 2, "channels": 3}),
        (9, [None], {"height": 3, "width": 3, "channels": 1}),
    ],
)
def test_atoms_are_patches_or_curves(n_features, given, expected):
    data = explorer_data(explorer_page([np.ones((2, n_features))], title="", patch_size=given))
    assert data["views"] == [{"key": "view-0", **expected}]


def test_each_atom_has_its_own_scale(views):
    data = explorer_data(explorer_page(views, title=""))
    for v, view in enumerate(views):
        expected = np.rint(127.5 + 127.5 * view / np.abs(view).max(axis=1, keepdims=True))
        np.testing.assert_array_equal(unpacked(data, v), expected)


def test_orders_and_facts_are_what_is_known(rng):
    one, other, use = rng.standard_normal((N_ATOMS, 9)), rng.standard_normal((N_ATOMS, 9)), np.arange(N_ATOMS)[::-1] % 7
    mode = explorer_data(explorer_page([one, other], title="", use=use))["modes"]["model"]
    cosines = [abs(a @ b) / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(one, other, strict=True)]
    assert set(mode["orders"]) == {"use", "correlation", "number"}
    assert [use[t] for t in mode["orders"]["use"]] == sorted(use, reverse=True)
    assert mode["orders"]["correlation"] == np.argsort(cosines)[::-1].tolist()
    assert mode["facts"]["norm-1"] == [f"{np.linalg.norm(atom):.2f}" for atom in other]
    assert mode["facts"]["correlation-1"] == [f"{cosine:.2f}" for cosine in cosines]
    single = explorer_data(explorer_page([one], title=""))["modes"]["model"]
    assert set(single["orders"]) == {"number"}
    assert set(single["facts"]) == {"norm-0"}


def test_an_atom_of_zeros_has_no_correlation():
    mode = explorer_data(explorer_page([np.eye(3, 9), np.zeros((3, 9))], title=""))["modes"]["model"]
    assert mode["facts"]["correlation-1"] == ["\N{EN DASH}"] * 3


@pytest.mark.parametrize(
    ("dictionaries", "settings", "message"),
    [
        ([], {}, "one or more arrays"),
        (np.ones((2, 3)), {}, "got ndarray"),
        ([np.ones((2, 3)), np.ones((3, 3))], {}, r"the same number of atoms in every dictionary, got \[2, 3\]"),
        ([np.full((2, 3), np.nan)], {}, "finite"),
        ([np.ones((0, 3))], {}, "at least one atom"),
        ([np.ones((2, 9))], {"patch_size": (2, 4)}, "a product of 9 features"),
        ([np.ones((2, 8))], {"patch_size": (2, 2, 2)}, "a product of 8 features"),
        ([np.ones((2, 9))], {"patch_size": [(3, 3), (3, 3)]}, "a list of 1 sizes"),
        ([np.ones((2, 9))], {"names": ["a", "b"]}, "names to hold 1"),
        ([np.ones((2, 9))], {"use": [1, 2, 3]}, "use to hold 2 numbers"),
    ],
)
def test_what_does_not_fit_is_refused(dictionaries, settings, message):
    with pytest.raises(ValueError, match=message):
        explorer_page(dictionaries, title="", **settings)


# In a browser


@pytest.fixture
def open_page(open_file, tmp_path):
    def open_page(dictionaries, options=None, **settings):
        (tmp_path / "atoms.html").write_text(explorer_page(dictionaries, title="Atoms", **settings), encoding="utf-8")
        return open_file((tmp_path / "atoms.html").as_uri(), **(options or {}))

    return open_page


def lit(page):
    return [int(n) for n in page.evaluate("[...document.querySelectorAll('.atoms')].map((grid) => grid.dataset.lit)")]


def lights(page, expected):
    """Wait until the grids light these atoms."""
    wait_until(lambda: lit(page) == expected, f"{expected} were lit")


def point(page, view, position, count=N_ATOMS):
    page.locator(f"#explorer-view-{view}").scroll_into_view_if_needed()
    box = page.locator(f"#explorer-view-{view}").bounding_box()
    row, column = divmod(position, COLUMNS)
    rows = -(-count // COLUMNS)
    return box["x"] + (column + 0.5) * box["width"] / COLUMNS, box["y"] + (row + 0.5) * box["height"] / rows


def test_pointing_at_an_atom_lights_it_in_all_views(open_page, views):
    page = open_page(views, names=["Grey", "Colour", "Curves"])
    for view, position in ((0, 5), (1, 2), (2, 9)):
        page.mouse.move(*point(page, view, position))
        lights(page, [position] * 3)
        assert page.locator("#explorer-number").inner_text() == str(position)
    assert page.locator(".tiles figcaption").all_inner_texts() == ["Grey", "Colour", "Curves"]
    assert not page.locator(".switch").is_visible()
    assert not page.locator(".order").is_visible()


@pytest.mark.parametrize("n_views", [1, 2, 3])
def test_keys_and_buttons_move(open_page, views, n_views):
    page = open_page(views[:n_views])
    for key, position in (("ArrowDown", 4), ("ArrowRight", 5), ("Control+End", 9), ("Home", 8), ("ArrowUp", 4)):
        page.locator(f"#explorer-view-{n_views - 1}").press(key)
        lights(page, [position] * n_views)
    page.locator("#explorer-next").click()
    lights(page, [5] * n_views)


def test_tiles_show_the_entries_of_patches_in_grey_and_colour(open_page, views):
    page = open_page(views)
    page.locator("#explorer-view-0").press("ArrowRight")
    for v, shape in ((0, (4, 4, 1)), (1, (3, 3, 3))):
        drawn = pixels(page, f"#explorer-large-view-{v}")
        size = drawn.shape[0] / shape[0]
        middle = ((np.arange(shape[0]) + 0.5) * size).astype(int)
        atom = views[v][1]
        expected = np.rint(127.5 + 127.5 * atom / np.abs(atom).max()).reshape(shape)
        np.testing.assert_array_equal(
            drawn[np.ix_(middle, middle)][..., :3], np.broadcast_to(expected, (*shape[:2], 3))
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_curves_follow_the_values_and_the_colours_of_the_page(open_page, scheme):
    ramp = np.linspace(-1, 1, 50)
    page = open_page([np.stack([ramp, -ramp])], {"color_scheme": scheme})
    found = []
    for key in ("Home", "End"):
        page.locator("#explorer-view-0").press(key)
        drawn = pixels(page, "#explorer-large-view-0")[..., :3].astype(float).mean(axis=2)
        background = np.median(drawn)
        assert (background > 128) == (scheme == "light")
        ink = np.abs(drawn - background) > 100
        columns = (np.array([0.1, 0.9]) * drawn.shape[1]).astype(int)
        found.append([np.flatnonzero(ink[:, c]).mean() / drawn.shape[0] for c in columns])
    np.testing.assert_allclose(found, [[0.9, 0.1], [0.1, 0.9]], atol=0.06)


def test_curves_are_drawn_again_when_the_colours_change(open_page, rng):
    page = open_page([rng.standard_normal((4, 50))])

    def background():
        return int(np.median(pixels(page, "#explorer-view-0 canvas")[..., 0]))

    assert background() > 200
    page.emulate_media(color_scheme="dark")
    wait_until(lambda: background() < 60, "the page had heard of it")


@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize("width", [320, 768, 1280])
def test_the_page_never_scrolls_sideways(open_page, views, width, n_views):
    page = open_page(views[:n_views], {"viewport": {"width": width, "height": 800}})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = [page.locator(f"#explorer-view-{v}").bounding_box() for v in range(n_views)]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
    assert min(box["width"] for box in boxes) > 150


def test_orders_can_be_chosen(open_page, rng):
    use = list(range(N_ATOMS))
    page = open_page([rng.standard_normal((N_ATOMS, 9))] * 2, use=use)
    lights(page, [N_ATOMS - 1] * 2)
    page.locator("#explorer-order").select_option("number")
    page.locator("#explorer-view-0").press("Control+Home")
    lights(page, [0, 0])


def test_what_is_packed_is_plain_json(views):
    text = explorer_page(views, title=HOSTILE, names=["a", "b", HOSTILE])
    assert json.dumps(explorer_data(text)).count("alert") == 0
