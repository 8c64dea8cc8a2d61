"""Layouts of frames: the bins that a model reads and those that it predicts, for each kind of narrow-band speech."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ._frames import FIRST_HIGH, LENGTH

N_BINS = LENGTH // 2 + 1


@dataclass(frozen=True)
class Copy:
    """The source of the fine structure of some predicted bins.

    Bin b of ``range(start, stop)`` is the conjugate of bin ``offset - b`` if `mirrored`, and bin ``b - offset``
    otherwise. Offsets are multiples of ``LENGTH // HOP``, so that copies of successive frames are frames of one signal.
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
        First predicted bin; all bins above it are predicted too.
    copies : sequence of Copy
        Fine structure of the predicted bins.
    caution : float
        Factor on the attenuation in dB by strengths below 0.5; 1 for narrow-band speech.
    """

    kind: str
    low: slice
    first: int
    copies: Sequence[Copy]
    caution: float = 1.0

    @property
    def n_low(self) -> int:
        """Number of bins that are read."""
        return int(self.low.stop - self.low.start)

    @property
    def n_high(self) -> int:
        """Number of bins that are predicted."""
        return N_BINS - self.first


# Filters at both ends of a narrow band leave 62 to 3844 Hz. The band is mirrored at 4 kHz; what is below it, such as an
# offset, is left out: it would become a tone at 8 kHz.
NARROW = Layout("narrow", slice(2, 124), FIRST_HIGH, (Copy(FIRST_HIGH, N_BINS - 2, LENGTH // 2, True),))
# Telephones pass 312 to 3312 Hz. This band is mirrored at 3375 Hz, up to 6.4 kHz, and shifted to what is above. It
# determines the high band less well, and listeners, as modelled by PESQ, tolerate fewer errors.
TELEPHONE = Layout("telephone", slice(10, 107), 108, (Copy(108, 206, 216, True), Copy(206, N_BINS, 152, False)), 1.5)
LAYOUTS = {layout.kind: layout for layout in (NARROW, TELEPHONE)}
