"""Speech: extend narrow-band signals to wide-band ones, and measure how close these are to the truth."""

from ._bandwidth import BandwidthExtension
from ._metrics import log_spectral_distance
from ._signals import narrow_band

__all__ = ["BandwidthExtension", "narrow_band", "log_spectral_distance"]
