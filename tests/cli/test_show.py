"""``coupledict show`` and ``info``, as a user runs them."""

from __future__ import annotations

import builtins
import io
import json
import sys
import tomllib
import unicodedata
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import coupledict
from coupledict.audio import BandwidthExtension
from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier
from coupledict.cli import _info, main
from coupledict.files import read_model, write_model
from coupledict.images import MultiFocusFusion, SuperResolution
from coupledict.matching import CrossModalMatcher
from support.command import call, refused


@pytest.fixture
def model(tmp_path, rng):
    first = rng.standard_normal((60, 16))
    views = [first, first[:, :7] + 0.1 * rng.standard_normal((60, 7))]
    learner = coupledict.CoupledDictionaryLearning(12, n_nonzero_coefs=2, max_iter=2, random_state=0).fit(views)
    learner.save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def test_a_model_is_told_to_people_and_to_machines(model):
    done = call("show", model)
    assert done.returncode == 0, done.stderr
    lines = dict(line.split("  ", 1) for line in done.stdout.splitlines())
    facts = {key: value.strip() for key, value in lines.items()}
    assert facts["kind"] == "CoupledDictionaryLearning"
    assert facts["atoms"] == "12"
    assert facts["view 0"] == "View 0: 16 features (patches of 4 x 4)"
    assert facts["view 1"] == "View 1: 7 features (curves)"
    assert facts["settings"] == "max_iter=2, n_components=12, n_nonzero_coefs=2, random_state=0"
    assert facts["learned"].startswith("2 iterations in ")
    reported = json.loads(call("show", model, "--json").stdout)
    assert [(view["n_features"], view["shape"]) for view in reported["views"]] == [(16, [4, 4]), (7, [7])]
    assert reported["parameters"] == {"n_components": 12, "n_nonzero_coefs": 2, "max_iter": 2, "random_state": 0}
    assert reported["learning"]["mean_nonzeros"] == coupledict.load(model).history_[-1]["mean_nonzeros"]


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_atoms_are_drawn(model, tmp_path, suffix):
    out = tmp_path / f"atoms{suffix}"
    done = call("show", model, "--atoms", out)
    assert done.returncode == 0, done.stderr
    if suffix == ".png":
        picture = np.asarray(Image.open(out).convert("L"))
        assert picture.shape == (960, 1800)
        patches, curves = picture[:, :900], picture[:, 900:]
        assert np.unique(patches).size > 50  # shades of grey
        assert 0.5 < (curves > 250).mean() < 0.999  # lines on white
    else:
        assert out.read_text().startswith("<?xml")
    assert "--force" in refused(call("show", model, "--atoms", out), code=3)
    assert call("show", model, "--atoms", out, "--force").returncode == 0


def test_a_page_explores_the_atoms(model, tmp_path):
    out = tmp_path / "atoms.html"
    done = call("show", model, "--html", out)
    assert done.returncode == 0, done.stderr
    assert f"Wrote {out}; open it in a browser." in done.stdout
    page = out.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "<h1>model.safetensors</h1>" in page
    assert "--force" in refused(call("show", model, "--html", out), code=3)


@pytest.mark.parametrize("command", ["show", "encode", "predict"])
def test_a_model_file_is_read_once(model, tmp_path, rng, command, monkeypatch):
    opened, seen = open, []

    def count(file, *given, **options):
        seen.append(str(file))
        return opened(file, *given, **options)

    np.save(tmp_path / "x.npy", rng.standard_normal((5, 16)))
    rest = {"show": [], "encode": ["-o", tmp_path / "c.npz"], "predict": ["--view", 1, "-o", tmp_path / "p.npy"]}
    given = [] if command == "show" else [tmp_path / "x.npy", "none"]
    monkeypatch.setattr(builtins, "open", count)
    assert call(command, model, *given, *rest[command]).returncode == 0
    assert seen.count(str(model)) == 1


def shape_told(model, *arguments):
    return [view["shape"] for view in json.loads(call("show", model, "--json", *arguments).stdout)["views"]]


def test_the_shape_of_atoms_is_asked_for_noted_or_guessed(model, tmp_path):
    assert shape_told(model) == [[4, 4], [7]]
    assert shape_told(model, "--patch", "curve") == [[16], [7]]
    tensors, metadata = read_model(model)
    noted = tmp_path / "noted"
    write_model(noted, tensors, metadata | {"made": {"patch_size": [[2, 8], None], "views": ["a", "b"]}})
    assert shape_told(noted) == [[2, 8], [7]]
    assert "view 0" in call("show", noted).stdout
    assert "a: 16 features (patches of 2 x 8)" in call("show", noted).stdout
    for odd in ([[3, 3], None], [1, 2], "squares", [["x"], None], {"a": 1}, [[16.5], []]):
        write_model(noted, tensors, metadata | {"made": {"patch_size": odd, "views": [3, None]}})
        assert shape_told(noted) == [[4, 4], [7]], odd
    assert "a product of 16 features" in refused(call("show", model, "--patch", "8x8"), code=1)
    for odd in ("8y8", "0", "4x4x4", "", "2x2x2x2"):
        assert "Expected --patch" in refused(call("show", model, "--patch", odd), code=2)


def test_bad_requests_are_one_sentence_each(model, tmp_path):
    (tmp_path / "text").write_text("no model")
    assert "truncated" in refused(call("show", tmp_path / "text"), code=1)
    assert "nothing" in refused(call("show", tmp_path / "nothing"), code=1)
    assert "--atoms to end in" in refused(call("show", model, "--atoms", tmp_path / "a.gif"), code=2)
    assert "make it first" in refused(call("show", model, "--html", tmp_path / "no" / "a.html"), code=1)
    assert "one of 1 sets" in refused(call("show", model, "--dictionary", "3"), code=1)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.safetensors", "text"]


def test_models_of_tasks_show_their_dictionaries(tmp_path, rng):
    X, y = rng.standard_normal((60, 16)), np.repeat(["ant", "bee"], 30)
    settings = {"n_components": 10, "n_nonzero_coefs": 2, "max_iter": 2, "random_state": 0}
    CoupledClassifier(n_dictionaries=2, **settings).fit([X, X[:, :5]], y).save(tmp_path / "classifier")
    SparseRepresentationClassifier(random_state=0).fit(X, y).save(tmp_path / "residuals")
    CrossModalMatcher(random_state=0).fit([X, X[:, :5]]).save(tmp_path / "matcher")
    SuperResolution.pretrained(2).save(tmp_path / "enlarger")
    BandwidthExtension.pretrained().save(tmp_path / "widener")
    MultiFocusFusion().save(tmp_path / "fusion")
    reported = {}
    for name in ("classifier", "residuals", "matcher", "enlarger", "widener", "fusion"):
        done = call("show", tmp_path / name, "--html", tmp_path / f"{name}.html", "--json")
        assert done.returncode == 0, (name, done.stderr)
        reported[name] = json.loads(done.stdout)
        assert (tmp_path / f"{name}.html").exists()
    assert reported["classifier"]["classes"] == ["ant", "bee"]
    assert reported["classifier"]["n_dictionaries"] == 2
    assert [view["name"] for view in reported["classifier"]["views"]] == ["View 0", "View 1", "Labels"]
    assert reported["residuals"]["classes"] == ["ant", "bee"]
    assert [view["name"] for view in reported["enlarger"]["views"]] == ["Looks for", "Adds"]
    assert all(len(view["shape"]) == 2 for view in reported["enlarger"]["views"])
    assert [view["name"] for view in reported["widener"]["views"]] == ["Low band", "High band"]
    assert all(len(view["shape"]) == 1 for view in reported["widener"]["views"])
    assert [view["shape"] for view in reported["fusion"]["views"]] == [[8, 8]] * 2
    assert len(reported["matcher"]["views"]) == 2


def test_info_tells_what_is_there():
    reported = json.loads(call("info", "--json").stdout)
    build = coupledict.build_info()
    assert {key: reported[key] for key in build} == build
    assert reported["versions"]["numpy"] == np.__version__
    assert reported["extras"]["images"] is True
    assert reported["threads"] >= 1
    lines = call("info").stdout.splitlines()
    assert any(line.split() == ["numpy", np.__version__] for line in lines)
    assert not any(line.startswith("missing") and "images" in line for line in lines)


def test_info_tells_what_is_missing_and_how_to_get_it(monkeypatch):
    for module in ("soundfile", "zarr"):
        monkeypatch.setitem(sys.modules, module, None)
    assert '"coupledict[audio,dask]"' in call("info").stdout
    assert json.loads(call("info", "--json").stdout)["extras"]["audio"] is False


def test_info_lists_every_extra():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    reported = json.loads(call("info", "--json").stdout)["extras"]
    assert [*reported, "all"] == list(project["optional-dependencies"])


def test_info_knows_the_modules_of_packages():
    """A module whose package is installed is there: otherwise info would call the extra missing."""
    packages = [name for extra, names in _info.requirements().items() if extra for name in names]
    assert {"pillow-heif", "rawpy", "python-multipart"} <= set(packages)
    for name in packages:
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        assert _info._is_there(_info.module_of(name)), name


STEERING = ["\x1b]0;owned\x07", "\x1b[2J", "\x9b31m", "one\ntwo", "\r", "\u202egnp", "\x7f", "\u2028", "\udc80"]


def unprintable(text):
    return {sign for sign in text if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp")} - {"\n"}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Return a classifier whose every string would steer a terminal."""
    path, rng = tmp_path_factory.mktemp("hostile") / "model", np.random.default_rng(0)
    X, y = rng.standard_normal((60, 16)), np.repeat(["ant", "bee"], 30)
    settings = {"n_components": 10, "n_nonzero_coefs": 2, "max_iter": 2, "random_state": 0, "n_dictionaries": 1}
    CoupledClassifier(**settings).fit({"a": X, "b": X[:, :5]}, y).save(path)
    tensors, metadata = read_model(path)
    sign = "".join(STEERING[:-1])  # half a character is refused by JSON text in UTF-8, but not as an escape
    metadata |= {
        "version": sign + "\udc80",
        "classes": [f"a{sign}", f"b{sign}"],
        "classes_dtype": f"<U{1 + len(sign)}",
        "view_names_in": [f"first{sign}", f"second{sign}"],
        "view_feature_names_in": [[f"{k}{sign}" for k in range(n)] for n in (16, 5)],
    }
    metadata["parameters"]["unlabeled"] = sign
    write_model(path, tensors, metadata)
    return path


def test_strings_of_a_model_do_not_reach_the_terminal_as_they_are(hostile):
    done = call("show", hostile)
    assert done.returncode == 0, done.stderr
    assert unprintable(done.stdout + done.stderr) == set()
    assert r"classes     a\x1b]0;owned\x07\x1b[2J\x9b31mone\ntwo\r\u202egnp\x7f\u2028, b\x1b" in done.stdout
    names = [line.split("  ")[0] for line in done.stdout.splitlines()]
    assert names.count("written by") == names.count("classes") == names.count("settings") == 1
    assert "two" not in {name[:3] for name in names}  # what comes after a line end does not begin a line


def test_names_of_views_do_not_reach_the_terminal_as_they_are(model):
    tensors, metadata = read_model(model)
    for names in ({"view_names_in": ["\x1b[2Ja", "b"]}, {"made": {"views": ["\x1b[2Ja", "b"]}}):
        write_model(model, tensors, metadata | names)
        assert r"\x1b[2Ja: 16 features" in call("show", model).stdout


def test_strings_of_a_model_do_not_reach_the_table_of_a_terminal(hostile, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb"), ("COLUMNS", "400")):
        monkeypatch.setenv(name, value)
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setattr("sys.argv", ["coupledict", "show", str(hostile)])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    assert unprintable(terminal.getvalue()) == set()
    assert r"\x1b]0;owned" in terminal.getvalue()


def test_json_of_a_model_is_plain_text_and_holds_its_strings(hostile):
    done = call("show", hostile, "--json")
    assert done.stdout.isascii()
    assert unprintable(done.stdout) == set()
    reported = json.loads(done.stdout)
    assert reported["version"] == "".join(STEERING)
    assert reported["classes"][0] == "a" + "".join(STEERING[:-1])


@pytest.mark.parametrize("more", [[], ["--json"], ["--debug"]])
def test_strings_in_errors_do_not_reach_the_terminal_as_they_are(hostile, tmp_path, more):
    tensors, metadata = read_model(hostile)
    sign = "".join(STEERING)
    for number, change in enumerate(
        [{"estimator": sign}, {"classes_dtype": sign}, {"parameters": {sign: 1}}, {"parameters": {"head": sign}}]
    ):
        path = tmp_path / f"{number}\x1b]0;owned\x07\u202e"
        write_model(path, tensors, metadata | change)
        done = call("show", path, *more)
        assert done.returncode == 1
        assert unprintable(done.stdout + done.stderr) == set()
        assert r"\x1b]0;owned" in done.stderr or r"\u001b]0;owned" in done.stderr


def test_errors_of_the_library_are_fit_for_a_terminal_too(hostile, tmp_path):
    tensors, metadata = read_model(hostile)
    write_model(tmp_path / "model", tensors, metadata | {"estimator": "\x1b]0;owned\x07"})
    with pytest.raises(coupledict.ModelFileError, match="to hold a CoupledClassifier, got") as caught:
        CoupledClassifier.load(tmp_path / "model")
    assert unprintable(str(caught.value)) == set()


def test_names_of_files_do_not_reach_the_terminal_as_they_are(model, tmp_path):
    out = tmp_path / "a\x1b[2J\u202e.html"
    done = call("show", model, "--html", out)
    assert done.returncode == 0
    assert unprintable(done.stdout) == set()
    assert r"a\x1b[2J\u202e.html; open it in a browser." in done.stdout
    done = call("fuse", "--batch", tmp_path / "\x1b[2J", "-o", tmp_path / "out")
    assert r"\x1b[2J" in refused(done)
