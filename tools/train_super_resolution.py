"""Rebuild the super-resolution models that come with the package.

Run ``python tools/train_super_resolution.py`` from the root of the project. The models learn from the photographs
of scikit-image whose rights are stated; nothing is downloaded. The number of anchors is a compromise between size and
quality: half as many cost 0.05 dB, twice as many add 0.03 dB. It takes about ten seconds per scale. Two runs write the
same files, to the last bit, on one machine.

``--restoration`` rebuilds what mends noise and compression before a picture is enlarged; it takes about a minute.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from skimage import data

from coupledict.experiments.sources import STATED_RIGHTS
from coupledict.images import SuperResolution
from coupledict.images._sr_pictures import brightness
from coupledict.images._sr_restoration import FILE
from coupledict.images._sr_restoration_learning import Settings, learn

MODELS = Path(__file__).parents[1] / "src" / "coupledict" / "images" / "models"
PHOTOGRAPHS = STATED_RIGHTS  # what is learned from


def main() -> None:
    """Train and write one model for each scale, or the restoration."""
    parser = argparse.ArgumentParser(description="Rebuild the super-resolution models that come with the package.")
    parser.add_argument("--output", type=Path, default=MODELS, help="folder of the models (%(default)s)")
    parser.add_argument("--scales", type=int, nargs="*", default=[2, 3, 4])
    parser.add_argument("--components", type=int, default=512, help="anchors of a model (%(default)s)")
    parser.add_argument("--restoration", action="store_true", help="rebuild the restoration instead of the scales")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    if arguments.restoration:
        train_restoration(arguments.output / FILE)
    else:
        for scale in arguments.scales:
            train_scale(scale, arguments.components, arguments.output / f"super_resolution_x{scale}.safetensors")


def train_scale(scale: int, n_components: int, path: Path) -> None:
    """Train and write the model of a scale."""
    began = time.perf_counter()
    images = [getattr(data, name)() for name in PHOTOGRAPHS]
    model = SuperResolution(scale, n_components=n_components, n_jobs=-1, random_state=0).fit(images)
    model.set_params(n_jobs=None)
    model._to_state(half=True).write(path)
    tell(path, f"{model.n_samples_:,} patches", began)


def train_restoration(path: Path) -> None:
    """Train and write what mends noise and compression."""
    began = time.perf_counter()
    planes = [brightness(getattr(data, name)()) for name in PHOTOGRAPHS]
    settings = Settings()
    learn(planes, settings).to_state().write(path)
    tell(path, f"{settings.n_samples:,} patches for each level", began)


def tell(path: Path, what: str, began: float) -> None:
    """Print the size of a file, what it was learned from, and how long it took."""
    seconds, size = time.perf_counter() - began, path.stat().st_size
    print(f"{path.name}: {what}, {size / 1e6:.2f} MB, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
