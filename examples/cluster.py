"""Learn coupled dictionaries on a Dask cluster, from Zarr stores, with a checkpoint to go on from.

    python examples/cluster.py                                             # two processes on this machine, demo stores
    python examples/cluster.py --address tcp://scheduler:8786 sharp.zarr blurred.zarr
    python examples/cluster.py --address tcp://scheduler:8786 sharp.zarr blurred.zarr --resume    # after a bad day

Each store holds one view, an array (n_samples, n_features) chunked along the samples, at a path that all workers can
read. The demo stores hold sharp and blurred patches of photographs. The picture shows the atoms and the error.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import dask.array as da
import numpy as np
import zarr
from distributed import Client, LocalCluster

from coupledict import CoupledDictionaryLearning

# Worker processes import this file, too: what they do not need is imported where it is used.

SIDE = 8
CHUNK = 4096  # samples; 10,000 to 1,000,000 are good for real work
N_COMPONENTS = 256


def write_demo_stores(folder: Path, n_samples: int = 40_000) -> list[str]:
    """Write pairs of sharp and blurred patches as two Zarr stores; return their paths."""
    from scipy.ndimage import gaussian_filter
    from skimage import data

    from coupledict.images import extract_patches

    pictures = [picture.astype(np.float32) for picture in (data.camera(), data.brick(), data.grass(), data.gravel())]
    share = n_samples // len(pictures)
    both = [np.dstack([picture, gaussian_filter(picture, 1.5)]) for picture in pictures]
    patches = np.concatenate([extract_patches(pair, (SIDE, SIDE), n_patches=share, random_state=0) for pair in both])
    np.random.default_rng(0).shuffle(patches)  # chunks that are like each other make a better start
    paths = []
    for v, name in enumerate(("sharp", "blurred")):
        view = patches[..., v].reshape(len(patches), -1)
        paths.append(str(folder / f"{name}.zarr"))
        zarr.create_array(paths[-1], data=view - view.mean(axis=1, keepdims=True), chunks=(CHUNK, view.shape[1]))
    return paths


def draw(learner: CoupledDictionaryLearning, names: list[str], path: Path) -> None:
    """Write the figure: the atoms of each view, if they are square patches, and the error by iteration and time."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from coupledict.plotting import plot_atoms

    square = [round(d.shape[1] ** 0.5) ** 2 == d.shape[1] for d in learner.components_]
    figure, axes = plt.subplots(1, sum(square) + 2, figsize=(4 * (sum(square) + 2), 4.2), layout="constrained")
    shown = [v for v, fits in enumerate(square) if fits]
    for axis, v in zip(axes, shown, strict=False):
        plot_atoms(learner.components_[v], ax=axis, title=names[v])
    errors = [record["rms"] for record in learner.history_]
    seconds = [record["seconds"] for record in learner.history_]
    for axis, where, label in ((axes[-2], range(1, len(errors) + 1), "iteration"), (axes[-1], seconds, "seconds")):
        axis.plot(where, errors, "o-", markersize=3)
        axis.set(xlabel=label, ylabel="RMS error of the samples seen")
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stores", nargs="*", help="Zarr stores, one a view; demo stores if left out")
    parser.add_argument("--address", help="address of a Dask scheduler; two processes are started here if left out")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint of a fit that was stopped")
    parser.add_argument("--output", type=Path, default=Path("output/examples"), help="folder for picture and model")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    checkpoint = options.output / "cluster.checkpoint"

    with tempfile.TemporaryDirectory() as folder:
        stores = options.stores or write_demo_stores(Path(folder))
        local = None if options.address else LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        with Client(options.address or local) as client:
            client.wait_for_workers(1, timeout=60)
            threads = client.nthreads()
            views = [da.from_zarr(store) for store in stores]
            print(f"{len(threads)} workers, {sum(threads.values())} threads; views {[view.shape for view in views]}")
            learner = CoupledDictionaryLearning(
                N_COMPONENTS, n_nonzero_coefs=5, max_iter=20, view_weights="balanced", random_state=0, verbose=1
            )
            began = time.perf_counter()
            learner.fit(views, checkpoint=checkpoint, resume=checkpoint if options.resume else None)
            print(f"learned in {time.perf_counter() - began:.1f} s, explains {learner.score(views):.4f} of the energy")
            codes = learner.transform(views)  # a Dask array with sparse chunks: nothing is computed yet
            print(f"the first codes: {codes[:1000].compute().nnz / 1000:.2f} atoms a sample")
        if local is not None:
            local.close()
    learner.save(options.output / "cluster.safetensors")
    path = options.output / "cluster.png"
    draw(learner, [Path(store).stem for store in stores], path)
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
