"""Scores of fused Lytro pairs, those of a folder and those of published methods, by ``coupledict.images.metrics``.

The data folder holds ``lytro/lytro-NN-A.jpg`` and ``-B.jpg``, the sources, and ``fused_lytro/lytro_NN_METHOD.jpg``, the
published results. These are JPEG files of quality 75, which costs every score a little, so pictures that are not JPEG
files are saved as such in memory before they are scored.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
from _data import Array
from _main import table

from coupledict.images.metrics import fusion_scores

MEASURES = {"q_abf": "Q_AB/F", "q_cb": "Q_CB", "q_y": "Q_Y", "nmi": "NMI"}
QUALITY = 75  # of the published files; colour at half the resolution, as Pillow saves it too

Scores = dict[str, dict[str, float]]  # pair -> measure -> score


@cache
def lytro_pairs(data: Path) -> dict[str, tuple[Array, Array]]:
    """Read the sources of the data folder: two colour pictures for each pair, by its number as written."""
    firsts = {file.stem.split("-")[1]: file for file in sorted((data / "lytro").glob("lytro-[0-9][0-9]-A.jpg"))}
    if not firsts:
        raise FileNotFoundError(
            f"Expected pairs lytro/lytro-NN-A.jpg and -B.jpg in the data folder '{data}', found none;"
            " correct --data or COUPLEDICT_DATA."
        )
    return {pair: (_read(file), _read(file.with_name(f"lytro-{pair}-B.jpg"))) for pair, file in firsts.items()}


def score_folder(folder: Path, data: Path, *, method: str | None = None) -> Scores:
    """Score the fused pictures of a folder.

    Parameters
    ----------
    folder : Path
        Holds one picture a pair, ``lytro_NN*.jpg`` or ``.png``; pairs may be missing.
    data : Path
        The data folder, with the sources in ``lytro``.
    method : str, optional
        Take the files ``lytro_NN_METHOD`` only, in a folder where several methods lie together.

    Returns
    -------
    dict
        For each pair, the scores of ``coupledict.images.metrics.fusion_scores``.
    """
    files: dict[str, Path] = {}
    for file in sorted(folder.glob("lytro_[0-9][0-9]*")):
        name = re.fullmatch(r"lytro_(\d\d)(?:_(.+))?", file.stem)
        if name is None or file.suffix.lower() not in (".jpg", ".jpeg", ".png") or method not in (None, name[2]):
            continue
        if name[1] in files:
            raise ValueError(
                f"Expected one picture a pair in '{folder}', found {files[name[1]].name} and {file.name};"
                " remove one, or name a method."
            )
        files[name[1]] = file
    if not files:
        raise FileNotFoundError(f"Expected pictures lytro_NN*.jpg or .png in '{folder}', found none.")
    pairs = lytro_pairs(data)
    if unknown := sorted(set(files) - set(pairs)):
        raise ValueError(f"Expected pictures of the pairs {min(pairs)} to {max(pairs)}, found '{files[unknown[0]]}'.")
    return {pair: fusion_scores(*pairs[pair], _as_published(file)) for pair, file in files.items()}


def score_pictures(pictures: Mapping[str, Array], data: Path) -> Scores:
    """Score fused pictures of 8 bits, by the number of their pair, after saving them as the published ones are."""
    pairs = lytro_pairs(data)
    return {pair: fusion_scores(*pairs[pair], as_jpeg(picture)) for pair, picture in pictures.items()}


def as_jpeg(picture: Array, quality: int = QUALITY) -> Array:
    """Return a picture of 8 bits as it comes back from a JPEG file."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


def _read(file: Path) -> Array:
    from PIL import Image

    with Image.open(file) as image:
        return np.asarray(image.convert("RGB"))


def _as_published(file: Path) -> Array:
    return as_jpeg(_read(file)) if file.suffix.lower() == ".png" else _read(file)


def published_methods(data: Path) -> list[str]:
    """Return the methods whose results are in the data folder."""
    names = {file.stem.split("_", 2)[2] for file in (data / "fused_lytro").glob("lytro_[0-9][0-9]_*.jpg")}
    if not names:
        raise FileNotFoundError(f"Expected results fused_lytro/lytro_NN_METHOD.jpg in the data folder '{data}'.")
    return sorted(names)


def mean_scores(scores: Scores) -> dict[str, float]:
    """Return the mean of each measure over the pairs."""
    return {measure: float(np.mean([row[measure] for row in scores.values()])) for measure in MEASURES}


def score_table(published: Mapping[str, Scores], others: Mapping[str, Scores]) -> str:
    """Lay out means, with the rank among the published methods in brackets, best mean rank first.

    The rank of a row that is not published is one more than the number of published methods that score higher.
    """
    means = {name: mean_scores(scores) for name, scores in {**published, **others}.items()}
    ranks = {
        name: {m: 1 + sum(means[peer][m] > row[m] for peer in published if peer != name) for m in MEASURES}
        for name, row in means.items()
    }
    rows = []
    for group in (published, others):
        for name in sorted(group, key=lambda name: sum(ranks[name].values())):
            cells = [f"{means[name][m]:.4f} ({ranks[name][m]})" for m in MEASURES]
            rows.append([name, *cells, f"{sum(ranks[name].values()) / len(MEASURES):.2f}", str(len(group[name]))])
    if published:
        best = [f"{max(means[name][m] for name in published):.4f}" for m in MEASURES]
        rows.append(["best published", *best, "", ""])
    return table(["", *MEASURES.values(), "mean rank", "pairs"], rows)
