"""The demo: a sharp photograph predicted from a blurred one, over dictionaries learned on another photograph."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

from .._learner import CoupledDictionaryLearning
from .._views import Array
from .figures import new_figure
from .sources import bundled_image

SIDE, BLUR = 8, 1.5
N_PATCHES, N_COMPONENTS, N_NONZERO = 20_000, 256, 5


def paired_patches(picture: Array, n_patches: int | None = None) -> tuple[list[Array], list[Array]]:
    """Return sharp and blurred patches of a picture without their means, and the means."""
    pair = np.dstack([picture, gaussian_filter(picture, BLUR)])
    patches = extract_patches_2d(pair, (SIDE, SIDE), max_patches=n_patches, random_state=0)
    views = [np.ascontiguousarray(patches[..., v]).reshape(len(patches), -1) for v in (0, 1)]
    means = [view.mean(axis=1, keepdims=True) for view in views]
    return [view - mean for view, mean in zip(views, means, strict=True)], means


def predict_photograph(output: Path, threads: int, progress: Callable[[str], None]) -> list[str]:
    """Draw ``prediction.png``; return what it shows, in sentences."""
    progress(f"learning {N_COMPONENTS} pairs of atoms from {N_PATCHES:,} sharp and blurred patches of a photograph")
    views, _ = paired_patches(bundled_image("camera"), N_PATCHES)
    learner = CoupledDictionaryLearning(N_COMPONENTS, n_nonzero_coefs=N_NONZERO, n_jobs=threads, random_state=0)
    learner.fit(views)
    progress("predicting another photograph from its blurred copy")
    picture = bundled_image("coins")[:256, :256]
    (_, blurred), (_, means) = paired_patches(picture)
    predicted = (learner.predict([None, blurred], view=0) + means).reshape(-1, SIDE, SIDE)
    restored = reconstruct_from_patches_2d(predicted, picture.shape)
    panels = {"photograph": picture, "blurred": gaussian_filter(picture, BLUR), "predicted from the blurred": restored}
    errors = {title: float(np.sqrt(np.mean((panel - picture) ** 2))) for title, panel in panels.items()}
    _draw(panels, errors, output / "prediction.png")
    return [
        f"Learned {N_COMPONENTS} pairs of atoms in {learner.history_[-1]['seconds']:.1f} s; five of them explain"
        f" {learner.score(views):.0%} of both views.",
        f"prediction.png: a photograph that learning has not seen, blurred (RMS error {errors['blurred']:.1f}) and"
        f" predicted from that (RMS error {errors['predicted from the blurred']:.1f}).",
    ]


def _draw(panels: dict[str, Array], errors: dict[str, float], path: Path) -> None:
    figure = new_figure(12, 4.9)
    axes: Any = figure.subplots(1, len(panels))
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        axis.imshow(panel, cmap="gray", vmin=0, vmax=255)
        axis.set_title(f"{title}\nRMS error {errors[title]:.1f}" if errors[title] > 0 else title)
        axis.set_axis_off()
    figure.savefig(path, dpi=110)
