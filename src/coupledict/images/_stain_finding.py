"""The stains of a picture: pixels of tissue are drawn, colours learned from them, and what was found is checked."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..foundation.arrays import Array, Flags, Floats
from ..foundation.progress import Callback, Meter
from ..parallel.blas import one_blas_thread
from ._stain_learning import (
    MOST_STEPS,
    STANDARD,
    exact_codes,
    find_start,
    in_order_of_hue,
    learn_colours,
    smallest_angle,
    turn,
    unit_rows,
)
from ._stain_pictures import distinct_light, draw_pixels, estimate_white, optical_density, weighted_quantile

TOP_SHARE = 0.99  # of the pixels of tissue have at most the density that pictures are compared by
LEAST_TISSUE = 100  # pixels
LEAST_ANGLE = 5.0  # degrees between two stains; noise spreads one stain over less
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
    told: Callback | None,
    most_steps: int = MOST_STEPS,
) -> Stains:
    """Return the stains of a picture; the arguments are the parameters of :class:`StainSeparator`."""
    light, weights = distinct_light(draw_pixels(image, max_samples, rng))
    white = estimate_white(image) if white is None else white
    depth = optical_density(light, white)
    tissue = depth.mean(axis=1) > tissue_threshold
    _check_tissue(light, weights, tissue, white, tissue_threshold)
    depth, weights = depth[tissue], weights[tissue]
    with one_blas_thread():  # the order of sums must not depend on the number of processors
        start = find_start(depth, weights, n_stains)
        learned = learn_colours(depth, weights, start, alpha, Meter(told, "learning"), most_steps)
        if not learned.converged:
            warnings.warn(
                f"Learning stopped after {len(learned.course)} steps before it converged. The stains of this picture"
                " are hardly determined; use a larger alpha.",
                ConvergenceWarning,
                stacklevel=4,
            )
        colours, found = _check_colours(in_order_of_hue(learned.colours), depth, weights)
        codes = _codes(colours, depth, transform_alpha)
    top = np.array([weighted_quantile(code, weights, TOP_SHARE) for code in codes])
    return Stains(colours, white, top, found, int(weights.sum()), len(learned.course))


def _codes(colours: Floats, depth: Floats, alpha: float) -> list[Array]:
    return exact_codes(list((depth @ colours.T - alpha).T), colours @ colours.T)


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
            "Expected image in colour, got three channels that are alike: a grey picture. Stains are told apart by"
            " their colours."
        )


def _check_colours(colours: Floats, depth: Floats, weights: Floats) -> tuple[Floats, Flags]:
    """Return colours and which of them the picture shows; warn if it does not show all.

    If it shows one of two stains, that one gets the mean colour, and the other the standard colour of hematoxylin or
    eosin, whichever the picture does not resemble.
    """
    n_stains = len(colours)
    if n_stains == 1:
        return colours, np.ones(1, np.bool_)
    totals = np.array([float(weights @ code) for code in _codes(colours, depth, 0.0)])
    shares, angle = totals / totals.sum(), smallest_angle(colours)
    if angle >= LEAST_ANGLE and shares.min() >= LEAST_SHARE:
        return colours, np.ones(n_stains, np.bool_)
    why = f"two differ by {angle:.1f} degrees only" if angle < LEAST_ANGLE else f"one has {shares.min():.2%} of it all"
    then = " The other gets its standard colour." if n_stains == 2 else ""
    warnings.warn(
        f"Expected image to show {n_stains} stains, found fewer: {why}.{then} Use n_stains={n_stains - 1}, or a picture"
        " that shows all.",
        UserWarning,
        stacklevel=5,
    )
    if n_stains > 2:
        return colours, shares >= LEAST_SHARE
    own, standard = unit_rows((weights @ depth)[None]), unit_rows(STANDARD[:2])
    other = standard[1:] if turn(own, standard[:1]) <= turn(own, standard[1:]) else standard[:1]
    ordered = in_order_of_hue(np.concatenate([own, other]))
    return ordered, np.array([bool((colour == own[0]).all()) for colour in ordered])
