"""Build the conda package by its recipe, from an sdist of this folder, and run the recipe's tests.

``make systems NAME=conda`` calls it. The sdist is made anew, so that `dist` stays as it is.

    python tools/systems/conda.py FOLDER CHANNEL    # FOLDER/output gets the package
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "packaging" / "conda"


def with_source(recipe: str, sdist: Path) -> str:
    """Return `recipe` with `sdist` as its source."""
    recipe, found = re.subn(r"^  path: .*$", f"  path: {sdist}", recipe, flags=re.MULTILINE)
    if found != 1:
        raise ValueError(f"Expected one path in the recipe, got {found}.")
    return recipe


def make_sdist(folder: Path) -> Path:
    """Return an sdist of this folder."""
    shutil.rmtree(folder, ignore_errors=True)
    words = [sys.executable, "-m", "build", "--sdist", "--outdir", str(folder), str(ROOT)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


def main(folder: Path, channel: str) -> None:
    """Build, test, and say where the package is."""
    from rattler_build import Stage0Recipe, ToolConfiguration, VariantConfig

    copy = folder / "recipe" / "recipe.yaml"
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(with_source((RECIPE / "recipe.yaml").read_text(), make_sdist(folder / "sdist")))
    variants = VariantConfig.from_file(RECIPE / "variants.yaml")
    tools = ToolConfiguration(test_strategy="native")
    built = Stage0Recipe.from_file(copy).run_build(variants, tools, folder / "output", [channel])
    if not built:
        raise ValueError("Expected a package, but the recipe leaves out every variant.")
    for result in built:
        print(f"Built and tested: {', '.join(Path(path).name for path in result.packages)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve().as_uri())
