"""``coupledict fuse``: one sharp picture from a focus stack, or from each stack of a folder."""

from __future__ import annotations

import enum
import json
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..foundation.warning import warn
from ._app import FAILED, USER_ERRORS, MisuseError, Result, command, say
from ._options import Force, Quality, Threads, jobs
from ._progress import progress_bar
from ._stacks import find_pictures, find_stacks

if TYPE_CHECKING:
    from ..foundation.progress import Callback
    from ..images import Fusion
    from ..images._files import ImageHeader


class Register(enum.StrEnum):
    """Whether pictures are aligned."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Motion(enum.StrEnum):
    """Motion models that align a picture with the next."""

    AFFINE = "affine"
    SHIFT = "shift"
    SIMILARITY = "similarity"
    PROJECTIVE = "projective"


class Format(enum.StrEnum):
    """Endings of the results of a batch."""

    JPG = "jpg"
    PNG = "png"
    TIF = "tif"


REGISTER: dict[Register, bool | Literal["auto"]] = {Register.AUTO: "auto", Register.ALWAYS: True, Register.NEVER: False}
LEAST_GAIN = 0.002  # change of brightness that is worth mentioning


@dataclass(frozen=True)
class Settings:
    """Settings for one stack or for each stack of a batch."""

    register: Register
    motion: Motion
    keep_size: bool
    slab: int | None
    keep_gps: bool
    quality: int
    threads: int | None
    force: bool


@command(
    "One sharp picture from a focus stack.",
    "coupledict fuse near.jpg far.jpg -o sharp.jpg",
    "coupledict fuse stack/ -o sharp.tif --depth depth.png",
    'coupledict fuse "stack/*.tif" -o sharp.png --map map.png --motion projective',
    "coupledict fuse --batch stacks/ -o results/ --format tif",
)
def fuse(
    images: Annotated[
        list[Path],
        typer.Argument(
            metavar="PICTURE",
            help="Pictures of a scene, focused differently: files, a folder, or a pattern in quotes. Those of a folder"
            " or a pattern are sorted by the numbers in their names.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="Picture to write (.jpg, .png, .tif, .webp, .bmp); a folder with --batch."),
    ],
    depth: Annotated[
        Path | None,
        typer.Option(help="Depth map to write: grey levels from black, the first picture, to white, the last."),
    ] = None,
    map_: Annotated[
        Path | None, typer.Option("--map", help="Map to write: the source of each pixel, from black to white.")
    ] = None,
    register: Annotated[
        Register,
        typer.Option(
            help="Align pictures that are not aligned yet (auto), all that can be aligned (always), or none (never)."
        ),
    ] = Register.AUTO,
    motion: Annotated[Motion, typer.Option(help="Motion model that aligns a picture with the next.")] = Motion.AFFINE,
    keep_size: Annotated[
        bool, typer.Option("--keep-size", help="Keep the margins that not all pictures cover after alignment.")
    ] = False,
    slab: Annotated[
        int | None, typer.Option(help="Fuse groups of this size, then the results; for very long stacks.", min=2)
    ] = None,
    keep_gps: Annotated[
        bool, typer.Option("--keep-gps", help="Keep the GPS position in the EXIF data, which is otherwise removed.")
    ] = False,
    batch: Annotated[
        bool, typer.Option("--batch", help="Treat each sub-folder of a folder as a stack; the output is a folder.")
    ] = False,
    format_: Annotated[
        Format | None, typer.Option("--format", help="With --batch: format of the results, by default jpg.")
    ] = None,
    quality: Quality = 95,
    threads: Threads = None,
    force: Force = False,
) -> Result:
    """Fuse pictures of one scene that are focused differently into one that is sharp everywhere.

    The EXIF data (camera, date, lens, exposure) and the colour profile are taken from the middle picture of the stack.
    Formats include JPEG, PNG and TIFF (8 or 16 bits); HEIC and raw files need extras, which the error names.
    """
    settings = Settings(register, motion, keep_size, slab, keep_gps, quality, threads, force)
    if register is Register.NEVER and motion is not Motion.AFFINE:
        raise MisuseError(f"Expected --motion {motion} without --register never, which moves nothing.")
    if batch:
        if map_ is not None or depth is not None:
            raise MisuseError("Expected --batch without --map and --depth, each of which names one file.")
        return _fuse_batch(images, output, format_ or Format.JPG, settings)
    if format_ is not None:
        raise MisuseError(f"Expected --format only with --batch; without it, the name '{output}' sets the format.")
    with progress_bar() as callback:  # first, because the imports alone take a second
        outputs = _check_outputs(output, map_, depth, force=force)
        report = _fuse_stack(find_pictures(images, outputs), output, map_, depth, settings, callback)
    written = [str(path) for path in outputs]
    wrote = f"Wrote {written[0]}." if len(written) == 1 else f"Wrote {', '.join(written[:-1])} and {written[-1]}."
    return Result(report, [*_describe(report), wrote])


def _check_outputs(output: Path, map_: Path | None, depth: Path | None, *, force: bool) -> list[Path]:
    """Return the files that will be written, after checking that they are writable."""
    from ..images._files import check_output

    outputs = [path for path in (output, map_, depth) if path is not None]
    if len({os.path.realpath(path) for path in outputs}) < len(outputs):
        names = ", ".join(f"'{path}'" for path in outputs)
        raise MisuseError(f"Expected different files for the picture, its map and its depth, got {names}.")
    for path in outputs:
        check_output(path, force=force)
    return outputs


def _fuse_stack(
    files: list[Path],
    output: Path,
    map_: Path | None,
    depth: Path | None,
    settings: Settings,
    callback: Callback | None,
) -> dict[str, Any]:
    """Fuse one stack, write the outputs, and return a report."""
    from ..foundation.progress import Progress
    from ..images import MultiFocusFusion
    from ..images._files import Picture, write_image

    if len(files) < 2:
        raise MisuseError(f"Expected two or more pictures to fuse, got {len(files)}.")
    headers = _check_stack(files, settings)
    fusion = MultiFocusFusion(
        register=REGISTER[settings.register],
        motion=settings.motion.value,
        keep_size=settings.keep_size,
        slab=settings.slab,
        n_jobs=jobs(settings.threads),
        callback=callback,
    )
    fused = fusion.fuse(files)
    if callback is not None:
        callback(Progress("writing", 1, 1))
    if map_ is not None:
        write_image(map_, Picture(_map_levels(fused, len(files))), force=settings.force)
    if depth is not None:
        write_image(depth, Picture(_depth_levels(fused, len(files), depth)), force=settings.force)
    reference = headers[fused.reference]
    picture = Picture(fused.image, reference.profile, reference.exif)
    write_image(output, picture, force=settings.force, quality=settings.quality)
    return _report(files, output, map_, depth, fused, reference)


def _check_stack(files: Sequence[Path], settings: Settings) -> list[ImageHeader]:
    """Return the headers of the pictures, which must be of one size and kind."""
    from ..images._files import read_header, warn_of_lost_profile

    headers: list[ImageHeader] = []
    for file in files:
        about = read_header(file, keep_gps=settings.keep_gps)
        first = headers[0] if headers else about
        if (about.shape, about.dtype) != (first.shape, first.dtype):
            raise ValueError(
                f"Expected pictures of one size and kind, got {first} in '{files[0]}' and {about} in '{file}'."
            )
        headers.append(about)
    reference = len(files) // 2
    warn_of_lost_profile(headers[reference], files[reference])
    if len({about.profile for about in headers}) > 1:
        warn("The pictures have different colour profiles; the result gets that of the reference.")
    return headers


def _map_levels(fused: Fusion, n_sources: int) -> Any:
    """Return the decision as grey levels, from black for the first source to white for the last."""
    import numpy as np

    return np.rint(np.linspace(0, 255, n_sources)).astype(np.uint8)[fused.decision]


def _depth_levels(fused: Fusion, n_sources: int, file: Path) -> Any:
    """Return the depth as grey levels, with 16 bits if the format allows, because depth is smooth."""
    import numpy as np

    from ..images._files import EIGHT_BIT_ONLY

    kind = np.uint8 if file.suffix.lower() in EIGHT_BIT_ONLY else np.uint16
    share = np.clip(fused.depth / np.float32(n_sources - 1), 0, 1)
    return np.rint(share * np.float32(np.iinfo(kind).max)).astype(kind)


def _report(
    files: list[Path], output: Path, map_: Path | None, depth: Path | None, fused: Fusion, reference: ImageHeader
) -> dict[str, Any]:
    """Return the results, for machines."""
    sources = [
        {
            "file": str(file),
            "share": float(source.share),
            "aligned": bool(source.aligned),
            "shift": float(source.shift),
            "gain": float(source.gain),
            "correlation": [float(number) for number in source.correlation],
            "note": str(source.note),
        }
        for file, source in zip(files, fused.sources, strict=True)
    ]
    return {
        "output": str(output),
        "map": None if map_ is None else str(map_),
        "depth": None if depth is None else str(depth),
        "width": int(fused.image.shape[1]),
        "height": int(fused.image.shape[0]),
        "reference": str(files[fused.reference]),
        "reference_width": int(reference.shape[1]),
        "reference_height": int(reference.shape[0]),
        "box": [int(number) for number in fused.box],
        "sources": sources,
    }


def _describe(report: dict[str, Any]) -> list[str]:
    """Return the results, for people."""
    lines = []
    for source in report["sources"]:
        line = f"{source['share']:6.1%} of the pixels are from {source['file']}"
        if source["aligned"]:
            line += f", moved by up to {source['shift']:.1f} pixels"
        if abs(source["gain"] - 1) >= LEAST_GAIN:
            line += f", brightness times {source['gain']:.3f}"
        if source["note"]:
            line += f". {source['note']}"
        lines.append(line)
    moved = sum(source["aligned"] for source in report["sources"])
    if moved:
        lines.append(f"Aligned {moved} of {len(report['sources'])} pictures with {report['reference']}.")
    else:
        lines.append(f"No picture was moved; the reference is {report['reference']}.")
    width, height, kept_width, kept_height = (
        report[name] for name in ("reference_width", "reference_height", "width", "height")
    )
    if (kept_width, kept_height) != (width, height):
        top, left, bottom, right = report["box"]
        lines.append(
            f"Kept the area that all pictures cover, {kept_width} x {kept_height} of {width} x {height} pixels; cropped"
            f" {left} left, {top} top, {width - right} right, {height - bottom} bottom."
        )
    return lines


def _fuse_batch(images: list[Path], output: Path, format_: Format, settings: Settings) -> Result:
    """Fuse each sub-folder of a folder; a stack that fails does not stop the others."""
    if len(images) != 1:
        raise MisuseError(
            f"Expected one folder with --batch, whose sub-folders are the stacks, got {len(images)} paths."
        )
    with progress_bar("preparing"):
        stacks = find_stacks(images[0], output)
        targets = [output / f"{stack.name}.{format_}" for stack in stacks]
        _check_targets(output, targets, force=settings.force)
    output.mkdir(exist_ok=True)
    reports = []
    for number, (stack, target) in enumerate(zip(stacks, targets, strict=True), 1):
        with progress_bar(f"{stack.name} ({number} of {len(stacks)})") as callback:
            reports.append({"name": stack.name, **_fuse_one(stack, target, settings, callback)})
    n_failed = sum("error" in report for report in reports)
    lines = [line for report in reports for line in _describe_one(report)]
    lines.append(f"Fused {len(reports) - n_failed} of {len(reports)} stacks into {output}.")
    data = {"output": str(output), "fused": len(reports) - n_failed, "failed": n_failed, "stacks": reports}
    if not n_failed:
        return Result(data, lines)
    if "--json" in sys.argv:
        typer.echo(json.dumps({"command": "fuse", **data}))
    else:
        for line in lines:
            say(line)
    raise typer.Exit(FAILED)


def _check_targets(output: Path, targets: list[Path], *, force: bool) -> None:
    """Raise if the folder of the results can neither be used nor created, or if a result cannot be written."""
    from ..images._files import check_output

    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"Expected a folder for the results of --batch, got the file '{output}'.")
    folder = output if output.is_dir() else output.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"Expected the folder '{folder}' for the results to exist; make it first.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"Expected the folder '{folder}' to be writable; choose another or change its rights.")
    if output.is_dir():
        for target in targets:
            check_output(target, force=force)


def _fuse_one(stack: Path, target: Path, settings: Settings, callback: Callback | None) -> dict[str, Any]:
    """Fuse one stack of a batch; warnings and errors that a user can fix become part of the report."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always", UserWarning)
        try:
            report = _fuse_stack(find_pictures([stack], [target]), target, None, None, settings, callback)
        except USER_ERRORS as error:
            report = {"error": " ".join(str(error).split()) or "There is not enough memory for this."}
    return report | ({"warnings": [" ".join(str(one.message).split()) for one in noted]} if noted else {})


def _describe_one(report: dict[str, Any]) -> list[str]:
    notes = [f"  Warning: {note}" for note in report.get("warnings", [])]
    if "error" in report:
        return [f"{report['name']}: failed. {report['error']}", *notes]
    size = f"{report['width']} x {report['height']} pixels from {len(report['sources'])} pictures"
    notes += [f"  {source['file']}: {source['note']}" for source in report["sources"] if source["note"]]
    return [f"{report['name']}: wrote {report['output']}, {size}.", *notes]
