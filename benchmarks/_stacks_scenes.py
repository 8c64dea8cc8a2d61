"""Focus stacks made from a sharp photograph, with known truth.

A scene is a photograph with a depth: a smooth one (``plane``, ``hills``), one with jumps and thin things (``steps``),
or layers of which the near ones hide the far ones (``layers``, ``wires``, ``unfocused``). With a depth, each place is
blurred by itself, so that the truth is in the sources. With layers it is not everywhere: close to something near, what
is behind it is veiled in the very source that is focused on it, as with a camera. A scene is drawn at twice the
resolution, larger than the frame, and every source is made from it as a camera would:

1. each surface is blurred by a disc whose radius grows with its distance from the plane of focus, and layers are laid
   over one another from back to front, so that a blurred edge lets the background through. Half a step of focus to
   either side is sharp (the depth of field), as in a stack that was taken with care: the truth is then in the sources;
2. the whole is turned, scaled and shifted by a spline, and averaged over the area of each pixel. As the spline works
   at twice the resolution of content that the optics have softened a little, its own error is small: a source moved
   back by the true matrix agrees with the truth, where it is in focus, to 50 dB and more (47 for the baboon's fur);
3. it is made brighter or darker and rounded to 8 bits; with noise, it is rounded once more.

The truth is the picture in focus everywhere, in the frame of the middle source, which is neither moved nor made
brighter. Where no source is in focus (the background of ``unfocused``) it is the least blurred one.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from _stacks_drawing import (
    HEADROOM,
    OPTICS,
    OVER,
    Float,
    Image,
    blobs,
    cv2,
    depths,
    merged,
    smooth_noise,
    spread,
    steps,
    tilted,
    wires,
)
from numpy.typing import NDArray
from scipy import ndimage

ATTAINABLE = ("plane", "hills", "steps")  # the truth is in the sources
OCCLUDED = ("layers", "wires", "unfocused")  # veils: it is not everywhere
KINDS = ATTAINABLE + OCCLUDED
#: Settings are chosen on the first, figures are reported on the second.
TUNE = ("astronaut", "coffee", "chelsea", "rocket", "immunohistochemistry")
DISC_STEP = 0.25  # between radii that are interpolated, in pixels


@dataclass(frozen=True)
class Motion:
    """How far the sources of a stack are from one another: largest values, drawn uniformly but for breathing."""

    breathing: float = 0.0  # change of scale from one source to the next
    shift: float = 0.0  # pixels, along each axis
    turn: float = 0.0  # degrees
    gain: float = 0.0  # change of brightness


MOTIONS = {
    "none": Motion(),
    "gain": Motion(gain=0.03),
    "shift": Motion(shift=3.0),
    "breathing": Motion(breathing=0.01),
    "turn": Motion(turn=0.2),
    "moved": Motion(breathing=0.01, shift=3.0, turn=0.2, gain=0.03),
}


@dataclass(frozen=True)
class Stack:
    """Sources and the truth about them.

    Attributes
    ----------
    sources : list of ndarray of shape (height, width, 3), uint8
    truth : ndarray of shape (height, width, 3), uint8
        In focus everywhere, in the frame of source `reference`, without noise.
    labels : ndarray of shape (height, width), uint8
        Number of the source that is in best focus.
    radii : ndarray of shape (n, height, width), float16
        Radius of the disc that blurs the visible surface in each source, in pixels, in the reference's frame.
    matrices : list of ndarray of shape (3, 3)
        Map positions (x, y, 1) in the reference's frame to positions in the source.
    gains : list of float
    edges : ndarray of shape (height, width), bool
        Where one surface ends in front of another, or the depth jumps; nowhere in smooth scenes.
    unfocused : ndarray of shape (height, width), bool
        Where no source is in focus.
    """

    name: str
    sources: list[Image]
    truth: Image
    labels: NDArray[np.uint8]
    radii: Float
    reference: int
    matrices: list[NDArray[np.float64]]
    gains: list[float]
    edges: NDArray[np.bool_]
    unfocused: NDArray[np.bool_]
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Layer:
    """A surface: colours, opacity (None is everywhere 1) and depth, on the canvas; depth is in steps of focus."""

    colours: Float
    alpha: Float | None
    depth: Float | float
    at_least: float = 0.0  # the blur that even the best source has


def make_stack(
    photograph: Image,
    kind: str = "layers",
    n: int = 5,
    *,
    noise: float = 0.0,
    motion: str | Motion = "none",
    radius: float = 6.0,
    seed: int = 0,
    name: str = "",
) -> Stack:
    """Make a stack from a sharp photograph.

    Parameters
    ----------
    photograph : ndarray of shape (height, width, 3), uint8
    kind : {"plane", "hills", "steps", "layers", "wires", "unfocused"}
    n : int
        Number of sources.
    noise : float
        Standard deviation of the noise of each source, on the scale 0-255.
    motion : str or Motion
        A name of `MOTIONS`, or largest values.
    radius : float
        Of the disc, in pixels, for a surface at one end of the stack when the other end is in focus.
    seed : int
        Of scene, motion and noise. The scene does not depend on noise, nor on the motion but for the width of margins.
    """
    moves = MOTIONS[motion] if isinstance(motion, str) else motion
    scene_rng, motion_rng = (np.random.default_rng([seed, part]) for part in range(2))
    reference = n // 2
    margin = _margin(photograph.shape[:2], n, moves, radius)
    height, width = (side - 2 * margin for side in photograph.shape[:2])
    if min(height, width) < 64:
        raise ValueError(
            f"Expected a photograph that leaves 64 pixels within margins of {margin}, got {photograph.shape}."
        )
    layers = _scene(_canvas(photograph), kind, n, radius, scene_rng)
    focus = np.arange(n, dtype=np.float64)
    if scene_rng.random() < 0.5:  # stacks are taken from near to far, or from far to near
        focus = focus[::-1].copy()
    blurs = [_radii(layer, focus, radius) for layer in layers]
    composed = _compose(layers, blurs, n)
    best = _compose(layers, [blur.min(axis=0, keepdims=True) for blur in blurs], 1)[0]
    matrices, gains = _motions(n, reference, moves, (height, width), motion_rng)
    sources = []
    for canvas, matrix, gain in zip(composed, matrices, gains, strict=True):
        sources.append(_rounded(gain * _photograph(canvas, matrix, (height, width), margin)))
    inner = np.s_[margin : margin + height, margin : margin + width]
    radii, surface, unfocused = _visible(layers, blurs, inner)
    stack = Stack(
        name=name or kind,
        sources=sources,
        truth=_rounded(_photograph(best, np.eye(3), (height, width), margin)),
        labels=np.argmin(radii + 1e-4 * np.abs(surface[1] - focus[:, None, None]), axis=0).astype(np.uint8),
        radii=radii.astype(np.float16),
        reference=reference,
        matrices=matrices,
        gains=gains,
        edges=_edges(*surface),
        unfocused=unfocused,
        settings={"kind": kind, "n": n, "noise": 0.0, "motion": moves, "radius": radius, "seed": seed},
    )
    return with_noise(stack, noise)


def with_noise(stack: Stack, noise: float) -> Stack:
    """Return a stack whose sources have noise of a standard deviation."""
    if noise == 0:
        return stack
    rng = np.random.default_rng([stack.settings["seed"], 2])
    sources = [_rounded(source + noise * rng.standard_normal(source.shape, np.float32)) for source in stack.sources]
    return replace(stack, sources=sources, settings=stack.settings | {"noise": noise})


def _margin(shape: tuple[int, ...], n: int, motion: Motion, radius: float) -> int:
    """Return how much of the photograph is kept around the frame, so that no border is ever invented."""
    half = np.hypot(shape[0], shape[1]) / 2
    return int(np.ceil(half * (n // 2 * motion.breathing + np.radians(motion.turn)) + motion.shift + radius + 3))


def _canvas(photograph: Image) -> Float:
    """Return the photograph at the resolution of the canvas, as through a lens in focus."""
    tall = ndimage.zoom(
        photograph.astype(np.float32), (OVER, OVER, 1), order=3, mode="mirror", grid_mode=True, prefilter=True
    )
    soft: Float = cv2.GaussianBlur(np.clip(tall, 0, 255), (0, 0), OVER * OPTICS, borderType=cv2.BORDER_REFLECT)
    return HEADROOM * soft


def _scene(canvas: Float, kind: str, n: int, radius: float, rng: np.random.Generator) -> list[_Layer]:
    """Return surfaces from back to front. Depth 0 is near, n - 1 is far."""
    shape = canvas.shape[:2]
    if kind in ("plane", "hills"):
        surface = tilted(shape, rng) if kind == "plane" else smooth_noise(shape, min(shape) / 7, rng)
        return [_Layer(canvas, None, spread(surface, -0.45, n - 0.55))]
    if kind == "steps":
        return [_Layer(canvas, None, steps(shape, n, rng))]
    if kind not in KINDS:
        raise ValueError(f"Expected a kind of {', '.join(KINDS)}, got '{kind}'.")
    behind = 0.6 * radius if kind == "unfocused" else 0.0
    layers = [_Layer(canvas, None, float(n - 1), behind)]
    if kind == "wires":
        layers = [_Layer(canvas, None, spread(tilted(shape, rng), max(n - 2.4, 0.0), n - 0.55))]
    else:
        for place, depth in enumerate(depths(n, n - 1 if behind else n - 2)):
            turned = np.ascontiguousarray((canvas[::-1, ::-1], canvas[:, ::-1], canvas[::-1])[place % 3])
            bright = (0.75, 1.0, 0.6)[place % 3]
            layers.append(_Layer(bright * turned, blobs(shape, rng), depth))
    thin = wires(shape, 8 if kind == "wires" else 3, rng)
    for depth in (1.0, 0.0) if n > 3 else (0.0,):
        layers.append(_Layer(*merged(thin[int(depth) :: 2] if n > 3 else thin, rng), depth))
    return layers


def _radii(layer: _Layer, focus: NDArray[np.float64], radius: float) -> Float:
    """Return the radius of the disc for every source, and for every place where the depth is not the same."""
    depth = np.asarray(layer.depth, np.float32)
    away = np.abs(depth[None] - focus.reshape(-1, *[1] * depth.ndim))
    slope = radius / max(len(focus) - 1.5, 0.5)
    return (layer.at_least + slope * np.maximum(away - 0.5, 0)).astype(np.float32)


@lru_cache(maxsize=128)
def _disc(radius: float) -> Float:
    """Return a disc as a kernel that sums to one, drawn finely: `radius` is in pixels of the canvas."""
    reach = int(np.ceil(radius + 0.5))
    fine = 8
    at = (np.arange(-reach * fine - fine // 2, (reach + 1) * fine - fine // 2) + 0.5) / fine
    inside = (at[:, None] ** 2 + at[None] ** 2 <= max(radius, 1e-3) ** 2).astype(np.float32)
    kernel = inside.reshape(2 * reach + 1, fine, 2 * reach + 1, fine).mean(axis=(1, 3))
    disc: Float = (kernel / kernel.sum()).astype(np.float32)
    return disc


def _blurred(values: Float, radius: float) -> Float:
    if radius < 0.5 * DISC_STEP:
        return values
    soft: Float = cv2.filter2D(values, -1, _disc(round(OVER * radius, 3)), borderType=cv2.BORDER_REFLECT)
    return soft


def _blurred_by(colours: Float, radii: Float) -> list[Float]:
    """Blur by radii that differ from place to place, once per source."""
    out = [np.zeros_like(colours) for _ in radii]
    for step in range(int(np.ceil(radii.max() / DISC_STEP)) + 1):
        weights = np.maximum(1 - np.abs(radii / DISC_STEP - step), 0)
        if weights.any():
            soft = _blurred(colours, step * DISC_STEP)
            for picture, weight in zip(out, weights, strict=True):
                if weight.any():
                    picture += weight[..., None] * soft
    return out


def _compose(layers: Sequence[_Layer], blurs: Sequence[Float], n: int) -> list[Float]:
    """Return the pictures that a lens makes of layers from back to front, one per source."""
    pictures: list[Float] = []
    for layer, radii in zip(layers, blurs, strict=True):
        if layer.alpha is None:
            if radii.ndim == 1:
                made = {r: _blurred(layer.colours, r) for r in set(radii.tolist())}
                pictures = [made[r].copy() for r in radii.tolist()]
            else:
                pictures = _blurred_by(layer.colours, radii)
            continue
        covered = np.dstack([layer.alpha[..., None] * layer.colours, layer.alpha])
        made = {r: _blurred(covered, r) for r in set(radii.tolist())}
        for picture, r in zip(pictures, radii.tolist(), strict=True):
            picture *= 1 - made[r][..., 3:]
            picture += made[r][..., :3]
    return pictures


def _motions(
    n: int, reference: int, motion: Motion, shape: tuple[int, int], rng: np.random.Generator
) -> tuple[list[NDArray[np.float64]], list[float]]:
    """Draw a matrix and a gain per source; those of the reference are the identity and 1."""
    centre = np.array([shape[1] - 1, shape[0] - 1]) / 2
    direction = rng.choice([-1, 1])
    matrices, gains = [], []
    for index in range(n):
        scale = (1 + motion.breathing) ** (direction * (index - reference))
        angle = np.radians(rng.uniform(-motion.turn, motion.turn))
        shift = rng.uniform(-motion.shift, motion.shift, 2)
        gain = 1 + rng.uniform(-motion.gain, motion.gain)
        matrix = np.eye(3)
        if index != reference:
            matrix[:2, :2] = scale * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            matrix[:2, 2] = centre + shift - matrix[:2, :2] @ centre
        matrices.append(matrix)
        gains.append(float(gain) if index != reference else 1.0)
    return matrices, gains


def _photograph(canvas: Float, matrix: NDArray[np.float64], shape: tuple[int, int], margin: int) -> Float:
    """Return the pixels of a frame: the canvas moved by a spline and averaged over the area of each pixel."""
    height, width = shape
    if np.array_equal(matrix, np.eye(3)):
        start = OVER * margin
        fine = canvas[start : start + OVER * height, start : start + OVER * width]
    else:
        # From a sample of the source at the resolution of the canvas, by way of pixels, to the canvas.
        half = (OVER - 1) / 2
        to_pixels = np.array([[1 / OVER, 0, -half / OVER], [0, 1 / OVER, -half / OVER], [0, 0, 1]])
        to_canvas = np.array([[OVER, 0, OVER * margin + half], [0, OVER, OVER * margin + half], [0, 0, 1]])
        whole = to_canvas @ np.linalg.inv(matrix) @ to_pixels
        turned = whole[[1, 0, 2]][:, [1, 0, 2]]  # ndimage counts rows first
        fine = np.dstack(
            [
                ndimage.affine_transform(
                    canvas[..., band], turned[:2, :2], turned[:2, 2], (OVER * height, OVER * width), order=3
                )
                for band in range(canvas.shape[2])
            ]
        )
    pixels: Float = fine.reshape(height, OVER, width, OVER, -1).mean(axis=(1, 3), dtype=np.float32)
    return pixels


def _rounded(pixels: Float) -> Image:
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def _visible(
    layers: Sequence[_Layer], blurs: Sequence[Float], inner: tuple[slice, slice]
) -> tuple[Float, tuple[NDArray[np.intp], Float], NDArray[np.bool_]]:
    """Return radii of the visible surface, its number and depth, and where no source is in focus; in the frame."""

    def at_pixels(values: Float | float, shape: tuple[int, ...]) -> Float:
        whole = np.broadcast_to(np.asarray(values, np.float32), shape)
        pixels: Float = whole.reshape(shape[0] // OVER, OVER, shape[1] // OVER, OVER).mean(axis=(1, 3))
        return pixels[inner]

    shape = layers[0].colours.shape[:2]
    front = at_pixels(0, shape).astype(np.intp)
    for number, layer in enumerate(layers):
        if layer.alpha is not None:
            front[at_pixels(layer.alpha, shape) > 0.5] = number
    depth = np.zeros(front.shape, np.float32)
    radii = np.zeros((len(blurs[0]), *front.shape), np.float32)
    for number, (layer, blur) in enumerate(zip(layers, blurs, strict=True)):
        here = front == number
        depth[here] = at_pixels(layer.depth, shape)[here]
        for index, values in enumerate(blur):
            radii[index][here] = at_pixels(values, shape)[here]
    unfocused = np.isin(front, [number for number, layer in enumerate(layers) if layer.at_least > 0])
    return radii, (front, depth), unfocused


def _edges(front: NDArray[np.intp], depth: Float) -> NDArray[np.bool_]:
    """Return where one surface ends, or the depth jumps."""
    edges = np.zeros(front.shape, np.bool_)
    for values, jump in ((front.astype(np.float32), 0.5), (depth, 0.75)):
        edges[1:] |= np.abs(np.diff(values, axis=0)) > jump
        edges[:, 1:] |= np.abs(np.diff(values, axis=1)) > jump
    return edges


def photographs(which: str, data: Path | None) -> tuple[dict[str, Image], str]:
    """Return the photographs to tune on or to report on, and a sentence that names them."""
    if which == "tune":
        import skimage.data

        return {name: getattr(skimage.data, name)() for name in TUNE}, (
            "Photographs: those in colour that ship with scikit-image. Settings were chosen on them."
        )
    if data is None:
        pictures, _ = photographs("tune", None)
        return pictures, (
            "Photographs: those in colour that ship with scikit-image, as neither --data nor COUPLEDICT_DATA is set."
            " Settings were chosen on them: these figures are not to be reported."
        )
    from PIL import Image as Pillow

    found: dict[str, Image] = {}
    for file in sorted((data / "sr" / "Set14" / "image_SRF_2").glob("*_HR.png")):
        with Pillow.open(file) as picture:
            if picture.mode == "RGB" and min(picture.size) >= 400:
                found[file.stem[:7]] = np.asarray(picture)
    if not found:
        raise FileNotFoundError(
            f"Expected Set14 as sr/Set14/image_SRF_2/*_HR.png in '{data}', found no colour picture of 400 pixels or"
            " more each way; correct --data or COUPLEDICT_DATA, or leave both unset."
        )
    sentence = f"Photographs: {len(found)} of Set14, in colour, of 400 pixels or more. No setting was chosen on them."
    return found, sentence


def scenes(
    which: str = "tune",
    data: Path | None = None,
    *,
    kinds: Sequence[str] = KINDS,
    n: int = 5,
    noise: float = 0.0,
    motion: str = "none",
    radius: float = 6.0,
    seed: int = 0,
    cache: Path | None = None,
) -> Iterator[Stack]:
    """Make a stack of every kind from every photograph of a set; `cache` is a folder that keeps them without noise."""
    for number, (name, picture) in enumerate(photographs(which, data)[0].items()):
        for kind in kinds:
            own = 1000 * seed + 10 * number + KINDS.index(kind)
            file = cache and cache / f"{name}-{kind}-{n}-0-{motion}-{radius:g}-{own}.pickle"
            if file and file.exists():
                stack = pickle.loads(file.read_bytes())
            else:
                stack = make_stack(picture, kind, n, motion=motion, radius=radius, seed=own, name=f"{name} {kind}")
                if file:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(pickle.dumps(stack))
            yield with_noise(stack, noise)
