"""
Which materials are in a pixel?
===============================

A pixel of a satellite image is metres wide: it shows a mixture of grass, soil, roof and
water. A hyperspectral camera measures a whole spectrum for each pixel, and the spectrum
of a mixture is the sum of the spectra of its materials, each times its share. Neither
spectra nor shares are negative. A dictionary of non-negative atoms with non-negative
codes finds both, from the pixels alone.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter
from scipy.optimize import linear_sum_assignment

from coupledict import DictionaryLearning, sparse_encode
from coupledict.plotting import COLOURS

# %%
# A scene
# -------
# Four materials with smooth spectra, spread over the scene in soft regions. As in
# nature, no two patches of grass have quite the same spectrum, light and shade scale
# every pixel, and there is noise. Ten pixels are outliers: a glint, a car, a fault of
# the camera.

SIDE, N_BANDS = 48, 120
rng = np.random.default_rng(0)
wave = np.linspace(0.4, 2.5, N_BANDS)  # micrometres


def bump(center, width):
    """Return a band of reflection, or of absorption, around a wavelength."""
    return np.exp(-(((wave - center) / width) ** 2))


def step(center, width):
    """Return a rise at a wavelength."""
    return 1 / (1 + np.exp(-(wave - center) / width))


true = {
    "grass": 0.04
    + 0.06 * bump(0.55, 0.04)
    + 0.45 * step(0.72, 0.015) * (1 - 0.35 * step(1.4, 0.1)),
    "soil": 0.08 + 0.35 * step(0.9, 0.35),
    "roof": 0.15
    + 0.25 * step(0.6, 0.03)
    - 0.15 * bump(0.9, 0.15)
    - 0.15 * step(1.8, 0.3),
    "water": 0.02 + 0.25 * bump(0.48, 0.15),
}
for dip in (1.45, 1.94):  # water in plants and soil absorbs here
    true["grass"] *= 1 - 0.6 * bump(dip, 0.06)
    true["soil"] *= 1 - 0.3 * bump(dip, 0.06)
spectra = np.array(list(true.values()))

fields = np.array(
    [gaussian_filter(rng.standard_normal((SIDE, SIDE)), 4, mode="wrap") for _ in true]
)
fields = np.exp(3 * fields / fields.std())
# (pixels, materials), rows sum to 1
shares = (fields / fields.sum(axis=0)).reshape(len(true), -1).T
tilts = 1 + 0.08 * rng.standard_normal((SIDE**2, len(true), 1)) * np.linspace(
    -1, 1, N_BANDS
)
light = 1 + 0.3 * np.clip(
    10
    * gaussian_filter(rng.standard_normal((SIDE, SIDE)), 3, mode="wrap").reshape(-1, 1),
    -2,
    2,
)
pixels = light * np.einsum("pm,pmb->pb", shares, tilts * spectra)
odd = rng.choice(len(pixels), 10, replace=False)
pixels[odd] = 2 * abs(gaussian_filter(rng.standard_normal((10, N_BANDS)), (0, 10)))
pixels += 0.004 * rng.standard_normal(pixels.shape)

# %%
# Initial spectra
# ---------------
# Many dictionaries explain mixtures, so the start matters. This one looks for pure
# pixels, whatever their brightness: it takes the pixel least like the mean, then the
# one least explained by those already taken, and so on. Pixels are projected on as many
# axes as there are materials, which removes most of the noise. Outliers attract it, so
# it is only a start.

axes = np.linalg.svd(pixels, full_matrices=False)[2][: len(true)]
units = np.maximum(pixels @ axes.T @ axes, 0)
units /= np.linalg.norm(units, axis=1, keepdims=True)
start, left = [np.argmin(units @ units.mean(axis=0))], units.copy()
while len(start) < len(true):
    direction = left[start[-1]] / np.linalg.norm(left[start[-1]])
    left -= np.outer(left @ direction, direction)
    start.append(np.argmax(np.sum(left**2, axis=1)))

# %%
# Spectra and shares
# ------------------
# Pixels are scaled to norm 1, so that dark ones count as much as bright ones. The
# penalty keeps spectra close to the pixels: among all dictionaries that explain them it
# prefers those with small codes. It also makes coefficients too small, so they are
# refitted without it by non-negative least squares: non-negative OMP that may use every
# atom.

scaled = pixels / np.linalg.norm(pixels, axis=1, keepdims=True)
learner = DictionaryLearning(
    len(true),
    pursuit="lasso",
    alpha=0.01,
    positive_code=True,
    positive_dict=True,
    init=units[start],
    max_iter=100,
    n_jobs=2,
    random_state=0,
).fit(scaled)
codes = sparse_encode(
    pixels, learner.components_, n_nonzero_coefs=len(true), positive_code=True, n_jobs=2
).toarray()

# %%
# What was found
# --------------
# Atoms have norm 1 and any order: true spectra are scaled to norm 1 as well, and each
# is shown with the nearest atom. The pixels do not determine the brightness of a
# material, because the light is unknown. It is known here, and converts codes into
# shares of the area; otherwise shares are those of the light.

brightness = np.linalg.norm(spectra, axis=1)
truth = spectra / brightness[:, None]


def match(atoms):
    """Return which atom is which material, and the angles of spectra in degrees."""
    cosines = np.clip(atoms @ truth.T, -1, 1)
    order = linear_sum_assignment(-cosines.T)[1]
    return order, np.degrees(np.arccos(cosines[order, np.arange(len(truth))]))


order, angles = match(learner.components_)
areas = codes[:, order] / brightness
found = areas / areas.sum(axis=1, keepdims=True)
errors = np.delete(found - shares, odd, axis=0)
print(
    f"mean angle of the spectra: {match(units[start])[1].mean():.1f} degrees"
    f" at the start, {angles.mean():.1f} learned"
)
print(f"root mean squared error of the shares: {np.sqrt(np.mean(errors**2)):.3f}")

figure, axes = plt.subplots(
    1, 2, figsize=(11, 4), layout="constrained", width_ratios=[1, 2]
)
colour = pixels[:, [np.argmin(abs(wave - w)) for w in (0.85, 0.65, 0.55)]].reshape(
    SIDE, SIDE, 3
)
axes[0].imshow(np.clip(colour / np.quantile(colour, 0.99), 0, 1))
axes[0].set(
    title="infrared, red and green\nas red, green and blue", xticks=[], yticks=[]
)
for k, (name, shade) in enumerate(
    zip(true, np.take(COLOURS, [2, 1, 3, 0]), strict=True)
):
    axes[1].plot(wave, spectra[k] / brightness[k], color=shade, linestyle="--")
    axes[1].plot(
        wave,
        learner.components_[order[k]],
        color=shade,
        label=f"{name}, {angles[k]:.1f}°",
    )
axes[1].set(
    xlabel="wavelength, µm",
    ylabel="reflectance, norm 1",
    title="true (dashed) and learned spectra",
)
axes[1].legend(frameon=False)

figure, axes = plt.subplots(2, len(true), figsize=(11, 5.6), layout="constrained")
for k, name in enumerate(true):
    for axis, share in zip(axes[:, k], (shares, found), strict=True):
        picture = axis.imshow(
            share[:, k].reshape(SIDE, SIDE), vmin=0, vmax=1, cmap="viridis"
        )
        axis.set(xticks=[], yticks=[])
    axes[0, k].set_title(name)
axes[0, 0].set_ylabel("true shares")
axes[1, 0].set_ylabel("found shares")
figure.colorbar(picture, ax=axes, shrink=0.7)
plt.show()
