"""Fuse three photographs that are in focus in different places into one that is in focus everywhere.

The stack is made from one photograph, so that the truth is known: each third of it is sharp in one source and blurred
in the other two. (The dictionary that ships has seen this photograph, but any other does as well: try your own.)
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from scipy.ndimage import gaussian_filter
from skimage import data

from coupledict.images import MultiFocusFusion
from coupledict.images.metrics import psnr


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output/examples"), help="folder for the picture")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    sharp = data.coffee()[40:340, 90:540]
    soft = gaussian_filter(sharp.astype(float), (2.0, 2.0, 0)).round().astype(np.uint8)
    thirds = np.arange(sharp.shape[1]) // 150
    sources = [np.where((thirds == number)[:, None], sharp, soft) for number in range(3)]
    fused, decision = MultiFocusFusion(n_jobs=-1).fuse(sources)
    right = np.mean(decision == thirds)
    print(f"{right:.1%} of the pixels come from the source that is in focus there.")

    panels = {f"source {number + 1}": source for number, source in enumerate(sources)}
    panels |= {"fused": fused, "decision": decision}
    figure, axes = plt.subplots(1, len(panels), figsize=(16, 2.7), layout="constrained")
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        axis.imshow(panel, cmap="viridis")
        axis.set_title(title if panel.ndim == 2 else f"{title}: PSNR {psnr(sharp, panel):.1f} dB")
        axis.set_axis_off()
    path = output / "focus_stack.png"
    figure.savefig(path, dpi=110)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
