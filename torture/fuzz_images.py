"""Pictures that break image code: fused stacks, filled holes, separated stains.

Pictures are constant, noisy, striped, or extreme; tiny; grey, in colour, with alpha; of 8 and 16 bits and of floats on
any scale. Results are finite, of the right shape and dtype, within the documented range, and the same for any number of
threads; known answers are reproduced, and impossible requests raise an error of one sentence.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _main import Figures, main
from sklearn.exceptions import ConvergenceWarning

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from coupledict.images import Inpainting, MultiFocusFusion, StainSeparator
from support.constrained_twins import lasso_code, objective

DTYPES = [np.uint8, np.uint16, np.float32, np.float64]
LOOKS = ["constant", "noise", "ramp", "stripes", "extremes", "spike", "blotches"]
SMOOTH_LOOKS = ["constant", "ramp", "blotches"]
SIDES = [1, 3, 7, 8, 9, 13, 24, 33]
PATCH = 8  # side of the patches of fusion: smaller pictures are refused
OVERSHOOT = 1.0  # of the range of all sources, by which unlike pictures, blended level by level, may leave it


def make_picture(rng: np.random.Generator, look: str, shape: tuple[int, ...]) -> Any:
    """Return a picture with values from 0 to 1."""
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    if look == "constant":
        plane = np.full(shape[:2], rng.choice([0.0, 1.0, rng.random()]))
    elif look == "noise":
        plane = rng.random(shape[:2])
    elif look == "ramp":
        plane = (rows * rng.random() + columns * rng.random()) / (shape[0] + shape[1])
    elif look == "stripes":
        plane = (np.sin(rows * rng.uniform(0.1, 3)) * np.cos(columns * rng.uniform(0.1, 3)) + 1) / 2
    elif look == "extremes":
        plane = (rng.random(shape[:2]) < rng.uniform(0.01, 0.5)).astype(float)
    elif look == "spike":
        plane = np.zeros(shape[:2])
        plane.flat[rng.integers(plane.size)] = 1
    else:
        coarse = rng.random((shape[0] // 5 + 1, shape[1] // 5 + 1))
        plane = np.kron(coarse, np.ones((5, 5)))[: shape[0], : shape[1]]
    return plane if len(shape) == 2 else plane[:, :, None] * rng.uniform(0.3, 1, shape[2:])


def to_type(picture: Any, dtype: Any, scale: float) -> Any:
    """Return a picture in a number type; floats are multiplied by `scale`."""
    if np.issubdtype(dtype, np.integer):
        return np.rint(picture * np.iinfo(dtype).max).astype(dtype)
    return (picture * scale).astype(dtype)


def draw_shape(rng: np.random.Generator, channels: list[int]) -> tuple[int, ...]:
    """Draw a shape; no channels is a grey picture."""
    n_channels = int(rng.choice(channels))
    sides = tuple(int(side) for side in rng.choice(SIDES, 2, p=[0.03, 0.03, 0.04, 0.2, 0.2, 0.2, 0.2, 0.1]))
    return (*sides, n_channels) if n_channels else sides


def check_same(one: Any, other: Any) -> None:
    """Raise unless two results are the same to the last bit."""
    assert np.array_equal(one, other), "the number of threads changes the result"


def refusal(error: Exception) -> str:
    """Return the kind of a refusal; raise unless it is one sentence, or two, of what was expected."""
    text = str(error)
    assert text.startswith(("Expected ", "The ", "No ")) and "\n" not in text and text.endswith("."), repr(text)
    return "refused"


def fuse(rng: np.random.Generator) -> str:
    """Fuse a stack, and hold the picture against its sources."""
    shape, dtype = draw_shape(rng, [0, 0, 1, 2, 3, 4]), DTYPES[int(rng.integers(4))]
    scale, n = 10.0 ** rng.uniform(-30, 30), int(rng.integers(2, 10))
    alike = rng.random() < 0.2
    # Single pixels that stand out in all sources are taken for hot ones, and removed.
    look = str(rng.choice(SMOOTH_LOOKS if alike else LOOKS))
    first = to_type(make_picture(rng, look, shape), dtype, scale)
    images = [first.copy() for _ in range(n)]
    if not alike:
        looks = [look if rng.random() < 0.7 else str(rng.choice(LOOKS)) for _ in range(n)]
        images = [to_type(make_picture(rng, own, shape), dtype, scale) for own in looks]
    wrong = rng.random() < 0.05
    if wrong:
        images[-1] = images[-1][:, :-1] if rng.random() < 0.5 else np.zeros(shape, np.int32)
    kept = [image.copy() for image in images]
    options: dict[str, Any] = {
        "register": [False, False, "auto", True][int(rng.integers(4))],
        "motion": str(rng.choice(["affine", "shift", "similarity", "projective"])),
        "keep_size": bool(rng.random() < 0.5),
        "n_scales": int(rng.integers(1, 5)),
        "smoothness": float(rng.choice([0.0, 1.0, 5.0])),
        "slab": int(rng.integers(2, 5)) if rng.random() < 0.2 else None,
    }
    too_small = min(shape[:2]) < PATCH or wrong
    try:
        fused = MultiFocusFusion(**options, n_jobs=1).fuse(images)
    except ValueError as error:
        assert too_small, f"{error} {options}"
        return refusal(error)
    assert not too_small, "a stack that cannot be fused was"
    check_same(fused.image, MultiFocusFusion(**options, n_jobs=2).fuse(images).image)
    assert all(np.array_equal(a, b) for a, b in zip(images, kept, strict=True)), "a source was changed"
    top, left, bottom, right = fused.box
    assert fused.image.dtype == dtype and fused.image.shape == (bottom - top, right - left, *shape[2:])
    assert fused.image.shape == shape or not (options["keep_size"] or options["register"] is False), "it was cut"
    assert fused.decision.shape == fused.depth.shape == fused.image.shape[:2] and fused.decision.max() < n
    assert np.isfinite(fused.image).all() and np.isfinite(fused.depth).all(), "a pixel is not a number"
    assert fused.depth.min() >= 0 and fused.depth.max() <= n - 1, "a depth is outside the stack"
    values = np.stack(images).astype(float)
    low, high = float(values.min()), float(values.max())
    beyond = max(low - float(fused.image.min()), float(fused.image.max()) - high)
    assert beyond <= OVERSHOOT * (high - low) + 1e-5 * max(abs(low), abs(high)), f"a pixel is {beyond:.3g} out of range"
    if alike:
        part = first[top:bottom, left:right].astype(float)
        error = float(np.abs(fused.image.astype(float) - part).max())
        rounding = 1.0 if np.issubdtype(dtype, np.integer) else 1e-3 * float(np.abs(values).max())
        assert error <= rounding, f"copies of one picture became another, by {error:.3g} of {np.abs(values).max():.3g}"
        return "fused copies"
    return "fused"


def fill(rng: np.random.Generator) -> str:
    """Fill holes; known pixels stay as they are, others lie between them."""
    shape, dtype = draw_shape(rng, [0, 0, 1, 3]), DTYPES[int(rng.integers(4))]
    look, scale = str(rng.choice(LOOKS)), 10.0 ** rng.uniform(-30, 30)
    image = to_type(make_picture(rng, look, shape), dtype, scale)
    missing = rng.random(shape[:2]) < rng.choice([0.0, 0.1, 0.5, 0.95])
    if rng.random() < 0.3:
        rows, columns = (slice(int(rng.integers(side)), None) for side in shape[:2])
        missing[rows, columns] = True
    none = bool(missing.all())
    damaged = image.copy()
    by_nan = dtype in (np.float32, np.float64) and rng.random() < 0.5
    if by_nan:
        damaged[missing] = np.nan
    before = damaged.copy()
    side = int(rng.choice([2, 4, 8]))

    def task(n_jobs: int) -> Any:
        made = Inpainting(
            16, n_nonzero_coefs=4, patch_size=side, n_rounds=int(2 * (look != "noise")), max_samples=100, max_iter=2,
            random_state=0, n_jobs=n_jobs,
        )  # fmt: skip
        return made.fill(damaged, None if by_nan else missing)

    impossible = none or min(shape[:2]) < side
    try:
        whole = task(1)
    except ValueError as error:
        assert impossible, str(error)
        return refusal(error)
    assert not impossible, "a picture that cannot be filled was"
    check_same(whole, task(2))
    assert np.array_equal(damaged, before, equal_nan=by_nan), "the picture was changed"
    assert whole.dtype == dtype and whole.shape == shape
    assert np.array_equal(whole[~missing], image[~missing]), "a known pixel has changed"
    known = image[~missing].astype(float)
    rounding = 1e-6 * float(np.abs(known).max()) if dtype in (np.float32, np.float64) else 0.0
    assert np.isfinite(whole).all(), "a pixel is not a number"
    assert whole.min() >= known.min() - rounding and whole.max() <= known.max() + rounding, "out of the known range"
    return "filled"


def stain(rng: np.random.Generator) -> str:
    """Separate stains; densities are those of the lasso, pixel by pixel, and pictures keep shape and type."""
    dtype, n_stains = DTYPES[int(rng.integers(4))], int(rng.choice([1, 2, 2, 3]))
    image = _stained(rng, dtype, n_stains)
    alpha = float(rng.choice([0.0, 0.01, 0.3]))

    def separator(n_jobs: int) -> StainSeparator:
        return StainSeparator(n_stains, transform_alpha=alpha, tile_size=37, n_jobs=n_jobs)

    try:
        one = separator(1).fit(image)
    except ValueError as error:
        return refusal(error)
    colours = one.stain_matrix_
    assert np.isfinite(colours).all() and colours.min() >= 0, "a colour is negative, or no number"
    assert np.abs(np.linalg.norm(colours, axis=1) - 1).max() < 1e-6, "a colour is not of norm 1"
    densities, two = one.transform(image), separator(2).fit(image)
    check_same(densities, two.transform(image))
    assert np.isfinite(densities).all() and densities.min() >= 0, "a density is negative, or no number"
    _check_densities(rng, one, image, densities, alpha)
    again = one.inverse_transform(densities, dtype=dtype)
    normal = one.normalize(image, source=one)
    check_same(normal, two.normalize(image, source=two))
    most = 1 if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).max
    for picture, shape in ((again, (*image.shape[:2], 3)), (normal, image.shape)):
        assert picture.dtype == dtype and picture.shape == shape
        assert np.isfinite(picture).all() and picture.min() >= 0 and picture.max() <= most
    assert np.array_equal(normal[:, :, 3:], image[:, :, 3:]), "alpha has changed"
    return "separated"


def _stained(rng: np.random.Generator, dtype: Any, n_stains: int) -> Any:
    """Return a picture of stains, or of something else."""
    rows, columns = int(rng.integers(20, 40)), int(rng.integers(20, 40))
    if rng.random() < 0.3:
        shape = (*(int(side) for side in rng.choice(SIDES, 2)), int(rng.choice([3, 4])))
        return to_type(make_picture(rng, str(rng.choice(LOOKS)), shape), dtype, 1.0)
    colours = np.array([[0.65, 0.70, 0.29], [0.21, 0.95, 0.22], [0.27, 0.57, 0.78]])[:n_stains]
    colours = colours + rng.uniform(-0.05, 0.05, colours.shape)
    light = rng.uniform(0.8, 1) * np.exp(-rng.exponential(rng.uniform(0.3, 2), (rows, columns, n_stains)) @ colours)
    light[: rows // 5] = rng.uniform(0.8, 1)
    if rng.random() < 0.3:
        light = np.dstack([light, rng.choice([0.0, 0.5, 1.0], (rows, columns), p=[0.1, 0.1, 0.8])])
    return to_type(light, dtype, 1.0)


def _check_densities(rng: np.random.Generator, model: StainSeparator, image: Any, densities: Any, alpha: float) -> None:
    """Compare the objective of some pixels with that of a solver that knows nothing of stains."""
    most = 1.0 if image.dtype.kind == "f" else float(np.iinfo(image.dtype).max)
    for _ in range(6):
        row, column = (int(rng.integers(side)) for side in image.shape[:2])
        light = np.maximum(image[row, column, :3].astype(float) / most, 1 / 255)
        depth = np.maximum(np.log(model.white_) - np.log(light), 0)
        best = lasso_code(depth, model.stain_matrix_, max(alpha, 1e-12), True)
        mine, least = (
            objective(depth, model.stain_matrix_, code, alpha) for code in (densities[row, column].astype(float), best)
        )
        assert mine <= least + 1e-4 * max(float(depth @ depth), 1e-3), (
            f"densities of a pixel: {mine:.6g}, not {least:.6g}"
        )


TASKS: dict[str, Callable[[np.random.Generator], str]] = {"fuse": fuse, "fill": fill, "stain": stain}


def run(count: int, seed: int) -> Figures:
    """Try `count` pictures or stacks, the tasks in turn."""
    seen: Counter[str] = Counter()
    for number in range(count):
        name = list(TASKS)[number % len(TASKS)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            try:
                seen[f"{name}: {TASKS[name](np.random.default_rng([seed, number]))}"] += 1
            except Exception as error:
                raise AssertionError(
                    f"{name}, number {number} of seed {seed}: {type(error).__name__}: {error}"
                ) from error
    return {"cases": count, **dict(sorted(seen.items()))}


if __name__ == "__main__":
    main(run, 1500)
