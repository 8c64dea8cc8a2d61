"""Enlarge a photograph three times, by a model learned from other photographs.

The small photograph is made from a large one, so that the truth is known. The model that ships with the package
(``SuperResolution.pretrained(3)``) has seen this very photograph, so one is learned here that has not.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from skimage import data

from coupledict.images import SuperResolution, imresize
from coupledict.images.metrics import psnr

SCALE = 3


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output/examples"), help="folder for the picture")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    large = data.chelsea()[15:255, 60:390]
    small = imresize(large, 1 / SCALE)
    results = {"pixels": small.repeat(SCALE, axis=0).repeat(SCALE, axis=1), "bicubic": imresize(small, SCALE)}
    others = [data.astronaut(), data.coffee(), data.camera(), data.rocket()]
    for method in ("coupled", "anchored"):
        model = SuperResolution(SCALE, method=method, n_components=512, n_jobs=-1, random_state=0).fit(others)
        began = time.perf_counter()
        results[method] = model.upscale(small)
        seconds = time.perf_counter() - began
        print(f"{method}: {1e3 * seconds:.0f} ms, PSNR {psnr(large, results[method], crop=SCALE):.2f} dB")
    print(f"bicubic: PSNR {psnr(large, results['bicubic'], crop=SCALE):.2f} dB")

    panels = results | {"truth": large}
    figure, axes = plt.subplots(1, len(panels), figsize=(16, 3.6), layout="constrained")
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        axis.imshow(panel[60:190, 20:180])
        score = "" if panel is large else f"\nPSNR {psnr(large, panel, crop=SCALE):.2f} dB"
        axis.set_title(title + score)
        axis.set_axis_off()
    path = output / "enlarge.png"
    figure.savefig(path, dpi=110)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
