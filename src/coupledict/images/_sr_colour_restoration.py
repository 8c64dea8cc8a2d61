"""Restoration of a small colour picture: noise and traces of compression are removed from luma, then from colour.

Luma Y is restored as a plane. Noise that differs between channels is also in the planes B - Y and R - Y, with a
strength that follows from that of a channel; the same models restore these planes. JPEG stores colour at half the
resolution, where these models gain nothing; colour then stays as it is.
"""

from __future__ import annotations

import numpy as np

from ..foundation.arrays import Array
from ..foundation.progress import Meter
from ..parallel.blas import one_blas_thread
from ._grey import LUMA
from ._sr_degradation import Degradation, grey_value, strength
from ._sr_jpeg import find_compression, within_steps
from ._sr_pictures import brightness, n_colors
from ._sr_restoration import shipped

LEAST_COLOR_NOISE = 0.5  # in a channel; less is not visible


def planes_to_restore(array: Array, degradation: Degradation) -> int:
    """Return the number of planes of a picture that are restored."""
    if not degradation:
        return 0
    return 3 if n_colors(array) == 3 and degradation.color_noise >= LEAST_COLOR_NOISE else 1


def restore_picture(array: Array, degradation: Degradation, *, n_jobs: int, meter: Meter) -> Array:
    """Return a restored picture of floats, on the scale of `array`; alpha is kept.

    `meter` counts the pixels of all planes that are restored.
    """
    models, unit = shipped(), grey_value(array)
    kind, power = strength(degradation, array)
    out: Array = array.astype(np.float64 if array.dtype == np.float64 else np.float32)
    before = brightness(array)
    after = models.restore(before, kind, power, unit=unit, n_jobs=n_jobs, meter=meter)
    if kind == "jpeg":
        after = before + _limit_to_compression(after - before, before, unit)
    if planes_to_restore(array, degradation) == 1:
        colours = out[:, :, : n_colors(array)] if array.ndim == 3 else out[:, :, None]
        colours += (after - before)[:, :, None]
        return out
    for channel in (0, 2):
        plane = array[:, :, channel].astype(np.float32) - before
        noise = degradation.color_noise * color_share(channel)
        out[:, :, channel] = after + models.restore(plane, "noise", noise, unit=unit, n_jobs=n_jobs, meter=meter)
    out[:, :, 1] = (after - LUMA[0] * out[:, :, 0] - LUMA[2] * out[:, :, 2]) / LUMA[1]
    return out


def color_share(channel: int) -> float:
    """Return the noise of the difference between a channel and luma, relative to the noise of a channel."""
    weights = -np.array(LUMA)
    weights[channel] += 1
    return float(np.linalg.norm(weights))


def _limit_to_compression(change: Array, plane: Array, unit: float) -> Array:
    """Return a change of brightness, limited to what compression can have caused if its grid is found."""
    with one_blas_thread():
        compression = find_compression(plane / np.float32(unit))
    return change if compression is None else within_steps(change, compression, unit)
