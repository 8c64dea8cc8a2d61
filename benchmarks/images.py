"""The image benchmarks, one after the other: fusion on Lytro and on made stacks, super-resolution on Set5 and Set14.

Run ``python benchmarks/images.py --data DIR`` from the root of the project; DIR (else COUPLEDICT_DATA) has the folders
``lytro``, ``fused_lytro`` and ``sr``. Each part can be run alone, with options of its own: ``benchmarks/fusion.py``,
``benchmarks/super_resolution.py``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

PARTS = ("fusion.py", "super_resolution.py")


def main() -> None:
    """Run both; stop at the first that fails."""
    parser = argparse.ArgumentParser(description="Measure fusion and super-resolution beside published results.")
    parser.add_argument("--data", metavar="DIR", help="folder of images (else COUPLEDICT_DATA, else bundled ones)")
    data = parser.parse_args().data
    for part in PARTS:
        print(f"\n== {part}", flush=True)
        arguments = [] if data is None else ["--data", data]
        subprocess.run([sys.executable, Path(__file__).with_name(part), *arguments], check=True)


if __name__ == "__main__":
    main()
