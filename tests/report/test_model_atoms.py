"""What is shown as the atoms of a model of a task."""

from __future__ import annotations

import numpy as np

from coupledict.images import SuperResolution
from coupledict.report._models import model_atoms


def test_the_detail_an_anchor_adds_is_what_its_map_makes_of_it():
    model = SuperResolution.pretrained(2)
    atoms = model_atoms(model).dictionaries
    for k in (0, 7):
        low = model.projection_ @ model.components_[k]
        high = model.basis_.T @ (model.details_[k].T @ model.components_[k])
        np.testing.assert_allclose(atoms[0][k], low, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(atoms[1][k], high, rtol=1e-4, atol=1e-5)
