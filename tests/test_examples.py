"""Every example of the gallery runs without a warning, draws, and leaves nothing behind."""

from __future__ import annotations

import ast
import io
import runpy
from pathlib import Path

import matplotlib as mpl
import pytest

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


def any_port(monkeypatch):
    """Let Dask take a free port for its pages: another cluster on this machine may have the usual one."""
    from distributed.node import ServerNode

    start = ServerNode.start_http_server

    def start_anywhere(self, routes, dashboard_address, default_port=0, **options):
        return start(self, routes, dashboard_address, default_port=0, **options)

    monkeypatch.setattr(ServerNode, "start_http_server", start_anywhere)


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


def test_there_are_examples():
    assert len(EXAMPLES) >= 14
    assert (FOLDER / "README.rst").read_text().splitlines()[1] == "======="
