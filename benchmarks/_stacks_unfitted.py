"""The most important figures in some minutes: aligned stacks beside rivals, as they are, and moved stacks."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from _main import join, table
from _stacks_quality import OURS, Plan, fuse_ours
from _stacks_rivals import Fuse, write
from _stacks_scenes import Stack
from _stacks_scores import psnr, score_fusion

Figures = dict[str, dict[str, list[float]]]  # by method and kind


def unfitted(plan: Plan, found: dict[str, Fuse], motion: str, noise: float) -> dict[str, Any]:
    """Return PSNR in the frame of the reference: without motion for everybody, and with motion for ours."""
    figures: Figures = {}
    corners = []
    for stack in plan.stacks(noise=noise, motion=motion):
        if motion == "none":
            _add(figures, OURS, stack, score_fusion(stack, fuse_ours(stack, plan.threads)[0]).inside)
            for name, fuse in found.items():
                _add(figures, name, stack, psnr(_by_rival(fuse, stack), stack.truth))
            continue
        score = score_fusion(stack, *fuse_ours(stack, plan.threads))
        _add(figures, "inside", stack, score.inside)
        _add(figures, "whole frame", stack, score.full)
        corners.append(score.corner)
    return {"figures": figures, "corners": corners}


def _by_rival(fuse: Fuse, stack: Stack) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.png" for number in range(len(stack.sources))]
        for file, source in zip(files, stack.sources, strict=True):
            write(file, source)
        return fuse(files, False)


def _add(figures: Figures, name: str, stack: Stack, figure: float) -> None:
    figures.setdefault(name, {}).setdefault(stack.name.split()[-1], []).append(figure)


def tell_unfitted(results: Mapping[str, dict[str, Any]]) -> str:
    """Return a table for each motion and noise."""
    blocks = []
    for title, found in results.items():
        figures: Figures = found["figures"]
        kinds = list(next(iter(figures.values())))
        rows = [
            [name, *(f"{np.mean(own[kind]):.2f}" for kind in kinds), f"{np.mean([*chain(*own.values())]):.2f}"]
            for name, own in figures.items()
        ]
        blocks.append(table([f"{title}: PSNR", *kinds, "mean"], rows))
        if corners := found["corners"]:
            mean, worst = np.mean(corners), max(corners)
            blocks.append(f"Corners are off by {mean:.3f} px in the mean over stacks, {worst:.3f} px at worst.")
    return join(*blocks)
