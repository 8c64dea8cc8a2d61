"""List the benchmarks, each with the first line of its docstring: ``make bench`` without a NAME."""

from __future__ import annotations

import ast
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks"


def main() -> None:
    """Print a line for each, and how to run one."""
    about = {
        path.stem: (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
        for path in sorted(FOLDER.glob("[!_]*.py"))
    }
    width = max(map(len, about))
    for name, line in about.items():
        print(f"{name:{width}}  {line}")
    print("make bench NAME=sparse_coding runs one, with FLAGS=--help it lists its options.")


if __name__ == "__main__":
    main()
