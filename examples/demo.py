"""Learn paired atoms of sharp and blurred patches, predict one from the other, and code a photograph with few atoms.

The first figure shows two dictionaries that were learned together: atom t of the blurred view is the blurred partner of
atom t of the sharp one. The second shows patches of a photograph that learning has not seen, predicted from their
blurred versions. For the third, every 8 x 8 patch of a photograph is described by T atoms of a cosine dictionary: with
T = 1 the picture is already there, and with each further atom it gets finer.
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
from scipy.ndimage import gaussian_filter
from skimage import data
from sklearn.feature_extraction.image import extract_patches_2d, reconstruct_from_patches_2d

from coupledict import CoupledDictionaryLearning, build_info, dct_dictionary, sparse_encode
from coupledict.plotting import plot_pairs

SIDE = 8
Image = npt.NDArray[np.float32]


def paired_patches(picture: Image, blur: float, n_patches: int | None) -> tuple[list[Image], list[Image]]:
    """Return sharp and blurred patches without their means, and the means."""
    pair = np.dstack([picture, gaussian_filter(picture, blur)])
    patches = extract_patches_2d(pair, (SIDE, SIDE), max_patches=n_patches, random_state=0)
    views = [np.ascontiguousarray(patches[..., v]).reshape(len(patches), -1) for v in (0, 1)]
    means = [view.mean(axis=1, keepdims=True) for view in views]
    return [view - mean for view, mean in zip(views, means, strict=True)], means


def learn_pairs(output: Path, blur: float = 1.5) -> None:
    """Learn coupled dictionaries, draw them, and predict a sharp photograph from a blurred one."""
    views, _ = paired_patches(data.camera().astype(np.float32), blur, 20_000)
    print("Learning 256 pairs of atoms from 20,000 sharp and blurred patches ...")
    learner = CoupledDictionaryLearning(256, n_nonzero_coefs=5, n_jobs=-1, random_state=0).fit(views)
    last = learner.history_[-1]
    print(f"  {last['seconds']:.1f} s; five atoms explain {100 * learner.score(views):.1f} % of both views")
    use = np.argsort(-np.diff(learner.transform(views).tocsc().indptr))
    axes = plot_pairs(learner.components_, order=use, labels=["sharp atoms", "their blurred partners"])
    axes[0].figure.savefig(output / "pairs.png", dpi=110)
    plt.close(axes[0].figure)

    picture = data.coins().astype(np.float32)[:256, :256]
    (_, blurred), (_, means) = paired_patches(picture, blur, None)
    predicted = (learner.predict([None, blurred], view=0) + means).reshape(-1, SIDE, SIDE)
    restored = reconstruct_from_patches_2d(predicted, picture.shape)
    panels = {"photograph": picture, "blurred": gaussian_filter(picture, blur), "predicted from the blurred": restored}
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.9), layout="constrained")
    for axis, (title, panel) in zip(axes, panels.items(), strict=True):
        error = float(np.sqrt(np.mean((panel - picture) ** 2)))
        axis.imshow(panel, cmap="gray", vmin=0, vmax=255)
        axis.set_title(title if panel is picture else f"{title}\nRMS error {error:.1f}")
        axis.set_axis_off()
        if panel is not picture:
            print(f"  a photograph it has not seen, {title}: RMS error {error:.2f}")
    figure.savefig(output / "prediction.png", dpi=110)
    plt.close(figure)


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
    parser.add_argument("--output", type=Path, default=Path("output/demo"), help="folder for the picture")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    learn_pairs(output)
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
    path = output / "patches.png"
    draw(picture, results, curves, path)
    print(f"Wrote pairs.png, prediction.png and {path.name} in {output}. Next: the ten lines in README.md.")


if __name__ == "__main__":
    main()
