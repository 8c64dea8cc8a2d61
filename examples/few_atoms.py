"""See how many atoms a photograph needs.

Every 8 x 8 patch is described by T atoms of a cosine dictionary: with T = 1 the picture is already there, and with each
further atom it gets finer. Orthogonal least squares (OLS) chooses atoms a little better than orthogonal matching
pursuit (OMP).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt

mpl.use("Agg")
import matplotlib.pyplot as plt
from skimage import data
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

from coupledict import build_info, dct_dictionary, sparse_encode

SIDE = 8
Image = npt.NDArray[np.float32]


def code_picture(picture: Image, atoms: Image, n_nonzero: int, pursuit: str) -> tuple[Image, float, float]:
    """Return the picture rebuilt from its codes, its RMS error in grey values, and the seconds that coding took."""
    patches = extract_patches_2d(picture, (SIDE, SIDE)).reshape(-1, SIDE * SIDE)
    means = patches.mean(axis=1, keepdims=True)
    start = time.perf_counter()
    codes = sparse_encode(patches - means, atoms, n_nonzero_coefs=n_nonzero, pursuit=pursuit, n_jobs=-1)
    seconds = time.perf_counter() - start
    rebuilt = (codes @ atoms + means).reshape(-1, SIDE, SIDE)
    result = reconstruct_from_patches_2d(rebuilt, picture.shape).astype(np.float32)
    return result, float(np.sqrt(np.mean((result - picture) ** 2))), seconds


def draw(picture: Image, results: dict[int, tuple[Image, float]], curves: dict[str, list[float]], path: Path) -> None:
    """Write the figure: pictures above, what is missing below, the errors at the right."""
    figure, axes = plt.subplots(2, len(results) + 2, figsize=(3.1 * (len(results) + 2), 6.6), layout="constrained")
    axes[0, 0].imshow(picture, cmap="gray", vmin=0, vmax=255)
    axes[0, 0].set_title("photograph")
    for column, (n_nonzero, (result, error)) in enumerate(results.items(), start=1):
        axes[0, column].imshow(result, cmap="gray", vmin=0, vmax=255)
        axes[0, column].set_title(f"{n_nonzero} atom{'s' * (n_nonzero > 1)} a patch\nRMS error {error:.1f}")
        axes[1, column].imshow(result - picture, cmap="RdBu_r", vmin=-40, vmax=40)
    for axis in axes.flat:
        axis.set_axis_off()
    grid = axes[0, -1].get_gridspec()
    axes[0, -1].remove()
    axes[1, -1].remove()
    curve = figure.add_subplot(grid[:, -1])
    for pursuit, errors in curves.items():
        curve.semilogy(list(results), errors, "o-", label=pursuit.upper())
    curve.set(xlabel="atoms a patch", ylabel="RMS error (grey values)")
    curve.set_xticks(list(results))
    curve.grid(alpha=0.3, which="both")
    curve.legend(frameon=False)
    axes[1, 0].text(0.95, 0.5, "what is missing\n(red: too bright,\nblue: too dark)", ha="right", va="center",
                    transform=axes[1, 0].transAxes)  # fmt: skip
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("output/examples"), help="folder for the picture")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    picture = data.camera()[60:316, 120:376].astype(np.float32)
    atoms = dct_dictionary((SIDE, SIDE), 256).astype(np.float32)
    results: dict[int, tuple[Image, float]] = {}
    curves: dict[str, list[float]] = {"omp": [], "ols": []}
    n_patches = (picture.shape[0] - SIDE + 1) * (picture.shape[1] - SIDE + 1)
    print(f"Coding {n_patches:,} patches over {len(atoms)} atoms ({build_info()['simd']}) ...")
    for n_nonzero in (1, 2, 4, 8):
        for pursuit in curves:
            result, error, seconds = code_picture(picture, atoms, n_nonzero, pursuit)
            curves[pursuit].append(error)
            print(f"  {pursuit.upper()}, {n_nonzero} atoms a patch: RMS error {error:5.2f}, {1e3 * seconds:5.0f} ms")
            if pursuit == "omp":
                results[n_nonzero] = result, error
    path = output / "few_atoms.png"
    draw(picture, results, curves, path)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
