"""Both experiments in one go: figures, plain numbers and a report, written when everything is done."""

from __future__ import annotations

import datetime
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .._levels import build_info
from .._views import Array
from ..report import write_report
from .against_time import METHODS, PEERS, TimeSizes, against_time, regimes
from .claims import pair_claims, time_claims
from .figures import draw_all, new_figure
from .machine import machine
from .paired_atoms import PairSizes, paired_atoms
from .sources import load_images, load_pairs

QUICK_PAIRS = PairSizes(n_patches=4_000, n_held_out=1_000, n_components=144, max_iter=15)
QUICK_TIME = TimeSizes(n_patches=1_000, n_held_out=1_000, n_components=100, repeats=1, peer_seconds=0.3, thinning=8)
QUICK_NOTE = "This was a quick run on few patches, timed once: it shows that everything works, not how fast it is."
DISTRIBUTIONS = ("coupledict", "numpy", "scipy", "scikit-learn", "matplotlib", "spams-bin", "dictlearn")


def count_steps(time_sizes: TimeSizes) -> int:
    """Return how many times `progress` will be told of a step: at most this often."""
    timed = sum(time_sizes.repeats if method.repeated else 1 for method in METHODS)
    return 1 + 4 + 2 * (timed + 2 * len(METHODS) + len(PEERS)) + 2


def reproduce(
    output: Path,
    *,
    data: Path | None = None,
    quick: bool = False,
    seed: int = 0,
    threads: int,
    command: str,
    progress: Callable[[str], None],
    started: Callable[[int], None] = lambda steps: None,
) -> dict[str, Any]:
    """Run both experiments and write what they show.

    Parameters
    ----------
    output : Path
        Folder for ``report.html``, ``results.json``, ``dictionaries.npz`` and the figures; made if it is not there.
        Files in it are replaced when all is done, each at once.
    data : Path or None
        Folder of the Lytro pairs; None takes photographs that ship with scikit-image.
    quick : bool
        Few patches, few atoms and one run of each method: to see that it works.
    command : str
        What the report says it was made by.
    progress : callable
        Told of each step as it begins.
    started : callable, optional
        Told how many steps there will be.

    Returns
    -------
    dict
        The content of ``results.json``.
    """
    began = time.perf_counter()
    pair_sizes, time_sizes = (QUICK_PAIRS, QUICK_TIME) if quick else (PairSizes(), TimeSizes())
    started(count_steps(time_sizes))
    new_figure(1, 1)  # where matplotlib is missing, say so now and not after minutes
    output.mkdir(parents=True, exist_ok=True)
    progress("reading images")
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
        focused, blurred, sizes=pair_sizes, seed=seed, threads=threads, progress=progress
    )
    results["time"] = []
    for regime in regimes(images, sizes=time_sizes, seed=seed, threads=threads):
        figures = against_time(regime, sizes=time_sizes, seed=seed, progress=progress)
        results["time"].append(figures | {"claims": time_claims(figures)})
    results["claims"] = pair_claims(results["pairs"])
    _write(output, results, dictionaries, began, progress)
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
    progress: Callable[[str], None],
) -> None:
    """Write all files to a folder beside their place, then move them there: a failure leaves what was there before."""
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=output) as name:
        folder = Path(name)
        figures = draw_all(results, dictionaries, folder, progress)
        arrays: dict[str, Any] = {
            f"{how}_{view}": atoms
            for how, pair in dictionaries.items()
            for view, atoms in zip(("focused", "blurred"), pair, strict=True)
        }
        np.savez_compressed(folder / "dictionaries.npz", **arrays)
        progress("writing the report")
        results["seconds"] = time.perf_counter() - began
        (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        write_report(folder / "report.html", results, dictionaries, figures)
        for file in sorted(folder.iterdir()):
            os.replace(file, output / file.name)
