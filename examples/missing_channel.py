"""Predict the blue of a photograph from its red and green.

Three views of each patch: red, green and blue. Dictionaries are learned on three photographs; on another one the codes
of red and green alone say what blue must be. A linear map of the same patches, fitted by ridge, is the rival.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt

mpl.use("Agg")
import matplotlib.pyplot as plt
from skimage import data
from sklearn.linear_model import Ridge

from coupledict import CoupledDictionaryLearning
from coupledict.images import assemble_patches, extract_patches

SIDE = 6
BLUE = 2
Array = npt.NDArray[np.float32]


def channel_patches(picture: npt.NDArray[np.uint8], n_patches: int | None = None) -> tuple[list[Array], Array]:
    """Return the patches of each channel without the mean of red and green, and that mean."""
    patches = extract_patches(picture.astype(np.float32), (SIDE, SIDE), n_patches=n_patches, random_state=0)
    views = [np.ascontiguousarray(patches[..., c]).reshape(len(patches), -1) for c in range(3)]
    means = (views[0].mean(axis=1, keepdims=True) + views[1].mean(axis=1, keepdims=True)) / 2
    return [view - means for view in views], means


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output/examples"), help="folder for the picture")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    known = [channel_patches(picture, 15_000)[0] for picture in (data.coffee(), data.rocket(), data.chelsea())]
    train = [np.concatenate(views) for views in zip(*known, strict=True)]
    learner = CoupledDictionaryLearning(256, n_nonzero_coefs=4, view_weights="balanced", n_jobs=-1, random_state=0).fit(
        train
    )
    rival = Ridge(alpha=1.0).fit(np.hstack(train[:BLUE]), train[BLUE])

    picture = data.astronaut()[:256, 80:400]
    views, means = channel_patches(picture)
    truth = picture[..., BLUE].astype(np.float32)
    guesses = {
        "a linear map": rival.predict(np.hstack(views[:BLUE])),
        "coupled dictionaries": learner.predict([views[0], views[1], None], view=BLUE),
    }
    panels = {"photograph": picture}
    for name, guess in guesses.items():
        blue = assemble_patches((guess + means).reshape(-1, SIDE, SIDE), picture.shape[:2])
        error = float(np.sqrt(np.mean((blue - truth) ** 2)))
        print(f"blue predicted by {name}: RMS error {error:.1f}")
        panels[f"blue by {name}\nRMS error {error:.1f}"] = np.dstack(
            [picture[..., :BLUE], np.clip(np.rint(blue), 0, 255).astype(np.uint8)]
        )
    figure, axes = plt.subplots(1, len(panels), figsize=(13, 4.2), layout="constrained")
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        axis.imshow(panel)
        axis.set_title(title)
        axis.set_axis_off()
    path = output / "missing_channel.png"
    figure.savefig(path, dpi=110)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
