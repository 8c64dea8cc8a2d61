"""The data sets of the benchmark of classifiers: eight of different kinds, and tables of the user's own.

Nothing is downloaded: data come with scikit-learn and scikit-image, with chemotools and statsmodels (group ``bench``),
from the source text of packages that are installed anyway, or from the folder given by ``--data``.
"""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import skimage.data
from _data import Array
from missing_recognition import load_six_views
from sklearn import datasets
from sklearn.feature_extraction.text import TfidfVectorizer

PACKAGES = ("scipy", "sklearn", "skimage")
EACH = 40  # docstrings of a sub-package: one with fewer is left out, of more some are drawn
WORDS, TERMS = 40, 500  # words that a docstring has at least, and features


@dataclass(frozen=True)
class Problem:
    """Samples, labels from 0, and how many features each view has, if there are several."""

    X: Array
    y: Array
    widths: tuple[int, ...] = ()

    @property
    def views(self) -> list[Array]:
        """The views one by one."""
        return np.split(self.X, np.cumsum(self.widths)[:-1], axis=1)

    @property
    def fingerprint(self) -> str:
        """A short text that changes with the data."""
        return "".join(f"{zlib.crc32(array.tobytes()):08x}" for array in (self.X, self.y))


def make_problem(X: Array, y: Array, widths: tuple[int, ...] = ()) -> Problem:
    return Problem(np.asarray(X, dtype=np.float64), np.unique(y, return_inverse=True)[1], widths)


def load_bundled(name: str) -> Callable[[Path | None], Problem]:
    return lambda _: make_problem(*getattr(datasets, f"load_{name}")(return_X_y=True))


def load_multifeature(data: Path | None) -> Problem | None:
    """Return six descriptions of 2,000 handwritten digits side by side; None without a folder."""
    if data is None:
        return None
    _, views, y = load_six_views(data)
    return make_problem(np.hstack(views), y, tuple(view.shape[1] for view in views))


def docstrings(folder: Path) -> Iterator[str]:
    """Yield the docstrings of functions and classes below a folder, tests left out."""
    for file in sorted(folder.rglob("*.py")):
        if "tests" not in file.parts:
            for node in ast.walk(ast.parse(file.read_bytes())):
                if isinstance(node, ast.FunctionDef | ast.ClassDef):
                    text = ast.get_docstring(node)
                    if text and len(text.split()) >= WORDS:
                        yield text


def load_text(_: Path | None) -> Problem:
    """Return docstrings by tf-idf; the class is the sub-package, whose name is taken out, as the package's is."""
    rng = np.random.default_rng(0)
    texts: list[str] = []
    labels: list[str] = []
    names: set[str] = set(PACKAGES)
    for package in PACKAGES:
        for folder in sorted(Path(*import_module(package).__path__).iterdir()):
            if not folder.is_dir() or folder.name.startswith("_") or folder.name == "externals":
                continue
            found = sorted(set(docstrings(folder)))
            if len(found) >= EACH:
                texts += [found[index] for index in rng.permutation(len(found))[:EACH]]
                labels += [f"{package}.{folder.name}"] * EACH
                names.add(folder.name)
    hidden = re.compile(rf"\b({'|'.join(sorted(names))})\b")
    vectorizer = TfidfVectorizer(max_features=TERMS, sublinear_tf=True, stop_words="english")
    return make_problem(vectorizer.fit_transform([hidden.sub(" ", one) for one in texts]).toarray(), np.array(labels))


def load_spectra(_: Path | None) -> Problem:
    """Return infrared spectra of coffee from three countries."""
    X, labels = import_module("chemotools.datasets").load_coffee()
    return make_problem(X.to_numpy(), labels.to_numpy().ravel())


def load_faces(_: Path | None) -> Problem:
    """Return small pictures, of which the first hundred are faces (scikit-image, from Labeled Faces in the Wild)."""
    pictures = np.asarray(skimage.data.lfw_subset())  # type: ignore[no-untyped-call]
    return make_problem(pictures.reshape(len(pictures), -1), np.arange(len(pictures)) < 100)


def load_tabular(_: Path | None) -> Problem:
    """Return answers of married women to a magazine, by whether they had affairs (Fair, 1978)."""
    frame = import_module("statsmodels.datasets").fair.load_pandas().data
    return make_problem(frame.drop(columns="affairs").to_numpy(), frame["affairs"].to_numpy() > 0)


SETS: dict[str, Callable[[Path | None], Problem | None]] = {
    "digits": load_bundled("digits"),
    "wine": load_bundled("wine"),
    "breast cancer": load_bundled("breast_cancer"),
    "multifeature": load_multifeature,
    "text": load_text,
    "spectra": load_spectra,
    "faces": load_faces,
    "tabular": load_tabular,
}


def load_table(file: Path) -> Problem:
    """Read a table of the user's own: ``.npz`` with X and y, or ``.csv`` whose last column is the label."""
    if file.suffix == ".npz":
        with np.load(file, allow_pickle=False) as stored:
            return make_problem(stored["X"], stored["y"])
    rows = np.loadtxt(file, delimiter=",", dtype=str, ndmin=2)
    try:
        rows[0, :-1].astype(float)
    except ValueError:
        rows = rows[1:]  # the first row has the names
    return make_problem(rows[:, :-1].astype(float), rows[:, -1])
