"""What happens to samples with missing entries before they are coded: some are left out, or all are filled in."""

from __future__ import annotations

import numpy as np

from ..foundation.arrays import Array
from ..kernels import _native
from ..parallel.cancel import CancelToken
from .coder import Coder, Preparation, Scratch
from .filling import Filler


class WholeSamples(Preparation):
    """Leaves out the samples that lack a whole view, by blanking their other views: nothing of them is known then."""

    def __call__(self, views: list[Array], workspace: _native.Workspace, cancel: CancelToken) -> list[Array]:
        """Return the views of a chunk; copies where something changes."""
        lacking = np.logical_or.reduce([np.isnan(view).all(axis=1) for view in views])
        if not lacking.any():
            return views
        return [np.where(lacking[:, None], view.dtype.type(np.nan), view) for view in views]


class Teacher:
    """Fills in what is missing in views that are explained but not coded, by what codes of its own predict there.

    Parameters
    ----------
    coder : Coder
        Codes the views that are coded, over other dictionaries.
    filler : Filler
        Has the dictionaries that predict the other views from these codes.
    """

    def __init__(self, coder: Coder, filler: Filler) -> None:
        self._coder, self._filler = coder, filler

    def fill(
        self, views: list[Array], targets: list[Array], workspace: _native.Workspace, cancel: CancelToken
    ) -> list[Array]:
        """Return the targets of a chunk as new arrays without missing entries; `views` are those that are coded."""
        n = views[0].shape[0]
        scratch = Scratch(workspace, cancel, np.empty(n), np.empty(n, np.uint8))
        return self._filler.fill(targets, self._coder.encode_rows(views, scratch))


class FilledSamples(Preparation):
    """Fills in the missing entries by codes of a coder of its own; the samples are then coded as complete ones."""

    def __init__(self, coder: Coder) -> None:
        self._coder = coder

    def __call__(self, views: list[Array], workspace: _native.Workspace, cancel: CancelToken) -> list[Array]:
        """Return the views of a chunk as new arrays without missing entries."""
        n = views[0].shape[0]
        scratch = Scratch(workspace, cancel, np.empty(n), np.empty(n, np.uint8))
        codes = self._coder.encode_rows(views, scratch)
        if self._coder.filler is None:
            raise ValueError("Expected a coder for samples with missing entries.")
        return self._coder.filler.fill(views, codes)
