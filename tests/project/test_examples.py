"""Every example of the gallery runs without a warning, draws, and leaves nothing behind."""

from __future__ import annotations

import ast
import base64
import importlib.util
import io
import json
import re
import runpy
import shutil
import subprocess
import sys
import wave
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples"
DOCS = FOLDER.parent / "docs"
EXAMPLES = sorted(FOLDER.glob("*.py"))


def any_port(monkeypatch):
    """Let Dask take a free port for its pages: another cluster on this machine may have the usual one."""
    from distributed.node import ServerNode

    start = ServerNode.start_http_server

    def start_anywhere(self, routes, dashboard_address, default_port=0, **options):
        return start(self, routes, dashboard_address, default_port=0, **options)

    monkeypatch.setattr(ServerNode, "start_http_server", start_anywhere)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=[example.stem for example in EXAMPLES])
def test_every_example_draws(example, tmp_path, monkeypatch):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    if example.stem == "plot_cluster":
        any_port(monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")
    try:
        runpy.run_path(str(example), run_name="__main__")
        figures = [plt.figure(number) for number in plt.get_fignums()]
        assert figures
        for figure in figures:
            picture = io.BytesIO()
            figure.savefig(picture, dpi=50)
            assert picture.tell() > 3_000  # an empty figure takes less than a thousand
    finally:
        plt.close("all")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.stem for example in EXAMPLES])
def test_every_example_has_the_form_of_the_gallery(example):
    text = example.read_text()
    title, line, blank, *_ = ast.get_docstring(ast.parse(text)).splitlines()
    assert example.name.startswith("plot_")
    assert line == "=" * len(title)
    assert blank == ""
    assert text.count("\n# %%\n") >= 2
    assert text.rstrip().endswith("plt.show()") or "\nplt.show()\n\n# %%\n# References" in text
    assert "argparse" not in text


def test_every_example_has_its_place_in_the_gallery():
    """Those that most people want come first; the page above the pictures names them in the same order."""
    spec = importlib.util.spec_from_file_location("_gallery", DOCS / "_gallery.py")
    gallery = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gallery)
    assert sorted(gallery.FILES) == [example.name for example in EXAMPLES]
    listed = (FOLDER / "README.rst").read_text()
    assert re.findall(r"sphx_glr_gallery_(\w+\.py)", listed) == gallery.FILES
    assert re.findall(r"^(\w.*)\n  :ref:", listed, flags=re.MULTILINE) == list(gallery.ORDER)
    place = gallery.ByWhatIsWanted("examples")
    names = ["plot_new.py", "plot_cluster.py", "plot_paired_atoms.py"]
    assert sorted(names, key=place) == ["plot_paired_atoms.py", "plot_cluster.py", "plot_new.py"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plot_three_views", "plot_widen_speech", "plot_streaming"])
def test_notebooks_open_and_run(name, tmp_path, monkeypatch):
    """What a page of the gallery offers for download: cells of code that run in order, in an empty folder."""
    program = Path(sys.executable).with_name("sphinx_gallery_py2jupyter")
    if not program.exists():
        pytest.skip("sphinx-gallery is not installed")
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    (tmp_path / "here").mkdir()
    shutil.copy(FOLDER / f"{name}.py", tmp_path)
    subprocess.run([program, tmp_path / f"{name}.py"], check=True, capture_output=True)
    notebook = json.loads((tmp_path / f"{name}.ipynb").read_text())
    assert notebook["nbformat"] == 4
    kinds = [cell["cell_type"] for cell in notebook["cells"]]
    assert kinds.count("code") >= 3
    assert kinds.count("markdown") >= 3
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(plt, "show", lambda: None)
    names = {"__name__": "__main__"}
    try:
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)
        assert plt.get_fignums()
    finally:
        plt.close("all")
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.slow
def test_speech_can_be_played(tmp_path, monkeypatch):
    """The players are the value of their block, which the gallery and notebooks show; what they hold is sound."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    text = (FOLDER / "plot_widen_speech.py").read_text()
    listen = next(block for block in text.split("\n# %%\n") if block.startswith("# Listen\n"))
    *_, last = ast.parse(listen).body
    assert isinstance(last, ast.Expr)
    try:
        names = runpy.run_path(str(FOLDER / "plot_widen_speech.py"), run_name="__main__")
    finally:
        plt.close("all")
    page = eval(ast.unparse(last), names)._repr_html_()
    assert len(page) < 300_000
    sounds = re.findall(r'<audio controls src="data:audio/wav;base64,([^"]+)"></audio>', page)
    assert len(sounds) == 4
    for data, rate in zip(sounds, (8_000, 16_000, 16_000, 16_000), strict=True):
        with wave.open(io.BytesIO(base64.b64decode(data))) as sound:
            assert sound.getframerate() == rate
            assert sound.getnframes() == 1.8 * rate
            assert np.ptp(np.frombuffer(sound.readframes(rate), np.int16)) > 1_000


def test_there_are_examples():
    assert len(EXAMPLES) >= 14
    assert (FOLDER / "README.rst").read_text().splitlines()[1] == "======="
