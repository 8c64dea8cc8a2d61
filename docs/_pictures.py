"""Pictures of the pages, drawn anew by each build from photographs that ship with scikit-image."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from skimage import data

from coupledict import CoupledDictionaryLearning
from coupledict.foundation.drawing import full_scale
from coupledict.images import MultiFocusFusion, assemble_patches, extract_patches

FOLDER = Path(__file__).parent / "_static" / "pictures"
BLUR = 1.5


def _strip(panels: list[Any], path: Path, gap: int = 12) -> None:
    """Write pictures side by side, with transparent gaps."""
    from PIL import Image

    colours = [
        panel if panel.ndim == 3 else np.repeat(panel[..., None], 3, axis=2)
        for panel in panels
    ]
    height, width = colours[0].shape[:2]
    strip = np.zeros((height, len(panels) * (width + gap) - gap, 4), np.uint8)
    for i, panel in enumerate(colours):
        place = slice(i * (width + gap), i * (width + gap) + width)
        strip[:, place, :3] = np.clip(np.round(panel), 0, 255)
        strip[:, place, 3] = 255
    Image.fromarray(strip).save(path, optimize=True)


def _mosaic(atoms: Any, side: int, columns: int, zoom: int = 5) -> Any:
    """Return patches as one picture, each stretched to the full range of grey, paler where an atom nearly vanishes."""
    rows = len(atoms) // columns
    cells = atoms / full_scale(atoms)
    cells = np.pad(
        cells.reshape(rows, columns, side, side),
        ((0, 0), (0, 0), (0, 1), (0, 1)),
        constant_values=1,
    )
    picture = cells.transpose(0, 2, 1, 3).reshape(
        rows * (side + 1), columns * (side + 1)
    )[:-1, :-1]
    return np.kron(127.5 * (1 + picture), np.ones((zoom, zoom)))


def draw_pairs_and_prediction() -> None:
    """Draw ``pairs.png``, sharp and blurred atoms, and ``prediction.png``, a photograph predicted from its blur."""
    sharp = data.camera().astype(np.float32)
    views = []
    for picture in (sharp, gaussian_filter(sharp, BLUR)):
        rows = extract_patches(
            picture, (8, 8), max_patches=20_000, random_state=0
        ).reshape(-1, 64)
        views.append(rows - rows.mean(axis=1, keepdims=True))
    learner = CoupledDictionaryLearning(
        256, n_nonzero_coefs=5, random_state=0, n_jobs=2
    ).fit(views)
    codes = learner.transform(views)
    order = np.argsort(-np.diff(codes.tocsc().indptr), kind="stable")[:96]
    _strip(
        [_mosaic(atoms[order], 8, 12) for atoms in learner.components_],
        FOLDER / "pairs.png",
        gap=24,
    )

    truth = data.coins()[:256, :256].astype(np.float32)
    blurred = gaussian_filter(truth, BLUR)
    patches = extract_patches(blurred, (8, 8)).reshape(-1, 64)
    means = patches.mean(axis=1, keepdims=True)
    predicted = learner.predict([None, patches - means], view=0) + means
    restored = assemble_patches(predicted.reshape(-1, 8, 8), truth.shape)
    _strip([blurred, restored, truth], FOLDER / "prediction.png")


def draw_fusion() -> None:
    """Draw ``fusion.png``: a picture in focus in the middle, one in focus around it, and the two fused."""
    sharp = data.coffee()[20:320, 60:500]
    soft = gaussian_filter(sharp, (4, 4, 0))
    rows, columns = np.indices(sharp.shape[:2])
    near = ((rows - 150) ** 2 + (columns - 235) ** 2 < 120**2)[..., None]
    sources = [np.where(near, sharp, soft), np.where(near, soft, sharp)]
    _strip(
        [*sources, MultiFocusFusion(n_jobs=2).fuse(sources).image],
        FOLDER / "fusion.png",
    )


def draw_quick_start() -> None:
    """Draw ``atoms.png`` by the code of the first page itself."""
    import matplotlib as mpl

    mpl.use("Agg")
    page = (Path(__file__).parent / "index.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    last = next(number for number, block in enumerate(code) if "savefig" in block)
    with contextlib.chdir(FOLDER), contextlib.redirect_stdout(None):
        exec("".join(code[: last + 1]), {})


def draw_all(app: object = None) -> None:
    """Draw what is not there yet."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not all((FOLDER / name).exists() for name in ("pairs.png", "prediction.png")):
        draw_pairs_and_prediction()
    if not (FOLDER / "fusion.png").exists():
        draw_fusion()
    if not (FOLDER / "atoms.png").exists():
        draw_quick_start()
