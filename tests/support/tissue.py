"""Stained tissue whose colours and densities are known."""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter

from coupledict.images._stain_learning import unit_rows

ONE_LOOK = unit_rows(np.array([[0.65, 0.70, 0.29], [0.21, 0.95, 0.22]]))
OTHER_LOOK = unit_rows(np.array([[0.75, 0.62, 0.20], [0.12, 0.90, 0.40]]))


def tissue(seed=0, shape=(160, 170), shared=0.1):
    """Densities of nuclei, which have hematoxylin and some eosin, in stroma, which has eosin; gaps have neither."""
    rng = np.random.default_rng(seed)
    nuclei, stroma = (gaussian_filter(rng.standard_normal(shape), width, mode="wrap") for width in (3, 12))
    nuclei = np.maximum(nuclei / nuclei.std() - 0.8, 0) * 1.2
    stroma = np.clip(stroma / stroma.std() + 0.5, 0, 2) * 0.5 * np.where(nuclei > 0, shared, 1)
    return np.stack([nuclei, stroma], axis=2)


def light(densities, colours=ONE_LOOK, white=(1, 1, 1), noise=0.0, seed=0):
    """The light that passes stains, as a share of the range."""
    passed = np.asarray(white) * np.exp(-densities @ colours)
    return np.clip(passed + noise * np.random.default_rng(seed).standard_normal(passed.shape), 0, 1)


def eight_bits(passed):
    return np.rint(255 * passed).astype(np.uint8)


DENSITIES = tissue()
TILE = eight_bits(light(DENSITIES, noise=0.005))
