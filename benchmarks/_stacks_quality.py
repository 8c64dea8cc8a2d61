"""Figures of synthetic stacks: PSNR of every method, halos, errors of alignment, and what the dictionary adds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from _main import join, progress, table
from _stacks_drawing import cv2
from _stacks_rivals import Fuse, ecc_matrices, write
from _stacks_scenes import ATTAINABLE, KINDS, MOTIONS, OCCLUDED, Stack, scenes
from _stacks_scores import Score, _warp, corner_error, score_fusion, score_picture

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
        progress(f"fusing {stack.name}, {motion}, noise {noise:g}")
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
        progress(f"{stack.name}: {error}")
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


def title_of(motion: str, noise: float) -> str:
    """Return what a case is called."""
    return f"{'aligned' if motion == 'none' else motion}, noise {noise:g}"


def tell_quality(results: Mapping[str, Results]) -> str:
    """Return the PSNR of every method, for each motion and noise."""
    blocks = []
    for title, found in results.items():
        kinds = list(dict.fromkeys(kind for _, kind in found))
        groups = {
            "truth in the sources": [kind for kind in ATTAINABLE if kind in kinds],
            "occlusion": [kind for kind in OCCLUDED if kind in kinds],
            "all": kinds,
        }
        groups = {name: own for name, own in groups.items() if own}
        moved = not title.startswith("aligned")
        rows = []
        for method in _methods(found):
            row = [method, *(_mean(_values(found, method, own, "inside")) for own in groups.values())]
            inside = [value for value in _values(found, method, kinds, "inside") if value == value]
            row.append(f"{min(inside):.2f}" if inside else "-")
            if moved:
                row.append(_mean(_values(found, method, kinds, "full")))
            rows.append(row)
        blocks.append(table([f"{title}: PSNR", *groups, "worst", *(["full frame"] if moved else [])], rows))
        rows = [
            [method, *(_mean(_values(found, method, [kind], "inside")) for kind in kinds)] for method in _methods(found)
        ]
        blocks.append(table(["by kind", *kinds], rows))
        wrong = _mean([100 * value for value in _values(found, PLAIN, kinds, "wrong")])
        corner = _mean(_values(found, PLAIN, kinds, "corner"), ".3f")
        blocks.append(
            f"Ours: {wrong} % of the pixels with contrast are from a source more than 0.5 px worse than the best;"
            f" corners {corner} px off (root of the mean squares, mean over stacks)."
        )
    return join(*blocks)


def halos(plan: Plan, rivals: dict[str, Fuse], motion: str, noise: float) -> Results:
    """Return scores where a background is never in focus."""
    return collect(replace(plan, kinds=("unfocused",)), rivals, motion, noise)


def tell_halos(results: Mapping[str, Results]) -> str:
    """Return errors close to edges in front of a background that is never in focus."""
    methods = _methods(next(iter(results.values())))
    rows = [
        [
            method,
            *(
                f"{_mean(_values(found, method, ['unfocused'], 'band'))} /"
                f" {_mean(_values(found, method, ['unfocused'], 'halo'))}"
                for found in results.values()
            ),
        ]
        for method in methods
    ]
    return table(["RMSE within 20 px of edges / of that, background", *results], rows)


def alignments(noises: Sequence[float]) -> list[tuple[str, float, float]]:
    """Return motions, radii of blur and noises over which alignment is judged."""
    low, high = min(noises), max(noises)
    settings = [(motion, 6.0, low) for motion in MOTIONS]
    settings += [(motion, *other) for motion in ("none", "moved") for other in ((12.0, low), (6.0, high))]
    return list(dict.fromkeys(settings))


def alignment(plan: Plan, motion: str, radius: float, noise: float) -> dict[str, Any]:
    """Return errors of the corners, and how many sources were resampled or have a note."""
    kinds = tuple(kind for kind in ("hills", "layers") if kind in plan.kinds) or plan.kinds
    found: dict[str, Any] = {"ours": [], "ECC": [], "resampled": 0, "sources": 0, "notes": 0}
    for stack in plan.stacks(kinds=kinds, motion=motion, noise=noise, radius=radius):
        fusion = MultiFocusFusion(n_jobs=plan.threads).fuse(stack.sources)
        found["ours"].append(corner_error(stack, [source.matrix for source in fusion.sources]))
        found["ECC"].append(corner_error(stack, ecc_matrices(stack.sources)))
        found["resampled"] += sum(source.aligned for source in fusion.sources)
        found["sources"] += plan.n - 1
        found["notes"] += sum(bool(source.note) for source in fusion.sources)
    return found


def tell_alignment(results: Mapping[str, dict[str, Any]]) -> str:
    """Return errors of the corners over motions and blurs, and whether aligned stacks are left alone."""
    rows = []
    for title, found in results.items():
        ours, ecc = ([f"{np.mean(found[name]):.3f}", f"{np.max(found[name]):.3f}"] for name in ("ours", "ECC"))
        rows.append([title, *ours, f"{found['resampled']} of {found['sources']}", str(found["notes"]), *ecc])
    heads = ["motion", "mean", "worst", "resampled", "with a note", "ECC, mean", "worst"]
    caption = (
        "Error of a stack's corners in pixels, root of the mean squares; ECC: plainly, from neighbour to neighbour."
    )
    return join(caption, table(heads, rows))


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


def ablation(plan: Plan, noise: float) -> dict[str, list[Score]]:
    """Return scores of aligned stacks by each measure of focus, all else being equal."""
    scores: dict[str, list[Score]] = {name: [] for name in MEASURES}
    for stack in plan.stacks(noise=noise):
        for name, engine in MEASURES.items():
            fusion = engine(register=False, n_jobs=plan.threads).fuse(stack.sources)
            scores[name].append(score_fusion(stack, fusion))
    return scores


def tell_ablation(results: Mapping[str, dict[str, list[Score]]]) -> str:
    """Return what the dictionary adds to the energy of the Laplacian."""
    rows = []
    for name in MEASURES:
        cells = []
        for scores in results.values():
            wrong = 100 * np.mean([score.wrong for score in scores[name]])
            cells.append(f"{np.mean([score.inside for score in scores[name]]):.2f} / {wrong:.2f}")
        rows.append([name, *cells])
    return table(["aligned: PSNR / wrong pixels in %", *results], rows)
