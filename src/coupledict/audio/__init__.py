"""Speech: extension of narrow-band signals to wide-band ones, and their distance from the truth."""

from ._bandwidth import BandwidthExtension
from ._measurement import Band, measure_band
from ._metrics import log_spectral_distance
from ._rates import output_rate
from ._signals import narrow_band
from ._telephone import telephone_band
from ._widening import WidenedFile

__all__ = [
    "BandwidthExtension",
    "Band",
    "WidenedFile",
    "measure_band",
    "output_rate",
    "narrow_band",
    "telephone_band",
    "log_spectral_distance",
]
