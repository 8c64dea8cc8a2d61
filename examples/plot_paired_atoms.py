"""
Paired atoms of sharp and blurred patches
=========================================

Two dictionaries are learned from pairs of patches, one sharp and one blurred, so that
one sparse code explains both. What does an atom become when it is blurred? Its partner,
if they were learned together. In dictionaries learned separately, even the best match
of an atom usually fits less well. This is the first figure of the paper [1]_.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter
from skimage import data

from coupledict import CoupledDictionaryLearning, DictionaryLearning
from coupledict.images import extract_patches
from coupledict.plotting import COLOURS, plot_pairs

# %%
# Two views of every patch
# ------------------------
# The mean of a patch is subtracted; its structure remains.

SIDE, N_PATCHES, N_ATOMS = 8, 20_000, 100

sharp = data.camera().astype(np.float32)
both = np.dstack([sharp, gaussian_filter(sharp, 1.5)])
patches = extract_patches(
    both, (SIDE, SIDE), max_patches=N_PATCHES, random_state=0
).reshape(N_PATCHES, SIDE**2, 2)
views = [patches[..., v] - patches[..., v].mean(axis=1, keepdims=True) for v in (0, 1)]

# %%
# Learned together
# ----------------
# Atom t of one dictionary is the partner of atom t of the other: the same edge or
# texture, sharp and blurred. A pair has norm 1 over both views together; the picture
# shows each atom on its own grey scale. The most used atoms come first.

learner = CoupledDictionaryLearning(
    N_ATOMS, n_nonzero_coefs=5, n_jobs=2, random_state=0
).fit(views)
uses = np.diff(learner.transform(views).tocsc().indptr)
plot_pairs(
    learner.components_,
    labels=["sharp atoms", "blurred atoms"],
    order=np.argsort(-uses),
)
print(f"Five atoms explain {learner.score(views):.1%} of the energy of both views.")

# %%
# Learned separately
# ------------------
# The same number of atoms is learned from each view alone. For a fair comparison, each
# sharp atom may also choose the best-fitting blurred atom, whatever its number.
#
# A linear map from sharp to blurred patches blurs the atoms.

apart = [
    DictionaryLearning(N_ATOMS, n_nonzero_coefs=5, n_jobs=2, random_state=0).fit(view)
    for view in views
]
blur = np.linalg.lstsq(views[0], views[1], rcond=None)[0]


def likeness(sharp_atoms, blurred_atoms):
    """Return how every sharp atom, blurred, correlates with every blurred atom."""
    blurred = sharp_atoms @ blur
    units = [
        atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
        for atoms in (blurred, blurred_atoms)
    ]
    return np.abs(units[0] @ units[1].T)


found = {
    "together: atom t and atom t": np.diag(likeness(*learner.components_)),
    "apart: atom t and the best of all": likeness(
        *(each.components_ for each in apart)
    ).max(axis=1),
    "apart: atom t and atom t": np.diag(
        likeness(*(each.components_ for each in apart))
    ),
}
figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
for (name, values), colour in zip(found.items(), COLOURS, strict=False):
    axis.plot(
        np.sort(values)[::-1],
        color=colour,
        label=f"{name} (median {np.median(values):.2f})",
    )
axis.set(
    xlabel="atoms, best first",
    ylabel="correlation of a blurred atom\nwith its partner",
    ylim=(0, 1.02),
)
axis.grid(alpha=0.3)
axis.legend(frameon=False, loc="lower left")
plt.show()

# %%
# References
# ----------
# .. [1] F. G. Veshki and S. A. Vorobyov, "A Fast Dictionary Learning Method for
#    Coupled Feature Space Learning", IEEE Signal Processing Letters 26(10), 2019.
#    doi:10.1109/LSP.2019.2934045
