"""Pictures that the models of the package learned from, or that are shown, have stated rights and are credited."""

import ast
import importlib.util
import inspect
import re
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import skimage.data

from coupledict.images import SuperResolution
from coupledict.images._sr_geometry import Geometry
from coupledict.images._sr_samples import plan
from coupledict.images._super_resolution import REGRESSION_SAMPLES, SCALES

ROOT = Path(__file__).parents[2]
TRAINING = [ROOT / "tools" / f"{name}.py" for name in ("train_fusion", "train_super_resolution")]
SHOWING = [ROOT / "tools" / "draw_banner.py", ROOT / "src" / "coupledict" / "serve" / "_samples.py"]
STATED = re.compile(r"CC0|public domain|copyright restrictions", re.IGNORECASE)


def credits(room):
    return (resources.files(f"coupledict.{room}") / "models" / "CREDITS.md").read_text(encoding="utf-8")


def credited():
    """Return the pictures of scikit-image that have an entry of their own."""
    return set(re.findall(r"^- `(\w+)`:", credits("images"), re.MULTILINE))


def tool(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pictures_read_by(path):
    """Return the pictures that a module reads by name: data.coffee, skimage.data.coffee."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    read = [node for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("data")]
    return {node.attr for node in read} & set(skimage.data.__all__)


@pytest.mark.parametrize("room", ["images", "audio"])
def test_every_model_that_ships_is_credited(room):
    models = [file.name for file in (resources.files(f"coupledict.{room}") / "models").iterdir()]
    models = [name for name in models if name.endswith(".safetensors")]
    assert models
    assert [name for name in models if name not in credits(room)] == []


@pytest.mark.parametrize("path", TRAINING, ids=lambda path: path.stem)
def test_pictures_that_are_learned_from_are_credited(path):
    photographs = {*tool(path).PHOTOGRAPHS, *pictures_read_by(path)}
    assert len(photographs) > 5
    assert photographs - credited() == set()


@pytest.mark.parametrize("path", SHOWING, ids=lambda path: path.stem)
def test_pictures_that_are_shown_are_credited(path):
    shown = pictures_read_by(path)
    assert shown
    assert shown - credited() == set()


def test_the_rights_of_credited_pictures_are_stated():
    readers = [value for name in skimage.data.__all__ if inspect.isfunction(value := getattr(skimage.data, name))]
    without = {reader.__name__ for reader in readers if not STATED.search(inspect.getdoc(reader))}
    assert {"moon", "stereo_motorcycle"} <= without
    assert credited() & without == set()


@pytest.mark.parametrize("scale", SCALES)
def test_models_that_ship_learned_from_these_pictures_and_no_other(scale):
    """Each picture adds to the number of patches, which a model tells."""
    photographs = tool(TRAINING[1]).PHOTOGRAPHS
    model = SuperResolution.pretrained(scale)

    def n_patches(names):
        shapes = [getattr(skimage.data, name)().shape[:2] for name in names]
        draws = plan(shapes, Geometry(scale, model.patch_size), REGRESSION_SAMPLES, np.random.default_rng(0))
        return sum(draw.count for draw in draws)

    assert n_patches(photographs) != n_patches([*photographs, "moon"])
    assert model.n_samples_ == n_patches(photographs)
