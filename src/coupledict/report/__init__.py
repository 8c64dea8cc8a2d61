"""Self-contained HTML pages: the report of the experiments, and an explorer of the atoms of any model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ..files.whole import write_file
from ._figures import check_figures
from ._model_page import explorer_page
from ._page import build
from ._pair_atoms import check_dictionary_pairs

__all__ = ["write_report", "explorer_page"]


def write_report(
    path: str | os.PathLike[str],
    results: Mapping[str, Any],
    dictionaries: Mapping[str, Sequence[npt.ArrayLike]],
    figures: Mapping[str, str | os.PathLike[str] | None],
    *,
    data_file: str | None = "results.json",
) -> None:
    """Write the report of a run of the experiments as one HTML file.

    The page is self-contained, pictures included, and makes no network requests. It appears under its name only when it
    is complete. Missing results are left out or shown as a dash.

    Parameters
    ----------
    path : path-like
        Where to write; an existing file is replaced.
    results : dict
        Settings and measurements, as plain JSON data: ``command``, ``version``, ``versions``, ``machine``, ``seed``,
        ``quick``, ``started``, ``seconds``, ``data``, ``notes``, ``pairs``, ``time`` and ``claims``. All text is
        escaped.
    dictionaries : dict
        Under ``"together"`` and ``"separate"``, a list of two arrays of shape (n_components, n_features): focused and
        blurred atoms.
    figures : dict of str to path-like
        PNG files for ``"pairs"``, ``"correlations"`` and, for each regime, ``"time_<key>"``,
        ``"time_<key>_fresh"`` and ``"peers_<key>"``, and those that ``results["pictures"]`` names; any may be
        absent. Files in the folder of the report, or below it, are linked too, with SVG files of the same names.
    data_file : str or None, default="results.json"
        Name of the file beside the report that holds `results`, for a link; None for no link.

    Raises
    ------
    ValueError
        For dictionaries of other shapes, with NaN or infinity, or whose atoms do not match the figures per atom.
    FileNotFoundError
        For a figure or a folder that does not exist.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from coupledict.report import write_report
    >>> rng = np.random.default_rng(0)
    >>> pair = [rng.standard_normal((16, 64)), rng.standard_normal((16, 64))]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "report.html"
    ...     write_report(path, {"version": "0.1.0"}, {"together": pair, "separate": pair}, {})
    ...     path.read_text().splitlines()[0]
    '<!doctype html>'
    """
    if not isinstance(results, Mapping):
        raise TypeError(f"Expected results to be a dict, got {type(results).__name__}.")
    folder = Path(os.path.realpath(path)).parent
    page = build(results, check_dictionary_pairs(dictionaries), check_figures(figures), folder, data_file)
    # A command line may hold bytes that are not valid text; they become question marks.
    write_file(path, [page.encode("utf-8", "replace")])
