"""Which bins of a frame a model reads and which it predicts, for each kind of narrow-band speech."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ._frames import FIRST_HIGH, LENGTH

N_BINS = LENGTH // 2 + 1


@dataclass(frozen=True)
class Copy:
    """Where the fine structure of some predicted bins comes from.

    Bin b of ``range(start, stop)`` is taken from bin ``offset - b``, its conjugate, if `mirrored`, and from
    ``b - offset`` otherwise. Offsets are multiples of ``LENGTH // HOP``: then copies of successive frames are frames of
    one signal.
    """

    start: int
    stop: int
    offset: int
    mirrored: bool


@dataclass(frozen=True)
class Layout:
    """The bins of one kind of narrow-band speech.

    Attributes
    ----------
    kind : str
        Name of the kind.
    low : slice
        Bins that are read.
    first : int
        First bin that is predicted; all above it are.
    copies : sequence of Copy
        Fine structure of the predicted bins.
    caution : float
        How much more a strength below 0.5 weakens what is predicted than it does for narrow-band speech.
    """

    kind: str
    low: slice
    first: int
    copies: Sequence[Copy]
    caution: float = 1.0

    @property
    def n_low(self) -> int:
        """Bins that are read."""
        return int(self.low.stop - self.low.start)

    @property
    def n_high(self) -> int:
        """Bins that are predicted."""
        return N_BINS - self.first


# 62 to 3844 Hz are what filters at both ends leave of a narrow band. It is mirrored at 4 kHz; what is below it, an
# offset for instance, is left out: it would become a tone at 8 kHz.
NARROW = Layout("narrow", slice(2, 124), FIRST_HIGH, (Copy(FIRST_HIGH, N_BINS - 2, LENGTH // 2, True),))
# 312 to 3312 Hz are what telephones pass. They are mirrored at 3375 Hz, up to 6.4 kHz, and shifted to what is above.
# They tell less about the high band, and listeners, as PESQ models them, accept less of what is wrong.
TELEPHONE = Layout("telephone", slice(10, 107), 108, (Copy(108, 206, 216, True), Copy(206, N_BINS, 152, False)), 1.5)
LAYOUTS = {layout.kind: layout for layout in (NARROW, TELEPHONE)}
