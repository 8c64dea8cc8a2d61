"""Make the dictionary that multi-focus fusion ships with.

Run ``python tools/train_fusion.py`` from the root of the project. It learns from the photographs of scikit-image whose
rights are stated, and from copies of them blurred by Gaussians, as lenses out of focus nearly do, and by discs, as
ideal lenses would. Two runs write the same file, to the last bit, on one machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import skimage.data
from scipy import ndimage

from coupledict.experiments.sources import STATED_RIGHTS
from coupledict.images import MultiFocusFusion

PHOTOGRAPHS = STATED_RIGHTS  # what is learned from
GAUSSIANS = (1.0, 2.0)  # standard deviations in pixels
DISCS = (1.0, 2.0, 4.0)  # radii in pixels
TARGET = Path(__file__).resolve().parent.parent / "src" / "coupledict" / "images" / "models" / "fusion.safetensors"

Grey = npt.NDArray[np.float32]


def photograph(name: str) -> Grey:
    """Return a photograph that ships with scikit-image, as brightness from 0 to 255."""
    image = getattr(skimage.data, name)().astype(np.float32)
    return image if image.ndim == 2 else image @ np.array([0.299, 0.587, 0.114], np.float32)


def disc(radius: float) -> npt.NDArray[np.float64]:
    """Return the picture of a point through a lens out of focus: a disc with smooth edges and sum 1."""
    reach = np.arange(-np.ceil(radius), np.ceil(radius) + 1)
    values = np.clip(radius + 0.5 - np.hypot(*np.meshgrid(reach, reach)), 0, 1)
    return values / values.sum()


def blurs(image: Grey) -> list[Grey]:
    """Return the image blurred in every way."""
    soft = [ndimage.gaussian_filter(image, sigma, mode="mirror") for sigma in GAUSSIANS]
    return soft + [ndimage.convolve(image, disc(radius), mode="mirror") for radius in DISCS]


def train(names: tuple[str, ...], **parameters: Any) -> MultiFocusFusion:
    """Return a fusion that has learned from these photographs."""
    images = [photograph(name) for name in names]
    focused = [image for image in images for _ in range(len(GAUSSIANS) + len(DISCS))]
    blurred = [soft for image in images for soft in blurs(image)]
    return MultiFocusFusion(random_state=0, n_jobs=-1, **parameters).fit([focused, blurred])


def main() -> None:
    """Learn and write."""
    parser = argparse.ArgumentParser(description="Make the dictionary that multi-focus fusion ships with.")
    parser.add_argument("--output", type=Path, default=TARGET, help="file to write (default: the one that ships)")
    output = parser.parse_args().output
    fusion = train(PHOTOGRAPHS).set_params(n_jobs=None)
    fusion.learner_.set_params(n_jobs=None)
    for record in fusion.learner_.history_:
        record["seconds"] = 0.0  # what a file holds must not depend on how fast it was made
    output.parent.mkdir(parents=True, exist_ok=True)
    fusion.save(output)
    last = fusion.learner_.history_[-1]
    print(f"{output}: {output.stat().st_size} bytes, RMS error {last['rms']:.4f}, {last['unused']} atoms unused.")


if __name__ == "__main__":
    main()
