"""Commands that are killed while they work and write: every output is complete, unchanged, or absent.

`fuse`, `fill` and `stain` are killed with SIGKILL, half of the time at a random moment and half of the time while a
file is being written, sometimes over older files. Leftovers have a recognisable name and do not hinder the next run.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _main import Figures, main
from PIL import Image

import coupledict.images._files  # noqa: F401  (what the commands need is imported once, before they are forked)
from coupledict.cli import main as command

PATIENCE_SECONDS = 60
OLD = b"an older file"


def make_inputs(folder: Path, seed: int) -> None:
    """Write the pictures that the commands read."""
    rng = np.random.default_rng(seed)
    sharp = (np.cumsum(rng.standard_normal((160, 200)), axis=1) * 8 + 128).clip(0, 255).astype(np.uint8)
    soft = (sharp[:, :-1] // 2 + sharp[:, 1:] // 2)[:, : sharp.shape[1] // 2]
    near, far = sharp.copy(), sharp.copy()
    near[:, : soft.shape[1]], far[:, -soft.shape[1] :] = soft, soft
    tissue = np.exp(-rng.exponential(0.6, (120, 150, 2)) @ [[0.65, 0.70, 0.29], [0.21, 0.95, 0.22]])
    holes = np.where(rng.random((48, 56)) < 0.2, 255, 0).astype(np.uint8)
    pictures = {"near": near, "far": far, "tissue": np.rint(255 * tissue).astype(np.uint8)}
    pictures |= {
        "other": np.rint(240 * tissue[::-1] ** 0.8).astype(np.uint8),
        "damaged": sharp[:48, :56],
        "holes": holes,
    }
    for name, pixels in pictures.items():
        Image.fromarray(pixels).save(folder / f"{name}.png")


Command = Callable[[Path, Path], tuple[list[Any], list[str]]]
COMMANDS: dict[str, Command] = {
    "fuse": lambda given, out: (
        [given / "near.png", given / "far.png", "-o", out / "sharp.tif", "--depth", out / "depth.png",
         "--map", out / "map.png", "--register", "never"],
        ["sharp.tif", "depth.png", "map.png"],
    ),
    "fill": lambda given, out: (
        [given / "damaged.png", "--mask", given / "holes.png", "-o", out / "whole.png"], ["whole.png"],
    ),
    "stain": lambda given, out: (
        [given / "tissue.png", "--target", given / "other.png", "-o", out / "normal.png",
         "--densities", out / "of", "--save-model", out / "look.safetensors"],
        ["normal.png", "of-hematoxylin.png", "of-eosin.png", "look.safetensors"],
    ),
}  # fmt: skip


class Process:
    """A command in a child process."""

    def __init__(self, name: str, arguments: list[Any]) -> None:
        self.child = os.fork()
        if self.child:
            return
        code = 1
        try:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
            sys.argv = ["coupledict", name, *map(str, arguments), "--threads", "1"]
            command()
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            os._exit(code)

    def wait_for_write(self, folder: Path, names: list[str], seconds: float) -> None:
        """Wait until a file is being written, but not for ever."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not set(os.listdir(folder)) - set(names):
            pass

    def end(self, *, kill: bool) -> int:
        """Return the exit code of the child, after a kill or on its own."""
        if kill:
            os.kill(self.child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])


def finished(name: str, given: Path, out: Path, *more: str) -> tuple[dict[str, bytes], float]:
    """Run a command to its end; return its outputs, and how long it took."""
    arguments, names = COMMANDS[name](given, out)
    begun = time.monotonic()
    code = Process(name, [*arguments, *more]).end(kill=False)
    assert code == 0, f"{name} ended with {code}"
    return {file: (out / file).read_bytes() for file in names}, time.monotonic() - begun


def check_outputs(folder: Path, expected: dict[str, bytes], replaced: bool, seen: Counter[str]) -> None:
    """Raise unless each output is complete, or as it was before; remove what else a kill has left."""
    for file in sorted(folder.iterdir()):
        if file.name in expected:
            contents = file.read_bytes()
            whole = contents == expected[file.name]
            assert whole or (replaced and contents == OLD), f"{file.name} has {len(contents)} bytes, and is not whole"
            seen["outputs that were complete"] += whole
        else:
            assert file.name.startswith(".") and file.name.endswith(".tmp"), f"{file.name} was left behind"
            seen["unfinished files left"] += 1
        file.unlink()


def run(count: int, seed: int) -> Figures:
    """Kill commands `count` times."""
    rng, seen = np.random.default_rng(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        given, out = Path(name) / "given", Path(name) / "out"
        given.mkdir()
        out.mkdir()
        make_inputs(given, seed)
        known = {}
        for command_name in COMMANDS:
            known[command_name] = finished(command_name, given, out)
            check_outputs(out, known[command_name][0], False, Counter())
        while seen["kills"] < count:
            command_name = str(rng.choice(list(COMMANDS)))
            expected, seconds = known[command_name]
            replaced = bool(rng.random() < 0.5)
            for file in expected if replaced else []:
                (out / file).write_bytes(OLD)
            arguments = COMMANDS[command_name](given, out)[0] + (["--force"] if replaced else [])
            process = Process(command_name, arguments)
            if during_write := rng.random() < 0.6:
                for _ in range(int(rng.integers(1, len(expected) + 1))):
                    process.wait_for_write(out, list(expected), 4 * seconds)
                time.sleep(rng.uniform(0, 0.001))
            else:
                time.sleep(rng.uniform(0, 1.1 * seconds))
            code = process.end(kill=True)
            assert code in (0, -signal.SIGKILL), f"{command_name} ended with {code}"
            seen["kills"] += code != 0
            seen["kills aimed at a write"] += code != 0 and during_write
            check_outputs(out, expected, replaced, seen)
        (out / ".coupledict-0123456789abcdef.tmp").write_bytes(b"left by a kill")
        for command_name in COMMANDS:
            assert finished(command_name, given, out)[0] == known[command_name][0], f"{command_name}: other outputs"
            check_outputs(out, known[command_name][0], False, seen)
    return dict(sorted(seen.items()))


if __name__ == "__main__":
    main(run, 100)
