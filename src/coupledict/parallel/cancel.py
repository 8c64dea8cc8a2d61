"""The cancel token: how threads and kernels learn that their result is no longer wanted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class Cancelled(Exception):  # noqa: N818  (not an error: the canceller knows why)
    """Raised when work ends because its token was cancelled; it has no result."""


class CancelToken:
    """A flag that any thread may set, once, to end some work.

    Nested work has a token whose parent is the token of the outer work: cancelling the outer token cancels the inner
    ones, while cancelling an inner token leaves the outer work and its other parts alone.

    Parameters
    ----------
    parent : CancelToken, optional

    Attributes
    ----------
    flag : int32 array of one number
        Nonzero once the outermost token is cancelled; kernels read it in the middle of a chunk.
    """

    def __init__(self, parent: CancelToken | None = None) -> None:
        self._parent = parent
        self._cancelled = False
        self.flag: npt.NDArray[np.int32] = np.zeros(1, np.int32) if parent is None else parent.flag

    @property
    def cancelled(self) -> bool:
        """Whether this token or one of its parents was cancelled."""
        return self._cancelled or (self._parent is not None and self._parent.cancelled)

    def cancel(self) -> None:
        """Ask for the work to end."""
        self._cancelled = True
        if self._parent is None:
            self.flag[0] = 1
