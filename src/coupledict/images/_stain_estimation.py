"""Estimation of the stains of a picture: tissue pixels are drawn, colours are learned from them, and checked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..foundation.arrays import Array, Flags, Floats
from ..foundation.progress import Callback, Meter
from ..foundation.warning import warn
from ..parallel.blas import one_blas_thread
from ._stain_learning import (
    MOST_STEPS,
    STANDARD,
    exact_codes,
    find_start,
    largest_angle,
    learn_colours,
    smallest_angle,
    sort_by_hue,
    unit_rows,
)
from ._stain_pictures import distinct_light, draw_pixels, estimate_white, optical_density, weighted_quantile

TOP_SHARE = 0.99  # of the tissue pixels have at most the density by which pictures are compared
LEAST_TISSUE = 100  # pixels
LEAST_ANGLE = 5.0  # degrees between two stains; noise spreads a single stain over less
LEAST_SHARE = 0.01  # of the density of all stains
LEAST_COLOUR = 0.01  # largest difference between channels below which a picture counts as grey


@dataclass(frozen=True)
class Stains:
    """What is learned from a picture; see the attributes of :class:`StainSeparator`."""

    stain_matrix: Floats
    white: Floats
    max_density: Floats
    found: Flags
    n_samples: int
    n_iter: int


def find_stains(
    image: Array,
    *,
    n_stains: int,
    alpha: float,
    transform_alpha: float,
    white: Floats | None,
    tissue_threshold: float,
    max_samples: int,
    rng: np.random.Generator,
    callback: Callback | None,
    most_steps: int = MOST_STEPS,
) -> Stains:
    """Return the stains of a picture; the arguments are the parameters of :class:`StainSeparator`."""
    light, weights = distinct_light(draw_pixels(image, max_samples, rng))
    white = estimate_white(image) if white is None else white
    od = optical_density(light, white)
    tissue = od.mean(axis=1) > tissue_threshold
    _check_tissue(light, weights, tissue, white, tissue_threshold)
    od, weights = od[tissue], weights[tissue]
    with one_blas_thread():  # the order of sums must not depend on the number of processors
        start = find_start(od, weights, n_stains)
        learned = learn_colours(od, weights, start, alpha, Meter(callback, "learning"), most_steps)
        if not learned.converged:
            warn(
                f"Learning stopped after {len(learned.objectives)} steps before it converged. The stains of this"
                " picture are poorly determined; use a larger alpha.",
                ConvergenceWarning,
            )
        colours, found = _check_colours(sort_by_hue(learned.colours), od, weights)
        codes = _codes(colours, od, transform_alpha)
    top = np.array([weighted_quantile(code, weights, TOP_SHARE) for code in codes])
    return Stains(colours, white, top, found, int(weights.sum()), len(learned.objectives))


def _codes(colours: Floats, od: Floats, alpha: float) -> list[Array]:
    return exact_codes(list((od @ colours.T - alpha).T), colours @ colours.T)


def _check_tissue(light: Floats, weights: Floats, tissue: Flags, white: Floats, threshold: float) -> None:
    """Raise if there is too little to learn from."""
    total, count = int(weights.sum()), int(weights[tissue].sum())
    if count < min(LEAST_TISSUE, max(total, 1)):
        background = ", ".join(f"{255 * part:.0f}" for part in white)
        raise ValueError(
            f"Expected image to show stained tissue, found {count:,} of {total:,} pixels ({count / max(total, 1):.2%})"
            f" with a mean optical density above tissue_threshold={threshold:g}, on a background of ({background}) in 8"
            " bits. Use a picture with more tissue, a lower tissue_threshold, or white=1 if the tissue was taken for"
            " background; normalize(image, source=...) needs no tissue."
        )
    shown = light[tissue]
    if (shown == shown[0]).all():
        raise ValueError("Expected image to show stained tissue of several colours, got one colour everywhere.")
    if float((shown.max(axis=1) - shown.min(axis=1)).max()) < LEAST_COLOUR:
        raise ValueError(
            "Expected image in colour, got a grey picture with three equal channels. Stains are distinguished by their"
            " colours."
        )


def _check_colours(colours: Floats, od: Floats, weights: Floats) -> tuple[Floats, Flags]:
    """Return colours, and which of them the picture shows; warn if it does not show all.

    If it shows one of two stains, this stain gets the mean colour, and the other the standard colour of hematoxylin or
    eosin, whichever is less similar to the mean.
    """
    n_stains = len(colours)
    if n_stains == 1:
        return colours, np.ones(1, np.bool_)
    totals = np.array([float(weights @ code) for code in _codes(colours, od, 0.0)])
    shares, angle = totals / totals.sum(), smallest_angle(colours)
    if angle >= LEAST_ANGLE and shares.min() >= LEAST_SHARE:
        return colours, np.ones(n_stains, np.bool_)
    why = (
        f"two differ by only {angle:.1f} degrees" if angle < LEAST_ANGLE else f"one has only {shares.min():.2%} of all"
    )
    then = " The other gets its standard colour." if n_stains == 2 else ""
    warn(
        f"Expected image to show {n_stains} stains, found fewer: {why}.{then} Use n_stains={n_stains - 1}, or a picture"
        " that shows all.",
    )
    if n_stains > 2:
        return colours, shares >= LEAST_SHARE
    own, standard = unit_rows((weights @ od)[None]), unit_rows(STANDARD[:2])
    other = standard[1:] if largest_angle(own, standard[:1]) <= largest_angle(own, standard[1:]) else standard[:1]
    ordered = sort_by_hue(np.concatenate([own, other]))
    return ordered, np.array([bool((colour == own[0]).all()) for colour in ordered])
