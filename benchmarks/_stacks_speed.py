"""Time and memory of the fusion of stacks that are read from files, each in a process of its own.

The stacks are photographs laid side by side, with a plane of focus that moves across them, 1 % of breathing over the
whole stack and shifts of a few pixels. CPU seconds are those of user and system, of the process and of what it starts.
Memory is the highest resident size over that after imports, per megapixel of one picture.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _main import Options, join, progress, table
from _memory import levels
from _stacks_drawing import Float, cv2
from _stacks_rivals import rivals, write

SIDES = {3: (1536, 2048), 12: (3072, 4096)}  # megapixels: height, width
PICTURES = 7
MANY = (5, 20, 50)
SHARP = 6.0  # as many zones would be in focus at a time if the stack had this many pictures


def large_stack(folder: Path, megapixels: int, n: int) -> list[Path]:
    """Write a moved stack of large pictures as JPEG; return the files."""
    import skimage.data

    height, width = SIDES[megapixels]
    photograph: Any = getattr(skimage.data, "astronaut")()  # noqa: B009 - its type is not known
    mirrored = np.vstack([photograph, photograph[::-1]])
    mirrored = np.hstack([mirrored, mirrored[:, ::-1]])
    repeats = (-(-height // mirrored.shape[0]), -(-width // mirrored.shape[1]), 1)
    scene = np.tile(mirrored, repeats)[:height, :width]
    soft: list[Float] = [cv2.GaussianBlur(scene, (0, 0), sigma) if sigma else scene for sigma in (0, 1.5, 3.0)]
    rng = np.random.default_rng(n)
    place = np.linspace(0, 1, width)
    files = []
    for index in range(n):
        away = SHARP * np.abs(place - (index + 0.5) / n)
        level = np.clip(np.rint(away), 0, 2).astype(np.intp)
        picture = np.where((level == 0)[:, None], soft[0], np.where((level == 1)[:, None], soft[1], soft[2]))
        scale, shift = 1 + 0.01 * (index - n // 2) / n, rng.uniform(-3, 3, 2) * (index != n // 2)
        centre = np.array([width, height]) / 2
        matrix = np.c_[scale * np.eye(2), centre + shift - scale * centre]
        moved = cv2.warpAffine(picture, matrix, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REFLECT)
        files.append(folder / f"picture_{index:03d}.jpg")
        write(files[-1], moved)
    return files


def child(task: Mapping[str, Any]) -> None:
    """Fuse files as asked, in this process; print seconds and bytes."""
    files = [Path(file) for file in task["files"]]
    cv2.setNumThreads(task["threads"])
    fuse = rivals()[0].get(task["method"])
    if fuse is None:
        from coupledict.images import MultiFocusFusion

        fusion: Any = MultiFocusFusion(n_jobs=task["threads"])
    before, _ = levels()
    cpu, start = _cpu(), time.perf_counter()
    shape = fuse(files, True).shape if fuse is not None else fusion.fuse(files).image.shape
    wall, cpu = time.perf_counter() - start, _cpu() - cpu
    print(json.dumps({"wall": wall, "cpu": cpu, "bytes": levels()[1] - before, "shape": shape}))


def _cpu() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measured(files: Sequence[Path], method: str, threads: int) -> dict[str, Any]:
    """Fuse files in a process of its own."""
    task = json.dumps({"files": [str(file.resolve()) for file in files], "method": method, "threads": threads})
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    command = [sys.executable, __file__, task]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | limits)
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def speed(name: str, methods: Sequence[str], options: Options) -> dict[str, Any]:
    """Return runs of all methods on a stack: the name of a real one, or megapixels."""
    with tempfile.TemporaryDirectory() as folder:
        if name.isdigit():
            files = large_stack(_within(folder, name), int(name), 3 if options.quick else PICTURES)
        else:
            assert options.data is not None
            files = sorted((options.data / "stacks" / name).glob("*.jpg"))
        return _times(name, files, methods, options.repeats)


def _within(folder: str | Path, name: str) -> Path:
    inner = Path(folder, name)
    inner.mkdir()
    return inner


def _times(name: str, files: Sequence[Path], methods: Sequence[str], repeats: int) -> dict[str, Any]:
    height, width = cv2.imread(str(files[0])).shape[:2]
    entries = [(method, threads) for method in methods for threads in (1, 2)]
    runs: dict[tuple[str, int], list[dict[str, Any]]] = {entry: [] for entry in entries}
    failed = set()
    for turn in range(repeats):
        for entry in entries[turn % len(entries) :] + entries[: turn % len(entries)]:
            if entry in failed:
                continue
            progress(f"{name}: {entry[0]}, {entry[1]} threads")
            try:
                runs[entry].append(measured(files, *entry))
            except subprocess.CalledProcessError:
                failed.add(entry)
    return {"n": len(files), "megapixels": 1e-6 * height * width, "runs": runs}


def tell_speed(results: Mapping[str, dict[str, Any]], options: Options) -> str:
    """Return seconds per megapixel and picture."""
    blocks = [f"Medians of {options.repeats}, in turns, alignment and files included."]
    for name, found in results.items():
        runs, unit = found["runs"], found["megapixels"] * found["n"]
        rows = []
        for method in dict.fromkeys(method for method, _ in runs):
            if not (runs[method, 1] and runs[method, 2]):
                rows.append([method, *["failed"] * 6])
                continue
            (one, one_cpu), (two, two_cpu) = (
                [float(np.median([run[figure] for run in runs[method, threads]])) for figure in ("wall", "cpu")]
                for threads in (1, 2)
            )
            times = [f"{one_cpu:.1f} s", f"{one_cpu / unit:.3f} s", f"{one:.1f} s", f"{two:.1f} s", f"{one / two:.2f}x"]
            rows.append([method, *times, f"{two_cpu / unit:.3f} s"])
        heads = [
            "CPU, 1 thread",
            "per MP and picture",
            "time, 1 thread",
            "2 threads",
            "gain",
            "CPU per MP and picture, 2",
        ]
        kind = f"made, {name} MP" if name.isdigit() else name
        blocks.append(table([f"{kind}: {found['n']} x {found['megapixels']:.1f} MP", *heads], rows))
    return join(*blocks)


def memory(size: int, n: int) -> list[float]:
    """Return the megabytes per megapixel of a picture that a stack takes on one and two threads."""
    height, width = SIDES[size]
    with tempfile.TemporaryDirectory() as folder:
        files = large_stack(Path(folder), size, n)
        # Bytes per pixel are MB per megapixel.
        return [measured(files, "coupledict", threads)["bytes"] / (height * width) for threads in (1, 2)]


def tell_memory(results: Mapping[str, list[float]]) -> str:
    """Return megabytes per megapixel."""
    rows = [[title, *(f"{used:.0f} MB" for used in found)] for title, found in results.items()]
    caption = "Highest resident memory over that after imports, per megapixel of a picture."
    return join(caption, table(["coupledict", "1 thread", "2 threads"], rows))


if __name__ == "__main__":
    child(json.loads(sys.argv[1]))
