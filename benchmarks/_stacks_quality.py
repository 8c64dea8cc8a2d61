"""Figures of synthetic stacks: PSNR of every method, halos, errors of alignment, and what the dictionary adds."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from _stacks_drawing import cv2
from _stacks_rivals import Fuse, ecc_matrices, write
from _stacks_scenes import ATTAINABLE, KINDS, MOTIONS, OCCLUDED, Stack, scenes
from _stacks_scores import Score, _warp, corner_error, score_fusion, score_picture
from _timing import table

from coupledict.images import MultiFocusFusion
from coupledict.images._fusion_focus import CELL, FocusMeasure, cell_shape

OURS = "coupledict"
PLAIN = "coupledict, as it is"  # in the reference's frame, as the caller gets it
CEILING = "(true motion and labels)"


@dataclass(frozen=True)
class Plan:
    """Which stacks are made: a set of photographs, kinds, numbers of sources, and a folder that keeps them."""

    which: str = "report"
    data: Path | None = None
    kinds: tuple[str, ...] = KINDS
    n: int = 5
    cache: Path | None = None
    threads: int = 1

    def stacks(self, **settings: Any) -> Iterator[Stack]:
        """Make the stacks."""
        own: dict[str, Any] = {"kinds": self.kinds, "n": self.n} | settings
        return scenes(self.which, self.data, cache=self.cache, **own)


Results = dict[tuple[str, str], list[Score]]  # by method and kind


def fuse_ours(stack: Stack, threads: int = 1, **parameters: Any) -> tuple[Any, Any]:
    """Return the fusion, and the fusion of the whole frame."""
    fusion = MultiFocusFusion(n_jobs=threads, **parameters).fuse(stack.sources)
    if fusion.image.shape == stack.truth.shape:
        return fusion, fusion
    return fusion, MultiFocusFusion(n_jobs=threads, keep_size=True, **parameters).fuse(stack.sources)


def true_fusion(stack: Stack) -> Any:
    """Return the picture that is composed of the sources in best focus, moved by the true matrices."""
    aligned = [
        np.dstack([_warp(source[..., band].astype(np.float32), matrix, stack.labels.shape, 3) for band in range(3)])
        / gain
        for source, matrix, gain in zip(stack.sources, stack.matrices, stack.gains, strict=True)
    ]
    chosen = np.take_along_axis(np.stack(aligned), stack.labels[None, ..., None].astype(np.intp), axis=0)[0]
    return np.clip(np.rint(chosen), 0, 255).astype(np.uint8)


def collect(plan: Plan, rivals: dict[str, Fuse], motion: str, noise: float) -> Results:
    """Fuse every stack by every method."""
    results: Results = {}
    for stack in plan.stacks(motion=motion, noise=noise):
        print(f"fusing {stack.name}, {motion}, noise {noise:g}", file=sys.stderr, flush=True)
        kind = stack.settings["kind"]
        fusion, whole = fuse_ours(stack, plan.threads)
        results.setdefault((PLAIN, kind), []).append(score_fusion(stack, fusion, whole))
        ours = replace(score_picture(stack, fusion.image), full=score_picture(stack, whole.image).full)
        results.setdefault((OURS, kind), []).append(ours)
        results.setdefault((CEILING, kind), []).append(score_picture(stack, true_fusion(stack)))
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, f"{index:03d}.png") for index in range(len(stack.sources))]
            for file, source in zip(files, stack.sources, strict=True):
                write(file, source)
            for name, fuse in rivals.items():
                results.setdefault((name, kind), []).append(_attempt(stack, fuse, files, motion != "none"))
    return results


def _attempt(stack: Stack, fuse: Fuse, files: Sequence[Path], moved: bool) -> Score:
    """Score a rival; one that fails has no figures, and it is said."""
    try:
        return score_picture(stack, fuse(files, moved))
    except RuntimeError as error:
        print(f"{stack.name}: {error}", file=sys.stderr, flush=True)
        return Score(*[float("nan")] * len(fields(Score)))


def _methods(results: Results) -> list[str]:
    return list(dict.fromkeys(name for name, _ in results))


def _values(results: Results, method: str, kinds: Sequence[str], figure: str) -> list[float]:
    return [getattr(score, figure) for kind in kinds for score in results.get((method, kind), ())]


def _mean(values: Sequence[float], form: str = ".2f") -> str:
    kept = [value for value in values if value == value]
    failed = len(values) - len(kept)
    if not kept:
        return "-"
    return format(float(np.mean(kept)), form) + (f" ({failed} failed)" if failed and failed < len(values) else "")


def quality(
    plan: Plan, rivals: dict[str, Fuse], noises: Sequence[float], motions: Sequence[str] = ("none", "moved")
) -> None:
    """Print the PSNR of every method."""
    groups = {
        "truth in the sources": [kind for kind in ATTAINABLE if kind in plan.kinds],
        "occlusion": [kind for kind in OCCLUDED if kind in plan.kinds],
        "all": list(plan.kinds),
    }
    groups = {name: kinds for name, kinds in groups.items() if kinds}
    for motion in motions:
        title = "aligned" if motion == "none" else motion
        for noise in noises:
            results = collect(plan, rivals, motion, noise)
            heads = [f"{title}, noise {noise:g}: PSNR", *groups, "worst", *(["full frame"] if motion != "none" else [])]
            rows = []
            for method in _methods(results):
                row = [method, *(_mean(_values(results, method, kinds, "inside")) for kinds in groups.values())]
                inside = [value for value in _values(results, method, plan.kinds, "inside") if value == value]
                row.append(f"{min(inside):.2f}" if inside else "-")
                if motion != "none":
                    row.append(_mean(_values(results, method, plan.kinds, "full")))
                rows.append(row)
            print(table(heads, rows), end="\n\n")
            rows = [
                [method, *(_mean(_values(results, method, [kind], "inside")) for kind in plan.kinds)]
                for method in _methods(results)
            ]
            print(table(["by kind", *plan.kinds], rows), end="\n\n")
            wrong = _mean([100 * value for value in _values(results, PLAIN, plan.kinds, "wrong")])
            corner = _mean(_values(results, PLAIN, plan.kinds, "corner"), ".3f")
            print(
                f"Ours: {wrong} % of the pixels with contrast are from a source more than 0.5 px worse than the best;"
            )
            print(f"corners {corner} px off (root of the mean squares, mean over stacks).", end="\n\n", flush=True)


def halos(plan: Plan, rivals: dict[str, Fuse], noises: Sequence[float]) -> None:
    """Print errors close to edges in front of a background that is never in focus."""
    for motion in ("none", "moved"):
        columns: list[tuple[str, Results]] = []
        for noise in noises:
            chosen = Plan(plan.which, plan.data, ("unfocused",), plan.n, plan.cache, plan.threads)
            columns.append((f"noise {noise:g}", collect(chosen, rivals, motion, noise)))
        title = "aligned" if motion == "none" else motion
        heads = [f"{title}: RMSE within 20 px of edges / of that, background"]
        rows = [
            [
                method,
                *(
                    f"{_mean(_values(results, method, ['unfocused'], 'band'))} /"
                    f" {_mean(_values(results, method, ['unfocused'], 'halo'))}"
                    for _, results in columns
                ),
            ]
            for method in _methods(columns[0][1])
        ]
        print(table([*heads, *(name for name, _ in columns)], rows), end="\n\n", flush=True)


def alignment(plan: Plan, noises: Sequence[float]) -> None:
    """Print errors of the corners over motions and blurs, and whether aligned stacks are left alone."""
    kinds = tuple(kind for kind in ("hills", "layers") if kind in plan.kinds) or plan.kinds
    low, high = min(noises), max(noises)
    settings = [(motion, 6.0, low) for motion in MOTIONS]
    settings += [(motion, *other) for motion in ("none", "moved") for other in ((12.0, low), (6.0, high))]
    rows = []
    for motion, radius, noise in dict.fromkeys(settings):
        errors, others, resampled, notes = [], [], 0, 0
        for stack in plan.stacks(kinds=kinds, motion=motion, noise=noise, radius=radius):
            print(f"aligning {stack.name}, {motion}, {radius:g} px, {noise:g}", file=sys.stderr, flush=True)
            fusion = MultiFocusFusion(n_jobs=plan.threads).fuse(stack.sources)
            errors.append(corner_error(stack, [source.matrix for source in fusion.sources]))
            others.append(corner_error(stack, ecc_matrices(stack.sources)))
            resampled += sum(source.aligned for source in fusion.sources)
            notes += sum(bool(source.note) for source in fusion.sources)
        rows.append(
            [
                f"{motion}, blur to {radius:g} px, noise {noise:g}",
                f"{np.mean(errors):.3f}",
                f"{np.max(errors):.3f}",
                f"{resampled} of {len(errors) * (plan.n - 1)}",
                str(notes),
                f"{np.mean(others):.3f}",
                f"{np.max(others):.3f}",
            ]
        )
    print("Error of a stack's corners in pixels, root of the mean squares; ECC: plainly, from neighbour to neighbour.")
    heads = ["motion", "mean", "worst", "resampled", "with a note", "ECC, mean", "worst"]
    print(table(heads, rows), end="\n\n", flush=True)


class _Energy(FocusMeasure):
    """The energy of the Laplacian on the same grid, scales and weights as the dictionary's measure, less the noise."""

    less_noise = True

    def _measure_scale(self, values: Any, tolerance: float) -> Any:
        rows, columns = cell_shape(values.shape)
        framed = cv2.copyMakeBorder(values, 0, CELL * rows - len(values), 0, 0, cv2.BORDER_REFLECT_101)
        framed = cv2.copyMakeBorder(framed, 0, 0, 0, CELL * columns - values.shape[1], cv2.BORDER_REFLECT_101)
        energy = cv2.boxFilter(framed**2, -1, (self._side, self._side))[CELL // 2 :: CELL, CELL // 2 :: CELL]
        return np.maximum(energy - tolerance, 0) if self.less_noise else energy


class _PlainEnergy(_Energy):
    """The same without a word about noise."""

    less_noise = False


class _Ablated(MultiFocusFusion):
    """The engine with another measure of focus, all else being equal."""

    measured_by: ClassVar[type[FocusMeasure]]

    def _focus_measure(self) -> FocusMeasure:
        return self.measured_by(self._dictionary(), self.n_scales)


class _ByEnergy(_Ablated):
    measured_by = _Energy


class _ByPlainEnergy(_Ablated):
    measured_by = _PlainEnergy


MEASURES: dict[str, type[MultiFocusFusion]] = {
    "coupled dictionary": MultiFocusFusion,
    "Laplacian, less noise": _ByEnergy,
    "Laplacian": _ByPlainEnergy,
}


def ablation(plan: Plan, noises: Sequence[float]) -> None:
    """Print what the dictionary adds to the energy of the Laplacian, all else being equal."""
    rows: dict[str, list[str]] = {name: [name] for name in MEASURES}
    for noise in noises:
        scores: dict[str, list[Score]] = {name: [] for name in MEASURES}
        for stack in plan.stacks(noise=noise):
            print(f"ablation: {stack.name}, noise {noise:g}", file=sys.stderr, flush=True)
            for name, engine in MEASURES.items():
                fusion = engine(register=False, n_jobs=plan.threads).fuse(stack.sources)
                scores[name].append(score_fusion(stack, fusion))
        for name, own in scores.items():
            wrong = 100 * np.mean([score.wrong for score in own])
            rows[name].append(f"{np.mean([score.inside for score in own]):.2f} / {wrong:.2f}")
    heads = ["aligned: PSNR / wrong pixels in %", *(f"noise {noise:g}" for noise in noises)]
    print(table(heads, list(rows.values())), end="\n\n", flush=True)
