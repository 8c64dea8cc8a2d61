"""The most important figures in some minutes: aligned stacks beside rivals, as they are, and moved stacks."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from _stacks_quality import OURS, Plan, fuse_ours
from _stacks_rivals import Fuse, write
from _stacks_scenes import Stack
from _stacks_scores import psnr, score_fusion
from _timing import table

Figures = dict[str, dict[str, list[float]]]  # by method and kind


def quick(plan: Plan, found: dict[str, Fuse], noises: Sequence[float]) -> None:
    """Print PSNR in the frame of the reference: without motion for everybody, and with motion for ours."""
    for noise in noises:
        figures: Figures = {}
        for stack in plan.stacks(noise=noise, motion="none"):
            _add(figures, OURS, stack, score_fusion(stack, fuse_ours(stack, plan.threads)[0]).inside)
            for name, fuse in found.items():
                _add(figures, name, stack, psnr(_by_rival(fuse, stack), stack.truth))
        _print(f"aligned, noise {noise:g}", figures)
    moved: Figures = {}
    corners = []
    for stack in plan.stacks(noise=0, motion="moved"):
        score = score_fusion(stack, *fuse_ours(stack, plan.threads))
        _add(moved, "inside", stack, score.inside)
        _add(moved, "whole frame", stack, score.full)
        corners.append(score.corner)
    _print("moved, noise 0, ours", moved)
    print(f"Corners are off by {np.mean(corners):.3f} px in the mean over stacks, {max(corners):.3f} px at worst.\n")


def _by_rival(fuse: Fuse, stack: Stack) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.png" for number in range(len(stack.sources))]
        for file, source in zip(files, stack.sources, strict=True):
            write(file, source)
        return fuse(files, False)


def _add(figures: Figures, name: str, stack: Stack, figure: float) -> None:
    print(f"{name}: {stack.name}", file=sys.stderr, flush=True)
    figures.setdefault(name, {}).setdefault(stack.name.split()[-1], []).append(figure)


def _print(title: str, figures: Figures) -> None:
    kinds = list(next(iter(figures.values())))
    rows = [
        [name, *(f"{np.mean(own[kind]):.2f}" for kind in kinds), f"{np.mean([*chain(*own.values())]):.2f}"]
        for name, own in figures.items()
    ]
    print(table([f"{title}: PSNR", *kinds, "mean"], rows), end="\n\n", flush=True)
