"""The three things that the page does: fuse a focus stack, enlarge a picture, show the atoms of a model.

Each is called in the worker thread with its job and the form that was sent. It reports progress, writes the files of
the page into the job's folder and returns, as JSON, what the page shows.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..images import MultiFocusFusion, SuperResolution, imresize
from ..images._files import Picture, read_image, write_image
from . import _samples
from ._jobs import Job
from ._uploads import Form, Limits, Upload, picture_size

Pixels = npt.NDArray[Any]

MOST_SHOWN = 4_000_000  # pixels of what the page shows; larger pictures are shown smaller, and downloaded whole
READING, WRITING = "Reading the files", "Writing the result"
#: Names of the estimators' stages on the page.
PHASES = {
    "aligning": "Aligning the pictures",
    "fusing": "Comparing the pictures",
    "upscaling": "Enlarging the picture",
}
SCALES = ("2", "3", "4")
#: Colours of the sources in a decision map: safe for colour-blind people (Okabe and Ito), repeated beyond eight.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#555555")


def fuse(job: Job, form: Form, limits: Limits) -> dict[str, Any]:
    """Fuse the pictures that were sent."""
    job.report(READING)
    uploads = form.files or _samples.focus_stack(job.folder)
    if len(uploads) < 2:
        raise ValueError(f"Expected two or more pictures of one scene, got {len(uploads)}.")
    pictures = _read(job, uploads, limits)
    first = pictures[0].pixels
    for upload, picture in zip(uploads, pictures, strict=True):
        if picture.pixels.shape != first.shape or picture.pixels.dtype != first.dtype:
            raise ValueError(
                f"Expected pictures of one size and kind, got {_describe(first)} in '{uploads[0].name}' and"
                f" {_describe(picture.pixels)} in '{upload.name}'."
            )
    register = form.options.get("register") == "yes"
    job.report(PHASES["aligning" if register else "fusing"])
    fusion = MultiFocusFusion(register=register, n_jobs=-1, callback=job.watch(PHASES))
    fused = fusion.fuse([picture.pixels for picture in pictures])
    job.report(WRITING)
    stem, profile = uploads[0].stem, pictures[0].profile
    result = _keep(job, "fused", Picture(fused.image, profile), f"{stem}-fused")
    befores = []
    for number, (upload, picture) in enumerate(zip(uploads, pictures, strict=True)):
        job.report(WRITING, number / len(uploads))
        befores.append({"label": upload.name, "view": _view(job, f"source-{number}", Picture(picture.pixels, profile))})
    shares = np.bincount(fused.decision.ravel(), minlength=len(uploads)) / fused.decision.size
    return {
        "result": result | {"label": "Fused"},
        "note": "" if form.files else _samples.STACK_NOTE,
        "before": befores,
        "map": _keep_map(job, fused.decision, len(uploads), f"{stem}-map"),
        "shares": [
            {"label": upload.name, "share": float(share), "colour": COLOURS[number % len(COLOURS)]}
            for number, (upload, share) in enumerate(zip(uploads, shares, strict=True))
        ],
    }


def enlarge(job: Job, form: Form, limits: Limits) -> dict[str, Any]:
    """Enlarge the picture that was sent."""
    job.report(READING)
    scale = form.options.get("scale", "2")
    if scale not in SCALES:
        raise ValueError(f"Expected a scale of 2, 3 or 4, got {scale!r}.")
    uploads = form.files or _samples.small_picture(job.folder)
    if len(uploads) != 1:
        raise ValueError(f"Expected one picture at a time, got {len(uploads)}.")
    width, height = picture_size(uploads[0])
    limits.check_pixels(width * height * int(scale) ** 2, f"'{uploads[0].name}' enlarged would have")
    (picture,) = _read(job, uploads, limits)
    job.report(PHASES["upscaling"])
    enlarger = SuperResolution.pretrained(int(scale), n_jobs=-1, callback=job.watch(PHASES))
    large = enlarger.upscale(picture.pixels)
    job.report(WRITING)
    bicubic = imresize(picture.pixels, int(scale))
    return {
        "result": _keep(job, "enlarged", Picture(large, picture.profile), f"{uploads[0].stem}-x{scale}")
        | {"label": "Enlarged"},
        "note": "" if form.files else _samples.SMALL_NOTE,
        "before": [{"label": "Bicubic", "view": _view(job, "bicubic", Picture(bicubic, picture.profile))}],
        "source": {"label": uploads[0].name, "width": picture.pixels.shape[1], "height": picture.pixels.shape[0]},
    }


def explore(job: Job, form: Form, limits: Limits) -> dict[str, Any]:
    """Make a page of the atoms of the model that was sent."""
    from ..loading import load
    from ..report import explorer_page
    from ..report._models import model_atoms

    job.report(READING)
    uploads = form.files or _samples.model(job.folder)
    if len(uploads) != 1:
        raise ValueError(f"Expected one model file at a time, got {len(uploads)}.")
    model = load(uploads[0].path)
    job.report("Drawing the atoms")
    found = model_atoms(model)
    page = explorer_page(found.dictionaries, title=uploads[0].name, patch_size=found.patch_size, names=found.names)
    (job.folder / "atoms.html").write_text(page, encoding="utf-8")
    return {
        "page": "atoms.html",
        "name": f"{uploads[0].stem}-atoms.html",
        "title": uploads[0].name,
        "atoms": len(found.dictionaries[0]),
        "views": len(found.dictionaries),
    }


TASKS = {"fuse": fuse, "enlarge": enlarge, "explore": explore}


def _read(job: Job, uploads: list[Upload], limits: Limits) -> list[Picture]:
    """Read pictures; all sizes are checked before the first is decoded."""
    sizes = [picture_size(upload) for upload in uploads]
    what = f"'{uploads[0].name}' has" if len(uploads) == 1 else f"these {len(uploads)} pictures have"
    limits.check_pixels(sum(width * height for width, height in sizes), what)
    pictures = []
    for number, upload in enumerate(uploads):
        job.report(READING, number / len(uploads))
        pictures.append(read_image(upload.path))
    return pictures


def _describe(pixels: Pixels) -> str:
    kind = "grey" if pixels.ndim == 2 else "colour" if pixels.shape[2] == 3 else "colour with alpha"
    return f"{pixels.shape[1]} x {pixels.shape[0]} pixels of {8 * pixels.itemsize}-bit {kind}"


def _keep(job: Job, name: str, picture: Picture, download: str) -> dict[str, Any]:
    """Write a result with all its bits; return its file, and a file that browsers can show.

    It is PNG, or TIFF for 16-bit colour.
    """
    pixels = picture.pixels
    suffix = ".tif" if pixels.dtype == np.uint16 and pixels.ndim == 3 else ".png"
    write_image(job.folder / (name + suffix), picture)
    height, width = pixels.shape[:2]
    shown = suffix == ".png" and pixels.dtype == np.uint8 and width * height <= MOST_SHOWN
    return {
        "file": name + suffix,
        "name": download + suffix,
        "view": name + suffix if shown else _view(job, f"{name}-view", picture),
        "width": width,
        "height": height,
        "bits": 8 * pixels.itemsize,
    }


def _view(job: Job, name: str, picture: Picture) -> str:
    """Write a picture for the page alone: 8 bits, and at most `MOST_SHOWN` pixels."""
    pixels = picture.pixels
    if pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    share = math.sqrt(MOST_SHOWN / (pixels.shape[0] * pixels.shape[1]))
    if share < 1:
        pixels = imresize(pixels, shape=(max(1, int(share * pixels.shape[0])), max(1, int(share * pixels.shape[1]))))
    write_image(job.folder / f"{name}.png", Picture(pixels, picture.profile))
    return f"{name}.png"


def _keep_map(job: Job, decision: Pixels, n_sources: int, download: str) -> dict[str, Any]:
    """Write which source each pixel is from, as a palette image whose indices are the numbers of the sources."""
    from PIL import Image

    height, width = decision.shape
    step = math.ceil(math.sqrt(height * width / MOST_SHOWN))
    for name, numbers in (("map.png", decision), ("map-view.png", decision[::step, ::step])):
        image = Image.fromarray(np.ascontiguousarray(numbers, np.uint8))
        image.putpalette(b"".join(bytes.fromhex(COLOURS[n % len(COLOURS)][1:]) for n in range(n_sources)))
        image.save(job.folder / name, "PNG")
    return {"file": "map.png", "name": f"{download}.png", "view": "map-view.png", "width": width, "height": height}


def write_names(uploads: list[Upload]) -> dict[str, str]:
    """Return the names of the files of an upload by their paths, which error messages may contain."""
    return {str(Path(upload.path)): upload.name for upload in uploads}
