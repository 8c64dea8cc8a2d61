"""The documentation: its code runs as printed, every public name is told of, and pages need nothing but themselves."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from PIL import Image
from voices import resampled, voice

import coupledict
from coupledict.audio import narrow_band
from coupledict.learning import updates

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "gallery" not in page.relative_to(DOCS).parts)
#: Pages with code for which somebody else's data, or a cluster, would be needed.
NOT_RUN = {"cluster"}

MODULES = (
    "coupledict",
    "coupledict.views",
    "coupledict.datasets",
    "coupledict.images",
    "coupledict.images.metrics",
    "coupledict.audio",
    "coupledict.classification",
    "coupledict.matching",
    "coupledict.distributed",
    "coupledict.plotting",
    "coupledict.files",
    "coupledict.report",
)
#: Modules that are how it is done, and not for others.
INNER = (
    "foundation",
    "kernels",
    "parallel",
    "coding",
    "data",
    "learning",
    "estimators",
    "loading",
    "experiments",
    "cli",
    "serve",
)
#: What a docstring must have, in the words of numpydoc.validate: a text, a summary of one sentence that begins with a
#: capital and ends with a period, all parameters and no others, and what is returned.
WANTED = {"GL08", "SS01", "SS02", "SS03", "PR01", "PR02", "RT01", "YD01"}
#: The same, and a description of each parameter; for a method what it is may say enough.
WANTED_OF_CLASSES_AND_FUNCTIONS = WANTED | {"PR07"}
#: Nothing to show: errors, a tuple that a method returns, what callbacks are told, what stands between Dask and the
#: learners; and what the example of its counterpart shows.
WITHOUT_EXAMPLE = {
    "coupledict.datasets.DownloadError",
    "coupledict.CodeFile",
    "coupledict.files.read_model",
    "coupledict.ModelFileError",
    "coupledict.Progress",
    "coupledict.LearningProgress",
    "coupledict.StoppedByCallback",
    "coupledict.images.Fusion",
    "coupledict.images.FusedSource",
    "coupledict.distributed.ClusterError",
    "coupledict.distributed.ClusterTimeoutError",
    "coupledict.distributed.DaskData",
}
#: Classes that methods make, and nobody else: their parameters need not be told.
MADE_BY_METHODS = {
    "coupledict.images.Fusion",
    "coupledict.images.FusedSource",
    "coupledict.CodeFile",
    "coupledict.Progress",
    "coupledict.LearningProgress",
}


# Code on pages


def code_blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def claimed(block):
    """Return what the comments behind calls of print say, one entry a call that has a comment; None without one."""
    lines = [re.match(r"\s*print\(.*?\)(?:  # (.*))?$", line) for line in block.splitlines()]
    return [match[1] for match in lines if match]


def given_names(page):
    """Return the names that a page takes as given."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 12)), np.arange(60) % 3
    X += 3 * np.eye(12)[y]
    if page == "recognition":
        return {"X": X, "y": y, "X0": X[:, :6], "X1": X[:, 6:]}
    if page == "audio":
        recordings = [voice(seed, 2.5) for seed in range(3)]
        soundfile.write("narrow.wav", narrow_band(recordings[0]), 8000)
        recording = resampled(narrow_band(voice(9, 1.0)), 8000, 48_000)
        return {"narrow": narrow_band(voice(9, 0.5)), "recording": recording, "recordings": recordings}
    return {}


NUMBER = re.compile(r"-?\d[\d,]*\.?\d*")


def agree(said, printed):
    """Tell whether what is printed ends what the comment says, numbers within two units of their last place."""
    said_numbers, printed_numbers = NUMBER.findall(said.split(": ")[-1]), NUMBER.findall(printed)
    if not printed_numbers:
        return said.endswith(printed)
    if len(said_numbers) != len(printed_numbers):
        return False
    if any(word not in re.findall(r"[A-Za-z_]+", said) for word in re.findall(r"[A-Za-z_]+", printed)):
        return False
    for claim, value in zip(said_numbers, printed_numbers, strict=True):
        unit = 10.0 ** -len(claim.partition(".")[2]) if "." in claim else 0.0
        if abs(float(claim.replace(",", "")) - float(value.replace(",", ""))) > 2.01 * unit:
            return False
    return True


@pytest.mark.parametrize(
    ("said", "printed", "right"),
    [
        ("share: 0.92", "0.93", True),
        ("share: 0.92", "0.96", False),
        ("(128, 64)", "(128, 64)", True),
        ("(128, 64)", "(128, 65)", False),
        ("the same codes: True", "True", True),
        ("the same codes: True", "False", False),
        ("128 ols", "128 omp", False),
        ("CoupledDictionaryLearning 30", "DictionaryLearning 30", False),
        ("(128, 64)", "(128, 64, 2)", False),
    ],
)
def test_the_comparison_refuses_what_differs(said, printed, right):
    assert agree(said, printed) is right


@pytest.mark.parametrize(
    "page", [page for page in PAGES if code_blocks(page)], ids=lambda page: str(page.relative_to(DOCS))
)
def test_code_runs_as_printed(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(updates, "UPDATES", dict(updates.UPDATES))  # a page adds one
    names = {"__name__": "__page__", **given_names(page.stem)}
    for number, block in enumerate(code_blocks(page)):
        code = compile(block, f"{page.name}, block {number}", "exec")
        if page.stem in NOT_RUN:
            continue
        exec(code, names)
        printed = capsys.readouterr().out.splitlines()
        said = claimed(block)
        if any(said):
            comments = [said[0]] * len(printed) if len(said) == 1 else said
            assert len(comments) == len(printed)
            for comment, line in zip(comments, printed, strict=True):
                assert comment is None or agree(comment, line), f"{page.name} says {comment!r}, got {line!r}"


def test_spams_side_of_the_translation_gives_the_same():
    """Every code of SPAMS' is that of the block which translates it; what it learns is no better than what we learn."""
    spams = pytest.importorskip("spams")
    page = (DOCS / "migration" / "spams.md").read_text()
    blocks = re.findall(r"^```(python|\{code-block\} python)\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    names = {"spams": spams, "np": np}
    for kind in ("python", "{code-block} python"):  # SPAMS' side takes samples that ours makes
        for block in (text for tag, text in blocks if tag == kind):
            exec(block, names)

    def dense(name):
        return names[name].toarray() if hasattr(names[name], "toarray") else names[name]

    for name in ("A", "B", "C", "P", "R", "W", "F", "M", "S"):
        difference = abs(dense(name).T - dense(f"{name}_rows")).max()
        assert difference < (1e-8 if name in "AB" else 1e-3), f"{name} differs by {difference}"
    X, D, known = (names[name] for name in ("X", "D", "known"))
    errors = [np.sum(((X - codes @ D) * known) ** 2) for codes in (dense("O_rows"), dense("O").T)]
    assert errors[0] < errors[1]
    assert names["D_learned"].shape == (64, 100)
    N = names["N"]
    ours, theirs = (dense("V_rows"), names["U_rows"]), (dense("V").T, names["U"].T)
    losses = [0.5 * np.sum((N - codes @ atoms) ** 2) + 5.0 * codes.sum() for codes, atoms in (ours, theirs)]
    assert losses[0] < 1.02 * losses[1]
    assert np.sum((N - dense("V_nmf").T @ names["U_nmf"].T) ** 2) < 1e-3 * np.sum(N**2)


def test_performance_has_the_figures_of_readme():
    readme, page = (path.read_text() for path in (ROOT / "README.md", DOCS / "performance.md"))
    speed = readme.partition("\n## Speed\n")[2].partition("\n## ")[0]
    rows = [line for line in speed.splitlines() if re.match(r"\|.*\d (ms|s) \|", line)]
    assert [row for row in rows if row not in page] == []


# Public names


def public_names(module):
    found = importlib.import_module(module)
    if hasattr(found, "__all__"):
        return list(found.__all__)
    return [
        name for name, value in vars(found).items() if name[0] != "_" and getattr(value, "__module__", None) == module
    ]


def public_objects():
    """Return (module, name) of every public name, told once, where it is first found."""
    seen = {}
    for module in MODULES:
        for name in public_names(module):
            value = getattr(importlib.import_module(module), name)
            if not inspect.ismodule(value):
                seen.setdefault(id(value), (module, name))
    return list(seen.values())


OBJECTS = public_objects()
IDS = [f"{module}.{name}" for module, name in OBJECTS]


def test_no_public_module_is_forgotten():
    folder = ROOT / "src" / "coupledict"
    parts = [path for path in folder.iterdir() if path.name[0] != "_" and path.suffix in ("", ".py")]
    found = {f"coupledict.{path.stem}" for path in parts if path.name != "py.typed"}
    public = set(MODULES) - {"coupledict", "coupledict.images.metrics"}
    assert found - {f"coupledict.{name}" for name in INNER} == public
    assert {f"coupledict.{name}" for name in coupledict._MODULES} == public


def reference():
    """Return the full names in the API reference."""
    module, names = None, set()
    for line in (DOCS / "api" / "index.rst").read_text().splitlines():
        if match := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        elif match := re.match(r"(?:   |\.\. data:: )(\w+)$", line):
            names.add(f"{module}.{match[1]}")
    return names


def test_the_reference_has_every_public_name_and_no_other():
    assert reference() == set(IDS)


def documented(value):
    """Return the names of the class's own methods that are public and defined in this package."""
    names = []
    for name, member in inspect.getmembers_static(value):
        function = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
        if name[0] != "_" and callable(function) and getattr(function, "__module__", "").startswith("coupledict"):
            names.append(name)
    return names


@pytest.mark.parametrize(("module", "name"), OBJECTS, ids=IDS)
def test_docstrings_are_complete(module, name):
    from numpydoc.validate import validate

    value = getattr(importlib.import_module(module), name)
    if not callable(value):
        return
    full = f"{module}.{name}"
    names = [full]
    if inspect.isclass(value) and not issubclass(value, tuple) and name != "DaskData":
        names += [f"{full}.{method}" for method in documented(value)]
    faults = []
    for each in names:
        wanted = WANTED_OF_CLASSES_AND_FUNCTIONS if each == full else WANTED
        if each in MADE_BY_METHODS:
            wanted = wanted - {"PR01"}
        faults += [(each, *error) for error in validate(each)["errors"] if error[0] in wanted]
    assert faults == []
    assert full in WITHOUT_EXAMPLE or ">>> " in inspect.getdoc(value)


def test_a_docstring_without_a_parameter_is_refused(tmp_path, monkeypatch):
    from numpydoc.validate import validate

    (tmp_path / "half_told.py").write_text('def half(told, untold):\n    """Do it.\n\n    Parameters\n    ----------\n'
                                           '    told : int\n        A number.\n    """\n')  # fmt: skip
    monkeypatch.syspath_prepend(tmp_path)
    assert "PR01" in {error[0] for error in validate("half_told.half")["errors"]}


# Pages


def test_foreign_resources_are_found():
    foreign = site_checks().foreign
    assert foreign('<a href="https://example.org">x</a><img src="a.png"><link rel="stylesheet" href="b.css">') == []
    for text in (
        '<script src="https://cdn.example.org/x.js"></script>',
        '<img src="//example.org/x.png">',
        '<link rel="stylesheet" href="http://example.org/x.css">',
        "<style>@font-face { src: url('https://example.org/font.woff2') }</style>",
    ):
        assert len(foreign(text)) == 1


def site_checks():
    spec = importlib.util.spec_from_file_location("_site", DOCS / "_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_build_fails_on_a_page_that_loads_from_elsewhere_and_on_no_other(tmp_path):
    """Two pages with the settings of the documentation; `make docs` builds them all."""
    pytest.importorskip("sphinx_gallery")
    pytest.importorskip("pydata_sphinx_theme")
    ignored = shutil.ignore_patterns("gallery", "generated", "pictures", "__pycache__")
    shutil.copytree(DOCS, tmp_path / "docs", ignore=ignored)
    pictures = tmp_path / "docs" / "_static" / "pictures"
    pictures.mkdir()
    for name in ("pairs", "prediction", "fusion"):
        Image.new("L", (4, 4)).save(pictures / f"{name}.png")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "README.rst").write_text("Gallery\n=======\n")
    (tmp_path / "docs" / "guide" / "elsewhere.md").write_text(f"# x\n\n![x](https://a.org/x.png) {tmp_path}\n")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-d", tmp_path / "doctrees"]
    command += ["-D", "root_doc=guide/idea", "-D", "include_patterns=guide/idea.md,guide/elsewhere.md"]
    command += [tmp_path / "docs", tmp_path / "site"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    message = done.stderr.replace("\n", " ")
    assert "guide/elsewhere.html loads https://a.org/x.png." in message
    assert f"guide/elsewhere.html has the path {tmp_path} of this machine." in message
    assert "idea.html" not in message.partition("Expected pages")[2]
    assert "<math" in (tmp_path / "site" / "guide" / "idea.html").read_text()
