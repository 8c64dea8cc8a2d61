"""The report as a file: what it says, what it escapes, what it does without, and that it needs nothing else."""

from __future__ import annotations

import base64
import copy
import hashlib
import os
import re

import numpy as np
import pytest

from coupledict.report import _numbers, write_report
from support.html import Page, explorer_data
from support.report_results import FIGURES, N_ATOMS, N_PATCHES, make_dictionaries, make_figures, make_results, png

HOSTILE = "</script><script>alert(1)</script><!--\"'><img src=x onerror=alert(1)>&amp;\\u003c"
SPACE = "\N{NO-BREAK SPACE}"
DASH = "\N{EN DASH}"
TIMES = "\N{MULTIPLICATION SIGN}"


@pytest.fixture
def write(tmp_path):
    def write(results=None, dictionaries=None, figures=None, **options):
        dictionaries = make_dictionaries() if dictionaries is None else dictionaries
        results = make_results() if results is None else results
        figures = make_figures(tmp_path) if figures is None else figures
        write_report(tmp_path / "report.html", results, dictionaries, figures, **options)
        return (tmp_path / "report.html").read_text(encoding="utf-8")

    return write


def replace_strings(tree, text):
    """Return the tree with this text for every string, but for keys that name a figure or a method."""
    if isinstance(tree, dict):
        return {key: value if key == "key" else replace_strings(value, text) for key, value in tree.items()}
    if isinstance(tree, list):
        return [replace_strings(value, text) for value in tree]
    return text if isinstance(tree, str) else tree


def paths(tree, so_far=()):
    """Return the paths of all keys and, for lists of dicts, of their first entries."""
    found = [so_far] if so_far else []
    if isinstance(tree, dict):
        for key, value in tree.items():
            found += paths(value, (*so_far, key))
    if isinstance(tree, list) and tree and isinstance(tree[0], dict):
        found += paths(tree[0], (*so_far, 0))
    return found


def without(tree, path):
    tree = copy.deepcopy(tree)
    place = tree
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    return tree


# One file that needs no other


def test_the_page_is_whole_html(write):
    text = write()
    page = Page(text)
    assert text.startswith('<!doctype html>\n<html lang="en"><head><meta charset="utf-8">')
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.all("meta")
    assert len(page.all("title")) == len(page.all("h1")) == len(page.all("main")) == 1
    names = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(names)) == len(names)
    for anchor in page.all("a"):
        if anchor["href"].startswith("#"):
            assert anchor["href"][1:] in names
    for image in page.all("img"):
        assert image["alt"]
        assert (image["width"], image["height"]) == ("1200", "300")


def test_nothing_is_asked_of_the_network(write):
    text = write()
    page = Page(text)
    assert not {tag for tag, _ in page.elements} & {"link", "iframe", "object", "embed", "base", "form", "video"}
    sources = [attributes["src"] for _, attributes in page.elements if "src" in attributes]
    assert len(sources) == len(FIGURES)
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    outside = {a["href"] for a in page.all("a") if not a["href"].startswith(("#", "./"))}
    assert outside == {"https://doi.org/10.1109/LSP.2019.2934045"}
    assert len(re.findall(r"https?:", text)) == 1
    for word in ("url(", "@import", "fetch(", "XMLHttpRequest", "WebSocket", "import(", "srcset"):
        assert word not in text


def test_the_policy_allows_our_script_and_nothing_else(write):
    text = write()
    (policy,) = [m["content"] for m in Page(text).all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    parts = dict(part.split(" ", 1) for part in policy.split("; "))
    assert parts["default-src"] == "'none'"
    assert parts["img-src"] == "data:"
    (script,) = re.findall(r"<script>(.*?)</script>", text, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert parts["script-src"] == f"'sha256-{digest}'"


def test_hostile_text_stays_text(write, tmp_path):
    harmless, hostile = Page(write()), Page(write(replace_strings(make_results(), HOSTILE)))
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in harmless.elements]
    assert hostile.text.count(HOSTILE) > 30
    figures = {"pairs": tmp_path / "a \"'<b>&#.png"}
    figures["pairs"].write_bytes(png())
    page = Page(write(figures=figures, data_file='<i>".json'))
    links = {a["href"] for a in page.all("a")}
    assert {"./a%20%22%27%3Cb%3E%26%23.png", "./%3Ci%3E%22.json"} <= links
    assert page.all("b") == harmless.all("b")


def test_hostile_keys_and_names_of_packages_stay_text(write):
    results = make_results()
    results["versions"] = {HOSTILE: HOSTILE}
    results["time"][0]["key"] = HOSTILE
    page = Page(write(results))
    assert len(page.all("script")) == 2
    assert HOSTILE in page.text


def test_hostile_figures_of_atoms_stay_in_their_block(write):
    results = make_results()
    results["pairs"]["together"]["atoms"]["gain"] = [HOSTILE] * N_ATOMS
    text = write(results)
    assert len(Page(text).all("script")) == 2
    assert explorer_data(text)["modes"]["together"]["facts"]["gain"] == [HOSTILE] * N_ATOMS


def test_bytes_in_the_command_that_are_no_text_do_no_harm(write):
    assert "--data a?b" in write(make_results() | {"command": "--data a\udcffb"})


# What it says


def test_the_head_tells_what_was_run_on_which_data(write):
    text = Page(write()).text
    assert "coupledict 0.1.0" in text
    assert "Bundled images with a synthetic blur." in text
    assert "No real pairs." in text
    assert f"Run on 3{SPACE}May 2025, 14:05 UTC, took 3{SPACE}min 23{SPACE}s, on Example CPU at 2.80 GHz." in text
    assert "A quick run" in text
    assert "its claims about them are left open" in text
    assert "A quick run." not in Page(write(make_results() | {"quick": False})).text


def test_claims_have_marks_in_words(write):
    page = Page(write())
    marks = [text for text in page.texts if text in ("Holds", "Does not hold", "Too small to tell here")]
    assert marks == ["Too small to tell here", "Holds", "Does not hold", "Holds", "Does not hold"]
    assert (
        "Of the 4 claims of the paper that this run can decide, 2 hold. For 1 claim more it is too small to tell."
        in page.text
    )
    for part in ("Claim 1 of the paper.", "11 s against 28 s, ratio 2.5", "1.25 s against 13.2 s"):
        assert part in page.text


def test_a_verdict_that_is_no_boolean_decides_nothing(write):
    results = make_results() | {"time": []}
    results["claims"][0]["holds"] = "yes"
    assert "For 1 claim of the paper it is too small to tell." in Page(write(results)).text


def test_numbers_of_the_pairs(write):
    page = Page(write())
    share = f"{100 / N_ATOMS:.1f}{SPACE}%"
    label = "Atoms whose best partner has the same number"
    assert page.row(label) == [[f"100.0{SPACE}%", f"0.0{SPACE}%", share]]
    assert page.row("Energy of the patches that the codes explain") == [[f"92.1{SPACE}%", f"92.1{SPACE}%", DASH]]
    assert page.row("Time to learn") == [[f"0.610{SPACE}s", f"1.61{SPACE}s", DASH]]
    for part in ("20,000 pairs of patches", f"8 {TIMES} 8 pixels", "27 atoms", "30 iterations"):
        assert part in page.text
    assert f"It explains 98.7{SPACE}% of the energy" in page.text


def test_numbers_of_the_methods(write):
    page = Page(write())
    expected = ["4", "5", "13.3", "13.10", "0.06600", "13.60", "0.06900", f"13.3{SPACE}s", f"1.0{TIMES}", DASH]
    assert page.row("exact K-SVD") == [expected] * 2
    paper = ["8", "5", "2.86", "14.11", "0.07112", "14.67", "0.07448", "not reached", DASH, DASH]
    assert page.row("the paper") == [paper] * 2
    assert page.row("coupledict, default")[0][-3:] == [f"0.0512{SPACE}s", f"259{TIMES}", f"40.0{TIMES}"]
    assert page.row("SPAMS") == [["1.92", "12.34", "0.07125", "12.87", "0.07350"]] * 2
    assert "Not installed, so not measured: dictlearn." in page.text
    assert "K-SVD ends at 13.10 nonzeros (sparse)." in page.text
    for part in ("10,000 patches", "5,000 held out", "T = 32", "ε = 4", "ε = 45", "medians of up to 3 runs"):
        assert part in page.text


def test_the_last_measured_point_counts(write):
    results = make_results()
    curve = results["time"][0]["methods"][0]["curve"]
    curve[-1] |= {"held_nonzeros": None, "held_error": float("nan")}
    for point in curve:
        del point["train_nonzeros"]
    row = Page(write(results)).row("exact K-SVD")[0]
    assert row[3:7] == ["13.00", "0.06600", f"{12.6 + 4 / 3:.2f}", f"{0.064 + 0.02 / 3:.5f}"]


def test_how_it_was_measured(write):
    text = Page(write()).text
    for part in ("coupledict reproduce --output output/reproduce", "avx2", "12345", "1.17.1", "eighth iteration"):
        assert part in text


@pytest.mark.parametrize(
    ("write_number", "value", "expected"),
    [
        (_numbers.significant, 0.0, "0"),
        (_numbers.significant, 0.9996, "1.00"),
        (_numbers.significant, 9.995, "9.99"),
        (_numbers.significant, 99.96, "100"),
        (_numbers.significant, 1234.5, "1,234"),
        (_numbers.significant, -0.001234, "-0.00123"),
        (_numbers.significant, 1.234e-9, "1.23e-09"),
        (_numbers.significant, 7, "7.00"),
        (_numbers.seconds, 59.96, f"60.0{SPACE}s"),
        (_numbers.seconds, 119.6, f"2{SPACE}min 0{SPACE}s"),
        (_numbers.count, 20_000, "20,000"),
        (_numbers.count, np.int64(1234), "1,234"),
        (_numbers.share, 0.99951, f"100.0{SPACE}%"),
        (_numbers.times, 2.46, f"2.5{TIMES}"),
        (_numbers.times, 142.4, f"142{TIMES}"),
        (_numbers.fixed, np.float32(0.5), "0.50"),
        (_numbers.fixed, float("nan"), DASH),
        (_numbers.fixed, float("inf"), DASH),
        (_numbers.fixed, None, DASH),
        (_numbers.fixed, True, DASH),
        (_numbers.fixed, [1], DASH),
        (_numbers.fixed, "about 3", "about 3"),
        (_numbers.date, "2025-05-03T04:05:12", f"3{SPACE}May 2025, 04:05"),
        (_numbers.date, "yesterday", "yesterday"),
        (_numbers.date, None, ""),
    ],
)
def test_numbers_are_written_as_people_do(write_number, value, expected):
    assert write_number(value) == expected


# What it does without


@pytest.mark.parametrize("path", paths(make_results()), ids=lambda path: ".".join(map(str, path)))
def test_any_key_may_be_missing(write, path):
    text = Page(write(without(make_results(), path), figures={})).text
    assert not re.search(r"\bNone\b|\bnan\b|\{|\}", text)


def test_nothing_at_all_is_a_page_too(write):
    page = Page(write({}, figures={}, data_file=None))
    assert "This run tested no claim of the paper." in page.text
    assert not page.all("img")
    assert not [a for a in page.all("a") if a["href"] == "#time"]


def test_values_that_were_not_measured_are_dashes(write):
    def empty(tree):
        if isinstance(tree, dict):
            return {key: empty(value) for key, value in tree.items()}
        if isinstance(tree, list):
            return [empty(value) for value in tree]
        return float("nan") if isinstance(tree, float) else tree

    page = Page(write(empty(make_results())))
    assert page.row("exact K-SVD")[0] == ["4", "5", *[DASH] * 5, "not reached", DASH, DASH]
    assert "nan" not in page.text


@pytest.mark.parametrize("value", [None, "text", 3, ["text"], {"a": 1}])
@pytest.mark.parametrize("key", ["time", "claims", "pairs", "machine", "versions", "data", "notes"])
def test_a_value_of_another_kind_does_no_harm(write, key, value):
    Page(write(make_results() | {key: value}))


def test_peers_may_be_absent(write):
    results = make_results()
    for regime in results["time"]:
        regime["peers"], regime["peers_missing"] = [], []
    assert "Other implementations" not in Page(write(results, figures={})).text


# Figures


def test_figures_beside_the_page_are_linked(write, tmp_path):
    (tmp_path / "figures").mkdir()
    figures = make_figures(tmp_path / "figures", ["pairs"])
    figures["correlations"] = tmp_path / "correlations.png"
    figures["correlations"].write_bytes(png())
    figures["peers"] = None
    links = [a["href"] for a in Page(write(figures=figures)).all("a")]
    for address, times in [("./figures/pairs.png", 2), ("./figures/pairs.svg", 2), ("./correlations.png", 2)]:
        assert links.count(address) == times
    assert "./correlations.svg" not in links
    assert "./results.json" in links


def test_figures_elsewhere_are_shown_without_telling_where(write, tmp_path):
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    text = write(figures=make_figures(elsewhere, ["pairs"]))
    assert len(Page(text).all("img")) == 1
    assert elsewhere.name not in text
    assert "./pairs.png" not in text


def test_a_picture_is_inlined_to_the_byte(write, tmp_path):
    figures = {"time_sparse": tmp_path / "a.png"}
    figures["time_sparse"].write_bytes(png(5, 3))
    (image,) = Page(write(figures=figures)).all("img")
    assert base64.b64decode(image["src"].partition(",")[2]) == png(5, 3)
    assert (image["width"], image["height"]) == ("5", "3")


def test_a_figure_that_is_no_png_is_refused(write, tmp_path):
    (tmp_path / "a.png").write_text("not a picture, but long enough to be one")
    with pytest.raises(ValueError, match=r"Expected '.*a\.png' to be a PNG file"):
        write(figures={"pairs": tmp_path / "a.png"})


# The data of the explorer


def test_atoms_are_bytes_about_mid_grey(write):
    atoms = np.zeros((3, 64))
    atoms[0, :3] = [-2.0, 1.0, 2.0]
    atoms[1, 5] = 0.2
    faint = atoms.copy()
    faint[1, 5] = 1e-30
    dictionaries = {"together": [atoms, -atoms], "separate": [atoms, faint]}
    data = explorer_data(write({}, dictionaries))
    levels = np.frombuffer(base64.b64decode(data["modes"]["together"]["atoms"][0]), np.uint8).reshape(3, 64)
    assert levels[0, :4].tolist() == [0, 191, 255, 128]
    assert levels[1, 5] == 255
    assert set(levels[2]) == {128}
    pale = np.frombuffer(base64.b64decode(data["modes"]["separate"]["atoms"][1]), np.uint8).reshape(3, 64)
    assert set(pale[1]) == {128}, "what nearly vanishes beside the others is not made large"
    turned = np.frombuffer(base64.b64decode(data["modes"]["together"]["atoms"][1]), np.uint8).reshape(3, 64)
    assert turned[0, :4].tolist() == [255, 64, 0, 128]


def test_atoms_are_ordered_by_use_then_by_correlation(write):
    results = make_results()
    data = explorer_data(write(results))["modes"]
    for mode in ("together", "separate"):
        known = results["pairs"][mode]["atoms"]
        for key in ("use", "correlation"):
            order = data[mode]["orders"][key]
            assert sorted(order) == list(range(N_ATOMS))
            values = [known[key][t] for t in order]
            assert values == sorted(values, reverse=True)
        assert data[mode]["best"] == known["best"]


def test_what_is_known_of_each_atom_is_told(write):
    results = make_results()
    known = results["pairs"]["separate"]["atoms"]
    facts = explorer_data(write(results))["modes"]["separate"]["facts"]
    use = known["use"][4]
    assert facts["use"][4] == f"{use:,}{SPACE}({100 * use / N_PATCHES:.1f}{SPACE}%)"
    assert facts["gain"][4] == f"{known['gain'][4]:.2f}"
    assert facts["correlation"][4] == f"{known['correlation'][4]:.2f}"
    assert facts["blurred"][4] == f"{known['norms'][1][4]:.2f}"
    assert facts["best"][4] == f"atom{SPACE}5"
    assert explorer_data(write(results))["modes"]["together"]["facts"]["best"][4] == "the same number"


@pytest.mark.parametrize("change", ["read-only", "float32", "columns", "integers", "tuple"])
def test_dictionaries_of_any_make(write, change):
    rng = np.random.default_rng(0)
    whole = rng.integers(-9, 9, (6, 64)).astype(float)
    pair = [whole, whole + 1]
    expected = explorer_data(write({}, {"together": pair, "separate": pair}))
    made = {
        "read-only": lambda a: np.frombuffer(a.tobytes()).reshape(a.shape),
        "float32": lambda a: a.astype(np.float32),
        "columns": np.asfortranarray,
        "integers": lambda a: a.astype(np.int8),
        "tuple": lambda a: a.tolist(),
    }[change]
    other = tuple(made(atoms) for atoms in pair)
    assert explorer_data(write({}, {"together": other, "separate": other})) == expected


def test_oblong_patches(write):
    pair = [np.eye(3, 12)] * 2
    data = explorer_data(write({"pairs": {"patch_size": (3, 4)}}, {"together": pair, "separate": pair}))
    assert [(view["height"], view["width"]) for view in data["views"]] == [(3, 4)] * 2


def bad(**changes):
    return make_dictionaries() | changes


ATOMS = np.ones((4, 64))


@pytest.mark.parametrize(
    ("dictionaries", "message"),
    [
        ([ATOMS, ATOMS], "keys ['together', 'separate'], got list"),
        ({"together": [ATOMS, ATOMS]}, "keys ['together', 'separate'], got ['together']"),
        (bad(separate=[ATOMS]), "dictionaries['separate'] to be a list of 2 arrays, focused and blurred atoms, got 1"),
        (bad(separate=ATOMS), "list of 2 arrays, focused and blurred atoms, got ndarray"),
        (bad(together=[ATOMS, ATOMS[0]]), "dictionaries['together'][1] to have 2 dimensions, got 1"),
        (bad(together=[ATOMS, ATOMS[:3]]), "dictionaries['together'] to have one shape, got (4, 64), (3, 64)"),
        (bad(together=[ATOMS[:0], ATOMS[:0]]), "dictionaries['together'][0] to hold at least one atom"),
        (bad(together=[ATOMS, ATOMS * np.nan]), "dictionaries['together'][1] to be finite, got NaN"),
        (bad(together=[ATOMS, ATOMS * np.inf]), "to be finite"),
        (bad(together=[ATOMS[:, :60], ATOMS[:, :60]]), "height and width of atoms with 60 features, got [8, 8]"),
        (
            bad(separate=[ATOMS[:, :49], ATOMS[:, :49]]),
            "the same number of features in all dictionaries, got 64 and 49",
        ),
        (bad(together=[ATOMS, ATOMS]), "['together']['atoms']['use'] to hold 4 figures, one per atom, got 27"),
    ],
)
def test_bad_dictionaries_are_refused(write, dictionaries, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        write(dictionaries=dictionaries)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("best", [N_ATOMS] * N_ATOMS, "['best'] to hold numbers of atoms from 0 to 26"),
        ("best", [-1] * N_ATOMS, "['best'] to hold numbers of atoms from 0 to 26"),
        ("best", [0.5] * N_ATOMS, "['best'] to hold numbers of atoms from 0 to 26"),
        ("norms", [[1.0] * N_ATOMS], "['norms'] to hold 2 lists, one per view, got 1"),
        ("norms", [[1.0] * N_ATOMS, [1.0]], "['norms'][1] to hold 27 figures, one per atom, got 1"),
        ("gain", "many", "['gain'] to hold 27 figures, one per atom, got str"),
    ],
)
def test_bad_figures_of_atoms_are_refused(write, key, value, message):
    results = make_results()
    results["pairs"]["separate"]["atoms"][key] = value
    with pytest.raises(ValueError, match=re.escape(message)):
        write(results)


@pytest.mark.parametrize("shape", [(8, 9), (64,), "88", (8.0, 8.0), (-8, -8), 8])
def test_a_bad_patch_size_is_refused(write, shape):
    results = make_results()
    results["pairs"]["patch_size"] = shape
    with pytest.raises(ValueError, match="height and width of atoms with 64 features"):
        write(results)


def test_results_and_figures_of_another_kind_are_refused(tmp_path):
    with pytest.raises(TypeError, match="Expected results to be a dict, got list"):
        write_report(tmp_path / "report.html", [], make_dictionaries(), {})
    with pytest.raises(TypeError, match="Expected figures to be a dict of names and paths, got list"):
        write_report(tmp_path / "report.html", {}, make_dictionaries(), [])


# The file


def test_inputs_stay_as_they_were(write):
    results, dictionaries = make_results(), make_dictionaries()
    write(results, dictionaries)
    assert results == make_results()
    for mode, pair in make_dictionaries().items():
        np.testing.assert_array_equal(dictionaries[mode], pair)


def test_the_same_run_gives_the_same_page(write):
    assert write() == write()


def test_a_failure_leaves_the_old_page(write, tmp_path, monkeypatch):
    old = write()
    files = sorted(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        write(figures={"pairs": tmp_path / "missing.png"})

    def fail(*_):
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="the disk is full"):
            write({})
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == old
    assert sorted(tmp_path.iterdir()) == files
    assert write({}) != old


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="to exist, got no such folder"):
        write_report(tmp_path / "missing" / "report.html", {}, make_dictionaries(), {})


def test_claims_that_are_not_the_papers_are_marked_and_not_counted(write):
    results = make_results()
    before = Page(write(results)).text
    results["claims"].append(
        {"claim": "Ours is a wonder.", "paper": "our goal", "measured": "so it is", "holds": True, "ours": True}
    )
    page = Page(write(results)).text
    assert "In addition to the paper" not in before
    assert "In addition to the paper" in page
    tally = re.search(r"Of the \d+ claims of the paper that this run can decide, \d+ hold", before)[0]
    assert tally in page


def test_all_methods_of_the_first_experiment_are_shown(write):
    results = make_results()
    results["pairs"]["variants"] = [
        {"method": "a method", "how": "separate", "same_index_share": 0.125, "median_same": 0.5, "median_rank": 7.0,
         "twins": [3, 114], "explained": 0.9}
    ]  # fmt: skip
    page = Page(write(results))
    assert page.row("a method") == [["separately", f"12.5{SPACE}%", "0.50", "7", "3", "114", f"90.0{SPACE}%"]]


def test_pictures_of_the_run_come_first(write, tmp_path):
    results, figures = make_results(), make_figures(tmp_path)
    results["pictures"] = [{"name": "view", "alt": "Hills and <trees>.", "caption": "What was seen."}]
    figures["view"] = tmp_path / "view.png"
    figures["view"].write_bytes(png(6, 4))
    text = write(results, figures=figures)
    page = Page(text)
    first = next(attributes for tag, attributes in page.elements if tag == "img")
    assert (first["alt"], first["width"]) == ("Hills and <trees>.", "6")
    assert page.text.index("What was seen.") < page.text.index("claims of the paper that this run can decide")
    assert 'href="#first"' in text
    assert "A first look" not in Page(write()).text


def test_what_a_run_could_not_decide_is_behind_a_line_that_counts_it(write):
    results = make_results()
    results["claims"] = [
        {"claim": f"Claim {number}.", "holds": holds, "why": f"Reason {number}."}
        for number, holds in enumerate((None, True, None))
    ]
    text = write(results)
    before, inside = text.split("2 claims that this run is too small to tell")
    assert "Claim 1." in before
    assert "Claim 0." not in before
    details = inside.split("</details>")[0]
    for part in ("Claim 0.", "Claim 2.", "Reason 0."):
        assert part in details
