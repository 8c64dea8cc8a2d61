"""The command line of every proof: number of cases, seed, and the figures as JSON."""

from __future__ import annotations

import argparse
import faulthandler
import inspect
import json
import sys
from collections.abc import Callable

Figures = dict[str, object]


def main(run: Callable[[int, int], Figures], count: int) -> None:
    """Run a proof as a script: ``python torture/<proof>.py --count N --seed S``."""
    about = inspect.getmodule(run)
    parser = argparse.ArgumentParser(description=about.__doc__ if about else None)
    parser.add_argument("--count", type=int, default=count, help=f"how many cases; {count} if left out")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other cases; 0 if left out")
    arguments = parser.parse_args()
    faulthandler.enable()
    json.dump(run(arguments.count, arguments.seed), sys.stdout)
    print()
