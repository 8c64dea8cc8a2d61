"""Draw the picture of README: paired atoms, and a focus stack with the fused picture.

The photographs ship with scikit-image: atoms come from the camera man, the stack is the cup of coffee, put out of focus
by a made map of distances. Run it from the root: python tools/draw_banner.py
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter
from skimage import data

from coupledict import CoupledDictionaryLearning
from coupledict.foundation.drawing import full_scale
from coupledict.images import MultiFocusFusion, extract_patches
from coupledict.images._files import read_image
from coupledict.serve._samples import focus_stack

HEIGHT, GAP, SIDE, COLUMNS, ROWS = 360, 10, 8, 10, 10


def paired_atoms() -> list[Any]:
    """Return the most used sharp atoms and their blurred partners, of norm 1 over both views, as two pictures."""
    sharp = data.camera().astype(np.float32)
    views = []
    for picture in (sharp, gaussian_filter(sharp, 1.5)):
        rows = extract_patches(picture, (SIDE, SIDE), max_patches=20_000, random_state=0).reshape(-1, SIDE**2)
        views.append(rows - rows.mean(axis=1, keepdims=True))
    learner = CoupledDictionaryLearning(256, n_nonzero_coefs=5, random_state=0, n_jobs=-1).fit(views)
    used = np.argsort(-np.diff(learner.transform(views).tocsc().indptr), kind="stable")[: COLUMNS * ROWS]
    return [mosaic(atoms[used]) for atoms in learner.components_]


def mosaic(atoms: Any) -> Any:
    """Return atoms as one picture in rows and columns, each on a grey scale of its own, thin white lines between."""
    cells = (atoms / full_scale(atoms)).reshape(ROWS, COLUMNS, SIDE, SIDE)
    cells = np.kron(cells, np.ones((1, 1, 4, 4)))
    cells = np.pad(cells, ((0, 0), (0, 0), (2, 2), (2, 2)), constant_values=1)
    picture = cells.transpose(0, 2, 1, 3).reshape(ROWS * cells.shape[2], COLUMNS * cells.shape[3])
    return np.repeat((127.5 * (1 + picture)).astype(np.uint8)[..., None], 3, axis=2)


def fused_stack() -> list[Any]:
    """Return the two sources of a focus stack and the fused picture."""
    with tempfile.TemporaryDirectory() as folder:
        sources = [read_image(upload.path).pixels for upload in focus_stack(Path(folder))]
    return [*sources, MultiFocusFusion(n_jobs=-1).fuse(sources).image]


def scaled(pixels: Any) -> Image.Image:
    """Return a picture as high as the banner."""
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    return picture.resize((round(picture.width * HEIGHT / picture.height), HEIGHT), Image.Resampling.LANCZOS)


def main() -> None:
    """Draw and write the banner."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("docs/_static/banner.jpg"))
    output = parser.parse_args().output
    near, far, fused, sharp, blurred = (scaled(panel) for panel in (*fused_stack(), *paired_atoms()))
    part = (120, 0, 380, HEIGHT)  # a part of each source that is sharp in one place and blurred in another
    pictures = [near.crop(part), far.crop(part), fused, sharp, blurred]
    banner = Image.new("RGB", (sum(p.width for p in pictures) + GAP * (len(pictures) - 1), HEIGHT), "white")
    left = 0
    for picture in pictures:
        banner.paste(picture, (left, 0))
        left += picture.width + GAP
    banner.save(output, quality=85, optimize=True)
    print(f"Wrote {output}: {banner.width} x {banner.height} pixels, {output.stat().st_size / 1000:.0f} kB.")


if __name__ == "__main__":
    main()
