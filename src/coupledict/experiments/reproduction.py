"""Run both experiments, and write figures, plain numbers and a report when everything is done."""

from __future__ import annotations

import datetime
import json
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..files.whole import move_files
from ..foundation.arrays import Array
from ..foundation.progress import Callback
from ..kernels.instruction_sets import build_info
from ..report import write_report
from .against_time import against_time
from .against_time import count_steps as count_time_steps
from .claims import pair_claims, time_claims
from .figures import draw_all, new_figure
from .machine import machine
from .paired_atoms import PairSizes, paired_atoms
from .paired_atoms import count_steps as count_pair_steps
from .quick import QUICK
from .regimes import N_REGIMES, TimeSizes, regimes
from .sources import load_images, load_pairs
from .steps import BeginStep, Steps

QUICK_NOTE = "This was a quick run on few patches, timed once: it shows that everything works, not how fast it is."
DISTRIBUTIONS = ("coupledict", "numpy", "scipy", "scikit-learn", "matplotlib", "spams-bin", "dictlearn")


@dataclass(frozen=True)
class Picture:
    """A picture at the beginning of the report, its alternative text, and its caption."""

    path: Path
    alt: str
    caption: str


def count_steps(*, quick: bool) -> int:
    """Return the largest number of steps of a run."""
    pair_sizes, time_sizes = _sizes(quick=quick)
    return 1 + count_pair_steps(pair_sizes) + N_REGIMES * count_time_steps(time_sizes) + 2


def reproduce(
    output: Path,
    *,
    data: Path | None = None,
    quick: bool = False,
    seed: int = 0,
    threads: int,
    command: str,
    callback: Callback | None = None,
    replace: bool = True,
) -> dict[str, Any]:
    """Run both experiments and write the results.

    Parameters
    ----------
    output : Path
        Folder for ``report.html``, ``results.json``, ``dictionaries.npz`` and the figures; created if missing. Files in
        it are replaced atomically when everything is done.
    data : Path or None
        Folder of the Lytro pairs; None takes photographs that ship with scikit-image.
    quick : bool
        Few patches, few atoms and one run of each method, to check that everything works.
    command : str
        Command line that the report shows.
    callback : callable, optional
        Called as each step begins: ``progress.stage`` is its name, ``progress.completed`` counts those before it.
    replace : bool, default=True
        Whether files of the same names are replaced.

    Returns
    -------
    dict
        The content of ``results.json``.

    Raises
    ------
    StoppedByCallback
        If the callback asks to stop; nothing is written then.
    FileExistsError
        If a file of the same name exists at the end, and `replace` is False.
    """
    steps = Steps(callback, count_steps(quick=quick))
    return run_experiments(
        output,
        data=data,
        quick=quick,
        seed=seed,
        threads=threads,
        command=command,
        begin=steps.begin,
        replace=replace,
    )


def _sizes(*, quick: bool) -> tuple[PairSizes, TimeSizes]:
    return (QUICK.pairs, QUICK.time) if quick else (PairSizes(), TimeSizes())


def run_experiments(
    output: Path,
    *,
    data: Path | None = None,
    quick: bool,
    seed: int = 0,
    threads: int,
    command: str,
    begin: BeginStep,
    replace: bool = True,
    pictures: Sequence[Picture] = (),
) -> dict[str, Any]:
    """Do what :func:`reproduce` does, as part of a longer run whose pictures the report shows."""
    began = time.perf_counter()
    pair_sizes, time_sizes = _sizes(quick=quick)
    new_figure(1, 1)  # raises now rather than after minutes if matplotlib is missing
    output.mkdir(parents=True, exist_ok=True)
    begin("reading images")
    focused, blurred, pairs_sentence = load_pairs(data)
    images, images_sentence = load_images(data)
    results: dict[str, Any] = {
        "command": command,
        "version": build_info()["version"],
        "quick": quick,
        "seed": seed,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "data": [pairs_sentence, images_sentence],
        "synthetic": data is None,
        "notes": [QUICK_NOTE] if quick else [],
        **_machine(threads),
    }
    results["pairs"], dictionaries = paired_atoms(
        focused, blurred, sizes=pair_sizes, seed=seed, threads=threads, begin=begin
    )
    results["time"] = []
    for draws in regimes(images, sizes=time_sizes, seed=seed, threads=threads):
        figures = against_time(draws, sizes=time_sizes, seed=seed, begin=begin)
        results["time"].append(figures | {"claims": time_claims(figures)})
    results["claims"] = pair_claims(results["pairs"])
    results["pictures"] = [{"name": one.path.stem, "alt": one.alt, "caption": one.caption} for one in pictures]
    _write(output, results, dictionaries, began, begin, replace=replace, pictures=pictures)
    return results


def _machine(threads: int) -> dict[str, Any]:
    found = machine(DISTRIBUTIONS)
    versions = {name: version for name, version in found.pop("versions").items() if version is not None}
    found.pop("threaded_libraries")
    return {"versions": versions, "machine": found | {"threads": threads, "simd": build_info()["simd"]}}


def _write(
    output: Path,
    results: dict[str, Any],
    dictionaries: dict[str, list[Array]],
    began: float,
    begin: BeginStep,
    *,
    replace: bool,
    pictures: Sequence[Picture] = (),
) -> None:
    """Write all files to a temporary folder, then move them to `output`: a failure leaves the old files."""
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=output) as name:
        folder = Path(name)
        figures = draw_all(results, dictionaries, folder, begin)
        for picture in pictures:
            figures[picture.path.stem] = Path(shutil.copy(picture.path, folder))
        arrays: dict[str, Any] = {
            f"{how}_{view}": atoms
            for how, pair in dictionaries.items()
            for view, atoms in zip(("focused", "blurred"), pair, strict=True)
        }
        np.savez_compressed(folder / "dictionaries.npz", **arrays)
        begin("writing the report")
        results["seconds"] = time.perf_counter() - began
        (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        write_report(folder / "report.html", results, dictionaries, figures)
        move_files(folder, output, replace=replace)
