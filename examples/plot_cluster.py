"""
Learn on a Dask cluster
=======================

The samples of each view are a Dask array, read from a Zarr store; the workers of the
cluster code them, and only sums travel. Here the cluster is two threads of this
process. On a real cluster, only the address changes, and all workers must be able to
read the stores.
"""

import tempfile
from pathlib import Path

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import zarr
from distributed import Client
from scipy.ndimage import gaussian_filter
from skimage import data

from coupledict import CoupledDictionaryLearning
from coupledict.images import extract_patches
from coupledict.plotting import plot_pairs

# %%
# A store a view
# --------------
# Arrays have the shape (n_samples, n_features), in chunks of samples. Similar chunks
# make a better start, so samples are shuffled first.

SIDE, CHUNK = 8, 4096  # for real work, use 10,000 to 1,000,000 samples per chunk

folder = tempfile.TemporaryDirectory()
pictures = [
    picture.astype(np.float32)
    for picture in (data.camera(), data.brick(), data.grass(), data.gravel())
]
both = [np.dstack([picture, gaussian_filter(picture, 1.5)]) for picture in pictures]
patches = np.concatenate(
    [
        extract_patches(pair, (SIDE, SIDE), max_patches=10_000, random_state=0)
        for pair in both
    ]
)
np.random.default_rng(0).shuffle(patches)
stores = [str(Path(folder.name) / f"{name}.zarr") for name in ("sharp", "blurred")]
for v, store in enumerate(stores):
    view = patches[..., v].reshape(len(patches), -1)
    zarr.create_array(
        store, data=view - view.mean(axis=1, keepdims=True), chunks=(CHUNK, SIDE**2)
    )

# %%
# Learn, with a checkpoint to go on from
# --------------------------------------
# Give ``Client("tcp://scheduler:8786")`` the address of your scheduler; nothing else
# changes. After a crash, ``fit(views, resume=checkpoint)`` continues from the last
# iteration, with a bit-identical result.

client = Client(
    processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None
)
views = [da.from_zarr(store) for store in stores]
checkpoint = Path(folder.name) / "fit.safetensors"
learner = CoupledDictionaryLearning(
    100, n_nonzero_coefs=5, max_iter=20, view_weights="balanced", random_state=0
)
learner.fit(views, checkpoint=checkpoint)
print(
    f"{sum(client.nthreads().values())} threads; views {[view.shape for view in views]}"
)
print(f"explains {learner.score(views):.4f} of the energy")
# a Dask array with sparse chunks: nothing is computed yet
codes = learner.transform(views)
print(f"the first codes: {codes[:1000].compute().nnz / 1000:.2f} atoms per sample")
client.close()
folder.cleanup()

# %%
# The atoms, and the error of the samples that each iteration saw
# ---------------------------------------------------------------

plot_pairs(learner.components_, labels=["sharp", "blurred"])
figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
axis.plot(
    range(1, learner.n_iter_ + 1),
    [record["rms"] for record in learner.history_],
    "o-",
    markersize=4,
)
axis.set(
    xlabel="iteration", ylabel="RMS error of the samples seen", xticks=range(0, 21, 5)
)
axis.grid(alpha=0.3)
plt.show()
