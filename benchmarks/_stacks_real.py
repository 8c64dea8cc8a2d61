"""Real stacks to be looked at, and what alignment does to the Lytro pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from _main import Options, join, progress, table
from _stacks_drawing import Float, Image, cv2
from _stacks_rivals import Fuse, read, write

from coupledict.experiments.sources import lytro_folder
from coupledict.images import MultiFocusFusion

STACKS = ("pcb", "flies")
CROP = 380  # pixels along a side
PLACES = 6


def real(name: str, found: dict[str, Fuse], options: Options) -> list[list[str]]:
    """Fuse a real stack by everyone into a folder of the output, with crops side by side; return rows about sources."""
    assert options.data is not None
    files = sorted((options.data / "stacks" / name).glob("*.jpg"))
    if not files:
        options.note(f"real: {name} is left out, as there are no pictures in stacks/{name}.")
        return []
    output = options.output / "stacks"
    output.mkdir(parents=True, exist_ok=True)
    engine: Any = MultiFocusFusion(n_jobs=2)
    fusion = engine.fuse(files)
    pictures: dict[str, Image] = {"coupledict": fusion.image}
    for rival, fuse in found.items():
        progress(f"fusing {name} by {rival}")
        try:
            pictures[rival] = fuse(files, True)
        except RuntimeError as error:
            options.note(f"{name}: {error}")
    for method, picture in pictures.items():
        write(output / f"{name}-{method}.png", picture)
    write(output / f"{name}-decision.png", _grey_levels(fusion.decision, len(files)))
    write(output / f"{name}-depth.png", _grey_levels(fusion.depth, len(files)))
    for number, strip in enumerate(crops(pictures)):
        write(output / f"{name}-crop-{number}.png", strip)
    options.note(f"Pictures and crops at 100 % ({', '.join(pictures)}, from left to right) are in {output}.")
    return [_told(file.name, source) for file, source in zip(files, fusion.sources, strict=True)]


def tell_real(name: str, rows: list[list[str]]) -> str:
    """Return the table of a real stack."""
    heads = [name, "share", "resampled", "corner, px", "gain", "correlation before", "after", "note"]
    return table(heads, rows) if rows else ""


def _told(name: str, source: Any) -> list[str]:
    """Return a row about a source."""
    before, after = source.correlation
    return [
        name,
        f"{source.share:.1%}",
        "yes" if source.aligned else "no",
        f"{source.shift:.2f}",
        f"{source.gain:.3f}",
        f"{before:.4f}",
        f"{after:.4f}",
        source.note,
    ]


def _grey_levels(labels: Any, n: int) -> Image:
    grey = np.rint(255 / max(n - 1, 1) * np.asarray(labels, np.float32)).astype(np.uint8)
    return np.dstack([grey] * 3)


def crops(pictures: dict[str, Image]) -> list[Image]:
    """Return crops of all pictures side by side: of the middle, and where the first and the others differ most."""
    first, *others = pictures.values()
    fitted = [first, *(_fitted(first, other) for other in others)]
    greys = [picture.mean(axis=2, dtype=np.float32) for picture in fitted]
    differences = np.zeros_like(greys[0])
    for grey in greys[1:]:
        differences += np.abs(cv2.GaussianBlur(grey - greys[0], (0, 0), 1.5))
    height, width = differences.shape
    crop = min(CROP, height, width)
    local = cv2.boxFilter(differences, -1, (crop // 4, crop // 4))
    margin = crop // 2
    places = [(height // 2, width // 2)]
    inner = np.zeros_like(local)
    inner[margin : height - margin + 1, margin : width - margin + 1] = 1
    local = local * inner
    local[_square(places[0], crop)] = 0
    for _ in range(PLACES - 1):
        row, column = np.unravel_index(int(local.argmax()), local.shape)
        places.append((int(row), int(column)))
        local[_square(places[-1], crop)] = 0
    strips = []
    for row, column in places:
        top, left = min(max(row - margin, 0), height - crop), min(max(column - margin, 0), width - crop)
        strips.append(np.hstack([picture[top : top + crop, left : left + crop] for picture in fitted]))
    return strips


def _square(place: Sequence[int], crop: int) -> tuple[slice, slice]:
    reach = crop * 3 // 4
    return slice(max(place[0] - reach, 0), place[0] + reach), slice(max(place[1] - reach, 0), place[1] + reach)


def _fitted(first: Image, other: Image) -> Image:
    """Return a picture in the frame of the first, by ECC, so that crops show the same place."""
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 100, 1e-5)
    greys: list[Float] = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (first, other)]
    matrix = np.eye(2, 3, dtype=np.float32)
    # A crop on all sides is the usual difference of frames.
    matrix[:, 2] = [(b - a) / 2 for a, b in zip(first.shape[1::-1], other.shape[1::-1], strict=True)]
    try:
        mask = np.full(greys[1].shape, 255, np.uint8)
        _, matrix = cv2.findTransformECC(greys[0], greys[1], matrix, cv2.MOTION_AFFINE, criteria, mask, 5)
    except cv2.error:
        progress("A rival's picture could not be aligned with ours: crops show other places.")
    fitted: Image = cv2.warpAffine(other, matrix, first.shape[1::-1], flags=cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP)
    return fitted


def lytro(options: Options) -> dict[str, Any]:
    """Return what alignment does to pairs that are aligned, or nearly so: it must not make them worse."""
    assert options.data is not None
    folder = lytro_folder(options.data)
    pairs = sorted({file.stem[:-2] for file in folder.glob("lytro-*.jpg")})[: 1 if options.quick else None]
    rows, worse, resampled = [], 0, 0
    for pair in pairs:
        sources = [read(folder / f"{pair}-{side}.jpg") for side in "AB"]
        fusion = MultiFocusFusion(register="auto").fuse(sources)
        other = 1 - fusion.reference
        moved = fusion.sources[other]
        before, after = correlations(sources[fusion.reference], sources[other], np.asarray(moved.matrix))
        resampled += moved.aligned
        worse += after < before - 1e-6
        if moved.aligned or moved.note:
            rows.append([pair, f"{moved.shift:.2f}", f"{before:.5f}", f"{after:.5f}", moved.note])
    return {"n": len(pairs), "resampled": resampled, "worse": worse, "rows": rows}


def tell_lytro(found: dict[str, Any]) -> str:
    """Return the table of the Lytro pairs that were moved."""
    return join(
        f"Lytro, register='auto': {found['resampled']} of {found['n']} pairs resampled, {found['worse']} with a lower"
        " correlation after.",
        table(["pair", "corner, px", "correlation before", "after", "note"], found["rows"]) if found["rows"] else "",
    )


def correlations(reference: Image, other: Image, matrix: Float) -> tuple[float, float]:
    """Return the correlation of brightness before and after a source is moved, both where it is then known."""
    greys = [image.mean(axis=2, dtype=np.float32) for image in (reference, other)]
    flags = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP
    size = reference.shape[1::-1]
    warped = cv2.warpPerspective(greys[1], matrix, size, flags=flags)
    known = cv2.warpPerspective(np.ones_like(greys[1]), matrix, size, flags=flags) > 0.999
    before, after = (float(np.corrcoef(greys[0][known], grey[known])[0, 1]) for grey in (greys[1], warped))
    return before, after
