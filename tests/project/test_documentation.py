"""The documentation: its code runs as printed, every public name is told of, and pages need nothing but themselves."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import coupledict
from coupledict.learning import updates
from support import pages, readers_files
from support.pages import agree

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "gallery" not in page.relative_to(DOCS).parts)
WITH_CODE = [page for page in PAGES if {"python", "console", "bash"} & {block.kind for block in pages.blocks(page)}]

MODULES = (
    "coupledict",
    "coupledict.views",
    "coupledict.model_selection",
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
    "coupledict.InterruptedFitWarning",
    "coupledict.PredictionWarning",
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
    ("code", "fault"),
    [
        ("print(1 + 1)  # 2", None),
        ("print(1 + 1)  # 3", "says '3'"),
        ("print(1 + 1)", "shows nothing"),
        ("print(1 + 1)\n# the sum: 2", None),
        ("print(1 + 1)\n# of one and one\n# the sum: 2", None),
        ("print(1 + 1)\n# the sum: 3", "says 'the sum: 3'"),
        ("for n in range(2):\n    print(n)\n    # 0\n    # 1", None),
        ("for n in range(2):\n    print(n)\n    # 0\n    # 2", "says '2'"),
        ("for n in range(2):\n    print(n)\n    # 0", "shows ['0']"),
        ("if False:\n    print(1)", "never prints"),
    ],
)
def test_what_is_printed_is_shown(code, fault):
    found = pages.run_python(pages.Block("python", code, 1, False), {}, "a block")
    assert (found == []) if fault is None else (len(found) == 1 and fault in found[0])


def test_blocks_are_found_with_what_is_said_before_them(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("With your\nown files:\n\n```bash\na\n```\n\n- x:\n\n  ```python\n  b\n  ```\n")
    assert pages.blocks(page) == [("bash", "a\n", 5, True), ("python", "b\n", 11, False)]


def test_commands_must_print_what_is_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    block = pages.Block("console", "$ echo one 1.00 s\n{}\n$ echo two \\\n  three\n", 1, False)
    for shown, right in {"one 1.01 s": True, "one ... s": True, "one 2.00 s": False, "... a": False}.items():
        found = pages.run_shell(block._replace(text=block.text.format(shown)), "a page")
        assert (found == []) is right
    assert len(pages.run_shell(block._replace(text="$ false\n"), "a page")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: str(page.relative_to(DOCS)))
def test_pages_run_as_printed(page, tmp_path, monkeypatch):
    """Every block of code and every command, in order, in an empty folder, with what the reader is told to bring."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(updates.UPDATES, "gradient", None)  # a page sets it; it goes with the test
    bring = own_cluster(tmp_path, monkeypatch) if page.stem == "cluster" else readers_files.bring
    assert pages.run(page, {"__name__": "__page__"}, bring) == []


def own_cluster(folder, monkeypatch):
    """Return what brings the cluster of the page: two threads, stores in `folder`; other clusters are only compiled."""
    import dask
    import distributed
    import zarr

    rng = np.random.default_rng(0)
    rows = rng.standard_normal((4_000, 16)).cumsum(axis=1)
    for name, view in {"sharp": rows, "blurred": (rows + np.roll(rows, 1, axis=1)) / 2}.items():
        zarr.create_array(str(folder / f"{name}.zarr"), data=view, chunks=(1_000, 16))
    clients = []

    class Own(distributed.Client):
        def __init__(self, address):
            super().__init__(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0")
            clients.append(self)

    monkeypatch.setattr(distributed, "Client", Own)
    monkeypatch.setitem(dask.config.config, "coupledict", {})  # the page sets a time-out, for good

    def bring(block):
        if "Cluster(" in block.text:
            compile(block.text, "a cluster of others", "exec")
            for client in clients:
                client.close()
            return block._replace(text="")
        return block._replace(text=block.text.replace("/shared", str(folder)))

    return bring


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


# Columns and citations


def long_lines(page):
    """Return the lines of code on a page that its column does not hold at 1280 pixels; see test_site_browser.py."""
    return [
        f"{page.name}, line {block.line + number}: {line}"
        for block in pages.blocks(page)
        if not block.kind.startswith("{") or block.kind == "{code-block} python"
        for number, line in enumerate(block.text.splitlines())
        if len(line) > 88
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_code_fits_its_column(page):
    assert long_lines(page) == []
    indented = [line for line in page.read_text().splitlines() if line.startswith("    ")]
    assert [line for line in indented if len(line) > 92] == []


def test_long_lines_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"```python\nx = 1\n{'y' * 88}\n{'z' * 89}\n```\n")
    assert long_lines(page) == [f"page.md, line 4: {'z' * 89}"]


def test_the_page_about_citing_says_what_the_citation_file_says():
    text, page = (path.read_text() for path in (ROOT / "CITATION.cff", DOCS / "citing.md"))
    software, letter = text.split("preferred-citation:")
    for key in ("title", "journal", "volume", "year", "doi", "issue"):
        value = re.search(rf"^  {key}: \"?([^\"\n]+)", letter, flags=re.MULTILINE)[1]
        assert f"{'number' if key == 'issue' else key:<8}= {{{value}}}" in page
    families, given = (re.findall(rf"{key}-names: (.+)", letter) for key in ("family", "given"))
    assert " and ".join(f"{a}, {b}" for a, b in zip(families, given, strict=True)) in page
    for key in ("title", "version", "license"):
        value = re.search(rf"^{key}: (.+)", software, flags=re.MULTILINE)[1]
        assert f"{key:<8}= {{{value}}}" in page
    assert f"version = {{{coupledict.__version__}}}" in page


def test_the_installation_page_names_every_extra_and_the_oldest_python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (DOCS / "installation.md").read_text()
    extras = set(project["optional-dependencies"]) - {"bench", "docs", "torture", "dev"}
    assert extras == {"images", "heic", "raw", "audio", "plot", "dask", "serve", "all"}
    assert [extra for extra in extras if f"`{extra}`" not in page] == []
    assert f"Python {project['requires-python'].removeprefix('>=')} or newer" in page


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_build_fails_on_a_page_that_loads_from_elsewhere_and_on_no_other(tmp_path):
    """Two pages with the settings of the documentation; `make docs` builds them all."""
    pytest.importorskip("sphinx_gallery")
    pytest.importorskip("pydata_sphinx_theme")
    ignored = shutil.ignore_patterns("gallery", "generated", "pictures", "__pycache__")
    shutil.copytree(DOCS, tmp_path / "docs", ignore=ignored)
    pictures = tmp_path / "docs" / "_static" / "pictures"
    pictures.mkdir()
    for name in ("pairs", "prediction", "fusion", "atoms"):
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
