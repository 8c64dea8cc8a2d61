"""What fuses focus stacks besides us: programs that people use, and two small ones made of OpenCV's parts.

- ``enfuse``, with the settings of its manual for focus stacks; moved stacks go through ``align_image_stack`` of hugin.
- ``focus-stack`` by Petteri Aimonen, with its defaults; brightness and white balance are left alone in aligned stacks.
- ``pyramid``: the simplest careful one: ECC from neighbour to neighbour, and of each level of a Laplacian pyramid the
  coefficient with most energy around it.
- ``prototype``: ECC likewise; energy of detail over three scales less the noise, smoothed by a guided filter over the
  cost volume; a blend by Laplacian pyramids.

They read files and return a picture in a frame of their own. Those that are not installed are left out.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from _stacks_drawing import Float, Image, cv2

Fuse: TypeAlias = Callable[[Sequence[Path], bool], Image]

ENFUSE = ("--exposure-weight=0", "--saturation-weight=0", "--contrast-weight=1", "--hard-mask")
SMALL = 1_000_000  # pixels, below which pictures are aligned at full resolution rather than at half


def read(file: Path) -> Image:
    """Return a picture as red, green and blue, 8 bits."""
    picture = cv2.imread(str(file), cv2.IMREAD_COLOR)
    if picture is None:
        raise RuntimeError(f"Expected a picture in '{file}', found none.")
    rgb: Image = cv2.cvtColor(picture, cv2.COLOR_BGR2RGB)
    return rgb


def write(file: Path, image: Image) -> None:
    """Write a picture; the ending of the name tells how."""
    cv2.imwrite(str(file), cv2.cvtColor(image, cv2.COLOR_RGB2BGR))


def _run(command: Sequence[str], folder: str) -> None:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, cwd=folder, check=False, text=True, **pipes)
    if done.returncode:
        raise RuntimeError(f"Expected '{command[0]}' to succeed, got code {done.returncode}: {done.stdout[-300:]}")


def enfuse(files: Sequence[Path], moved: bool) -> Image:
    """Fuse by enfuse; align by align_image_stack, which scales pictures to the first."""
    with tempfile.TemporaryDirectory() as folder:
        inputs = [str(file.resolve()) for file in files]
        if moved:
            pixels = np.prod(read(files[0]).shape[:2])
            scale = "0" if pixels < SMALL else "1"
            options = ("-m", "-f", "30", "-s", scale, "-c", "16", "--use-given-order", "-a", "aligned")
            _run(["align_image_stack", *options, *inputs], folder)
            inputs = sorted(str(file) for file in Path(folder).glob("aligned*.tif"))
        _run(["enfuse", *ENFUSE, "-o", "fused.tif", *inputs], folder)
        return read(Path(folder, "fused.tif"))


def focus_stack(files: Sequence[Path], moved: bool) -> Image:
    """Fuse by focus-stack; it aligns to the picture in the middle, and always does."""
    with tempfile.TemporaryDirectory() as folder:
        inputs = [str(file.resolve()) for file in files]
        options = [] if moved else ["--no-whitebalance", "--no-contrast"]
        _run(["focus-stack", *options, "--output=fused.png", *inputs], folder)
        return read(Path(folder, "fused.png"))


def ecc_matrices(pictures: Sequence[Image]) -> list[Float]:
    """Align neighbours towards the middle by ECC; return matrices from the middle's positions to each source's."""
    greys = [cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY) for picture in pictures]
    middle = len(greys) // 2
    matrices: list[Float] = [np.eye(3) for _ in greys]
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 50, 1e-5)
    for indices in (range(middle - 1, -1, -1), range(middle + 1, len(greys))):
        for index in indices:
            towards = index + 1 if index < middle else index - 1
            step = np.eye(2, 3, dtype=np.float32)
            mask = np.full(greys[index].shape, 255, np.uint8)
            with contextlib.suppress(cv2.error):  # no convergence: the picture stays where it is
                _, step = cv2.findTransformECC(greys[towards], greys[index], step, cv2.MOTION_AFFINE, criteria, mask, 5)
            matrices[index] = np.vstack([step, [0, 0, 1]]).astype(np.float64) @ matrices[towards]
    return matrices


def _aligned(files: Sequence[Path], moved: bool) -> list[Float]:
    """Return pictures in the frame of the middle one, as bright as it."""
    pictures = [read(file) for file in files]
    if not moved:
        return [picture.astype(np.float32) for picture in pictures]
    middle = pictures[len(pictures) // 2].astype(np.float32)
    aligned = []
    for picture, matrix in zip(pictures, ecc_matrices(pictures), strict=True):
        flags = cv2.INTER_LANCZOS4 | cv2.WARP_INVERSE_MAP
        size = picture.shape[1::-1]
        warped = cv2.warpAffine(
            picture.astype(np.float32), matrix[:2], size, flags=flags, borderMode=cv2.BORDER_REFLECT
        )
        aligned.append(warped * (middle.mean() / max(warped.mean(), 1e-6)))
    return aligned


def _laplacian_pyramid(image: Float, levels: int) -> list[Float]:
    pyramid = []
    for _ in range(levels):
        small = cv2.pyrDown(image)
        pyramid.append(image - cv2.pyrUp(small, dstsize=image.shape[1::-1]))
        image = small
    return [*pyramid, image]


def _collapsed(pyramid: Sequence[Float]) -> Image:
    image = pyramid[-1]
    for level in pyramid[-2::-1]:
        image = cv2.pyrUp(image, dstsize=level.shape[1::-1]) + level
    return np.clip(np.rint(image), 0, 255).astype(np.uint8)


def _levels(shape: tuple[int, ...]) -> int:
    return max(int(np.log2(min(shape[:2]))) - 4, 1)


def pyramid(files: Sequence[Path], moved: bool) -> Image:
    """Take the coefficient with most energy around it, on each level; the coarsest is averaged."""
    sources = _aligned(files, moved)
    levels = _levels(sources[0].shape)
    pyramids = [_laplacian_pyramid(source, levels) for source in sources]
    fused = []
    for place in range(levels):
        bands = np.stack([own[place] for own in pyramids])
        energy = np.stack([cv2.GaussianBlur((band**2).sum(axis=2), (5, 5), 1.0) for band in bands])
        chosen = energy.argmax(axis=0)
        fused.append(np.take_along_axis(bands, chosen[None, ..., None], axis=0)[0])
    return _collapsed([*fused, np.mean([own[levels] for own in pyramids], axis=0)])


def _guided(guide: Float, values: Float, radius: int, epsilon: float) -> Float:
    """Filter values so that their edges follow those of a guide."""

    def mean(array: Float) -> Float:
        smooth: Float = cv2.boxFilter(array, -1, (2 * radius + 1, 2 * radius + 1))
        return smooth

    mean_guide, mean_values = mean(guide), mean(values)
    slope = (mean(guide * values) - mean_guide * mean_values) / (mean(guide**2) - mean_guide**2 + epsilon)
    filtered: Float = mean(slope) * guide + mean(mean_values - slope * mean_guide)
    return filtered


def _detail(grey: Float) -> Float:
    """Return the energy of detail over three scales, less that of the noise."""
    kernel = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32)
    noise = float(np.median(np.abs(cv2.filter2D(grey, -1, kernel)))) / 0.6745 / 6  # 6: the kernel's norm
    total = np.zeros_like(grey)
    for sigma in (0.7, 1.4, 2.8):
        soft = cv2.GaussianBlur(grey, (0, 0), sigma)
        detail = sigma * cv2.Laplacian(soft, cv2.CV_32F, ksize=1)
        grain = sigma * noise / (2 * sigma**2)  # about what white noise leaves
        total += np.maximum(cv2.GaussianBlur(detail**2, (0, 0), 2 * sigma) - grain**2, 0)
    return total


def prototype(files: Sequence[Path], moved: bool) -> Image:
    """Decide by detail less noise in a filtered cost volume, and blend by pyramids."""
    sources = _aligned(files, moved)
    greys = [cv2.cvtColor(source, cv2.COLOR_RGB2GRAY) for source in sources]
    evidence = np.stack([np.sqrt(_detail(grey)) for grey in greys])
    evidence /= evidence.max(axis=0).clip(1.0)
    guide = np.stack(greys).mean(axis=0) / 255
    volume = np.stack([_guided(guide, own, 6, 1e-4) for own in evidence])
    chosen = volume.argmax(axis=0)
    levels = _levels(sources[0].shape)
    fused: list[Float] = []
    for index, source in enumerate(sources):
        weight = (chosen == index).astype(np.float32)
        for place, band in enumerate(_laplacian_pyramid(source, levels)):
            if index == 0:
                fused.append(np.zeros_like(band))
            fused[place] += weight[..., None] * band
            weight = cv2.pyrDown(weight)
    return _collapsed(fused)


def rivals() -> tuple[dict[str, Fuse], list[str]]:
    """Return the rivals that are installed, and words about those that are not."""
    found: dict[str, Fuse] = {"pyramid": pyramid, "prototype": prototype}
    missing = []
    for name, fuse, programs in (
        ("enfuse", enfuse, ("enfuse", "align_image_stack")),
        ("focus-stack", focus_stack, ("focus-stack",)),
    ):
        absent = [program for program in programs if shutil.which(program) is None]
        if absent:
            missing.append(f"{name} is left out: {' and '.join(absent)} is not on the PATH.")
        else:
            found[name] = fuse
    return found, missing
