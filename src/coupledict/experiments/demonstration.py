"""The demo: a photograph predicted from a blurred one, and a focus stack fused into one sharp picture."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d
from sklearn.linear_model import RidgeCV

from ..estimators.coupled import CoupledDictionaryLearning
from ..foundation.arrays import Array
from ..foundation.progress import Callback
from ..images import MultiFocusFusion
from .figures import new_figure
from .reproduction import Picture, count_steps, run_experiments
from .sources import bundled_image
from .steps import BeginStep, Steps

SIDE, BLUR = 8, 1.5
N_PATCHES = 20_000
RIDGE_ALPHAS = np.logspace(-3, 3, 7)
OWN_STEPS = 3  # steps of predict_photograph and fuse_photographs


def demonstrate(
    output: Path, *, threads: int, command: str, callback: Callback | None = None, replace: bool = True
) -> tuple[list[str], dict[str, Any]]:
    """Draw ``prediction.png`` and ``fusion.png`` and run the experiments in short, all in one folder.

    Parameters
    ----------
    output : Path
        Created if missing. Files in it are replaced atomically when everything is done.
    command : str
        Command line that the report shows.
    callback : callable, optional
        Called as each step begins.
    replace : bool, default=True
        Whether files of the same names are replaced.

    Returns
    -------
    sentences : list of str
        What the pictures show.
    results : dict
        The content of ``results.json``.
    """
    steps = Steps(callback, OWN_STEPS + count_steps(quick=True))
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=output) as name:
        folder = Path(name)
        learned, prediction = predict_photograph(folder, threads, steps.begin)
        pictures = [prediction, fuse_photographs(folder, threads, steps.begin)]
        results = run_experiments(
            output,
            quick=True,
            threads=threads,
            command=command,
            begin=steps.begin,
            replace=replace,
            pictures=pictures,
        )
    return [learned, *(f"{picture.path.name}: {picture.caption}" for picture in pictures)], results


def paired_patches(picture: Array, n_patches: int | None = None) -> tuple[list[Array], list[Array]]:
    """Return mean-centred sharp and blurred patches of a picture, and the means."""
    pair = np.dstack([picture, gaussian_filter(picture, BLUR)])
    patches = extract_patches_2d(pair, (SIDE, SIDE), max_patches=n_patches, random_state=0)
    views = [np.ascontiguousarray(patches[..., v]).reshape(len(patches), -1) for v in (0, 1)]
    means = [view.mean(axis=1, keepdims=True) for view in views]
    return [view - mean for view, mean in zip(views, means, strict=True)], means


def predict_photograph(output: Path, threads: int, begin: BeginStep) -> tuple[str, Picture]:
    """Draw ``prediction.png``; return a sentence about what was learned, and the picture."""
    begin(f"learning from {N_PATCHES:,} sharp and blurred patches of a photograph")
    views, _ = paired_patches(bundled_image("camera"), N_PATCHES)
    learner = CoupledDictionaryLearning(n_jobs=threads, random_state=0).fit(views)
    begin("predicting another photograph from its blurred copy")
    picture = bundled_image("coins")[:256, :256]
    (_, blurred), (_, means) = paired_patches(picture)

    def assembled(patches: Array) -> Array:
        return np.asarray(reconstruct_from_patches_2d((patches + means).reshape(-1, SIDE, SIDE), picture.shape))

    restored = assembled(learner.predict([None, blurred], view=0))
    panels = {"photograph": picture, "blurred": gaussian_filter(picture, BLUR), "predicted from the blurred": restored}
    errors = {title: _rms(panel - picture) for title, panel in panels.items()}
    ridge = RidgeCV(RIDGE_ALPHAS).fit(views[1], views[0])
    _draw(panels, errors, output / "prediction.png")
    learned = (
        f"Learned {len(learner.components_[0])} pairs of atoms in {learner.history_[-1]['seconds']:.1f} s;"
        f" {learner.history_[-1]['limit']} of them explain {learner.score(views):.0%} of both views."
    )
    caption = (
        f"A photograph that learning did not use, blurred (RMS error {errors['blurred']:.1f}) and predicted from the"
        f" blurred one (RMS error {errors['predicted from the blurred']:.1f}). Ridge regression on the same patches has"
        f" {_rms(assembled(ridge.predict(blurred)) - picture):.1f}: a blur is linear."
    )
    return learned, Picture(output / "prediction.png", "Three pictures of coins: sharp, blurred, predicted.", caption)


def fuse_photographs(output: Path, threads: int, begin: BeginStep) -> Picture:
    """Draw ``fusion.png``."""
    begin("fusing two photographs that are in focus in different places")
    sharp = bundled_image("rocket")[60:360, 120:560].astype(np.uint8)
    soft = gaussian_filter(sharp, 2.5)
    rows, columns = np.indices(sharp.shape)
    near = (rows - 150) ** 2 + (columns - 220) ** 2 < 110**2  # a disc in the middle
    sources = [np.where(near, sharp, soft), np.where(near, soft, sharp)]
    fused = MultiFocusFusion(register=False, n_jobs=threads).fuse(sources)
    right = float(np.mean((fused.decision == 0) == near))
    panels = {"in focus in the middle": sources[0], "in focus around it": sources[1], "fused": fused.image}
    errors = {title: _rms(panel.astype(float) - sharp) for title, panel in panels.items()}
    _draw(panels, errors, output / "fusion.png")
    caption = f"Two photographs fused into one; {right:.1%} of the pixels are from the photograph in focus there."
    alt = "A rocket three times: in focus in the middle, in focus around it, and fused, in focus everywhere."
    return Picture(output / "fusion.png", alt, caption)


def _rms(errors: Array) -> float:
    return float(np.sqrt(np.mean(errors**2)))


def _draw(panels: dict[str, Array], errors: dict[str, float], path: Path) -> None:
    height, width = next(iter(panels.values())).shape
    figure = new_figure(12, 12 / len(panels) * height / width + 0.8)
    axes: Any = figure.subplots(1, len(panels))
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        axis.imshow(panel, cmap="gray", vmin=0, vmax=255)
        axis.set_title(f"{title}\nRMS error {errors[title]:.1f}" if errors[title] > 0 else title)
        axis.set_axis_off()
    figure.savefig(path, dpi=110)
