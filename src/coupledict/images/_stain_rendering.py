"""From the light of pixels to stain densities and back; each pixel by itself, so that bands do not affect any bit.

Integers are looked up in tables of the products of each stain's colour with the optical density of every level, so no
logarithm is computed per pixel. Sums run channel by channel, in a fixed order and without BLAS.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..foundation.arrays import Array, Floats
from ._stain_learning import exact_codes
from ._stain_pictures import check_light, full_range, optical_density

BRIGHTEST = np.float32(10)  # logarithm of light, beyond any range; the exponential of more could overflow


class Separation:
    """Densities of stains in float32, for pictures of one number type.

    Parameters
    ----------
    colours : array of shape (n_stains, 3)
    white : array of shape (3,)
        Light of the background, as a share of the range.
    alpha : float
        Penalty on the densities.
    dtype : dtype of the pictures
    """

    def __init__(self, colours: Floats, white: Floats, alpha: float, dtype: np.dtype[Any]) -> None:
        self._colours = colours.astype(np.float32)
        self._white = white
        self._alpha = np.float32(alpha)
        self._gram = colours @ colours.T
        self._tables: list[Array] = []
        if dtype.kind == "u":
            most = full_range(dtype)
            levels = np.repeat(np.arange(most + 1)[:, None] / most, 3, axis=1)
            od = optical_density(levels, white)
            self._tables = [(od[:, channel] * colours[:, channel, None]).astype(np.float32) for channel in range(3)]

    def densities(self, pixels: Array) -> list[Array]:
        """Return the densities of each stain in some rows of a picture."""
        shape = pixels.shape[:2]
        correlations = [np.full(shape, -self._alpha, np.float32) for _ in self._colours]
        for channel in range(3):
            if self._tables:
                places = pixels[:, :, channel].astype(np.intp)
                for total, table in zip(correlations, self._tables[channel], strict=True):
                    total += table.take(places)
            else:
                light = pixels[:, :, channel].astype(np.float32)
                check_light(light)
                od = optical_density(light, self._white[channel])
                for total, colour in zip(correlations, self._colours, strict=True):
                    total += colour[channel] * od
        return exact_codes(correlations, self._gram)


class Rendering:
    """Pictures of one number type from densities of stains.

    Parameters
    ----------
    colours : array of shape (n_stains, 3)
        Colours of the stains, multiplied by the factors of their densities.
    white : array of shape (3,)
    dtype : dtype of the pictures
    """

    def __init__(self, colours: Floats, white: Floats, dtype: np.dtype[Any]) -> None:
        self._colours = colours.astype(np.float32)
        self._white = white.astype(np.float32)
        self._dtype = dtype

    def draw(self, densities: list[Array], out: Array) -> None:
        """Write the colours of some rows into the first three channels of `out`."""
        most = np.float32(full_range(self._dtype))
        for channel in range(3):
            od = self._colours[0, channel] * densities[0]
            for colour, density in zip(self._colours[1:], densities[1:], strict=True):
                od += colour[channel] * density
            np.negative(od, out=od)
            light = np.exp(np.minimum(od, BRIGHTEST, out=od), out=od)
            light *= self._white[channel] * most
            if self._dtype.kind == "u":
                np.rint(light, out=light)
            out[:, :, channel] = np.clip(light, 0, most, out=light)
