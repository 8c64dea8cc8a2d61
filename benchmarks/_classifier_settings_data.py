"""Data that the defaults of the classifiers were chosen on: made of many kinds, pictures, letters, voices, spectra.

None of it is reported elsewhere. Each set is a function of a seed that returns samples and labels to learn from, and
samples and labels to be judged by. What needs files is left out where they are not given.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from sklearn.datasets import make_circles, make_classification, make_moons

Array = NDArray[Any]


class Split(NamedTuple):
    """Samples to learn from, and samples to be judged by."""

    X: Array
    y: Array
    new: Array
    truth: Array


def divide(X: Array, y: Array, n_train: int, rng: np.random.Generator) -> Split:
    """Return a random split with `n_train` samples to learn from."""
    order = rng.permutation(len(y))
    train, test = order[:n_train], order[n_train:]
    return Split(X[train], y[train], X[test], y[test])


def made(
    n_train: int,
    n_features: int,
    n_informative: int,
    n_classes: int,
    n_clusters: int = 1,
    *,
    separation: float = 1.0,
    noise: float = 0.02,
    weights: list[float] | None = None,
) -> Callable[[int], Split]:
    """Return clusters on the corners of a cube, rotated, among features that say nothing."""

    def draw(seed: int) -> Split:
        X, y = make_classification(
            n_train + 2000,
            n_features,
            n_informative=n_informative,
            n_redundant=n_features // 5,
            n_classes=n_classes,
            n_clusters_per_class=n_clusters,
            class_sep=separation,
            flip_y=noise,
            weights=weights,
            random_state=100 + seed,
        )
        return divide(X, y, n_train, np.random.default_rng(seed))

    return draw


def lit_surfaces(n_classes: int = 30, n_train: int = 24, side: int = 40, n_features: int = 500) -> Any:
    """Return bumpy surfaces under lamps from many sides, as random projections: what pictures of faces are like."""

    def draw(seed: int) -> Split:
        rng = np.random.default_rng(seed)

        def smooth(sigma: float) -> Array:
            field = ndimage.gaussian_filter(rng.standard_normal((side, side)), sigma)
            return np.asarray(field / field.std())

        common = 3 * smooth(side / 6)
        lamps = rng.standard_normal((64, 3)) * [1.6, 1.2, 0.3] + [0, 0, 0.6]
        lamps /= np.linalg.norm(lamps, axis=1, keepdims=True)
        X, y = [], []
        for label in range(n_classes):
            down, right = np.gradient(common + 0.5 * smooth(side / 14))
            normals = np.stack([-down, -right, np.full_like(down, 0.6)], axis=-1)
            normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
            albedo = 1 + 0.1 * smooth(1.5)
            lit = np.maximum(lamps @ normals.reshape(-1, 3).T, 0) * albedo.ravel()
            X.append(lit + 0.05 * rng.standard_normal(lit.shape))
            y += [label] * len(lamps)
        projection = rng.standard_normal((side * side, n_features)) / np.sqrt(side * side)
        return divide(np.vstack(X) @ projection, np.array(y), n_train * n_classes, rng)

    return draw


def subspaces(n_classes: int = 36, dimension: int = 9, n_features: int = 400, n_train: int = 24) -> Any:
    """Return classes that are each a subspace, with noise, seen at any brightness."""

    def draw(seed: int) -> Split:
        rng = np.random.default_rng(seed)
        bases = rng.standard_normal((n_classes, dimension, n_features)) + 1.5 * rng.standard_normal(
            (5, n_features)
        ).sum(0)
        y = np.arange(n_classes * (n_train + 20)) % n_classes
        amounts = rng.exponential(size=(y.size, dimension))
        X = np.einsum("ij,ijk->ik", amounts, bases[y])
        X *= rng.uniform(0.3, 2, (y.size, 1))
        X += 0.3 * np.sqrt(np.mean(X**2)) * rng.standard_normal(X.shape)
        return divide(X, y, n_classes * n_train, rng)

    return draw


def curved(shape: str, n_train: int, n_features: int, noise: float) -> Any:
    """Return two moons or two rings, turned into more dimensions, with noise in all of them."""

    def draw(seed: int) -> Split:
        rng = np.random.default_rng(seed)
        n = n_train + 2000
        if shape == "moons":
            X, y = make_moons(n, noise=noise, random_state=seed)
        else:
            X, y = make_circles(n, noise=noise, factor=0.5, random_state=seed)
        turn = np.linalg.qr(rng.standard_normal((n_features, n_features)))[0][:2]
        return divide(X @ turn + 0.15 * rng.standard_normal((n, n_features)), y, n_train, rng)

    return draw


def documents(n_train: int = 900, n_words: int = 1000, n_classes: int = 8) -> Any:
    """Return words of documents whose topics depend on the class, weighted by how rare they are."""

    def draw(seed: int) -> Split:
        rng = np.random.default_rng(seed)
        n = n_train + 1200
        common = rng.dirichlet(np.full(n_words, 0.1))
        topics = 0.6 * rng.dirichlet(np.full(n_words, 0.05), 20) + 0.4 * common
        mixture = rng.dirichlet(np.full(20, 0.15), n_classes)
        y = rng.integers(n_classes, size=n)
        shares = np.stack([rng.dirichlet(6 * mixture[label] + 0.05) for label in y])
        lengths = rng.integers(30, 200, n)
        counts = np.stack([rng.multinomial(size, share @ topics) for size, share in zip(lengths, shares, strict=True)])
        rarity = np.log((1 + n) / (1 + np.count_nonzero(counts, axis=0))) + 1
        weighted = counts * rarity
        return divide(weighted / np.linalg.norm(weighted, axis=1, keepdims=True), y, n_train, rng)

    return draw


def mixed_spectra(n_train: int = 200, n_bands: int = 180, n_classes: int = 4) -> Any:
    """Return smooth spectra of mixtures on a slope that differs; the recipe is the class."""

    def draw(seed: int) -> Split:
        rng = np.random.default_rng(seed)
        x = np.linspace(0, 1, n_bands)
        pure = np.stack(
            [
                sum(rng.random() * np.exp(-(((x - rng.random()) / rng.uniform(0.02, 0.1)) ** 2)) for _ in range(5))
                for _ in range(6)
            ]
        )
        recipes = rng.dirichlet(np.full(6, 1.0), n_classes)
        y = np.arange(n_train + 800) % n_classes
        shares = np.stack([rng.dirichlet(25 * recipes[label] + 0.1) for label in y])
        slope = 0.4 * rng.standard_normal((y.size, 1)) + 0.4 * rng.standard_normal((y.size, 1)) * x
        X = (shares @ pure) * rng.uniform(0.7, 1.3, (y.size, 1)) + slope + 0.02 * rng.standard_normal((y.size, n_bands))
        return divide(X, y, n_train, rng)

    return draw


def table(n_train: int, n_classes: int = 3) -> Any:
    """Return a table of columns of different units, some of them skewed or whole numbers, with products that count."""

    def draw(seed: int) -> Split:
        rng = np.random.default_rng(seed)
        n = n_train + 2000
        Z = rng.standard_normal((n, 14))
        score = np.stack([Z @ rng.standard_normal(14) * 0.5 + Z[:, k] * Z[:, k + 1] for k in range(n_classes)], axis=1)
        y = np.argmax(score + 0.5 * rng.standard_normal(score.shape), axis=1)
        X = Z * 10.0 ** rng.uniform(-3, 3, 14)
        X[:, ::4] = np.exp(Z[:, ::4])
        X[:, 1::5] = np.round(2 * Z[:, 1::5])
        return divide(X, y, n_train, rng)

    return draw


def expressions(n_train: int = 100, n_genes: int = 1000) -> Any:
    """Return few samples of many correlated features, of which some shift with the class."""

    def draw(seed: int) -> Split:
        rng = np.random.default_rng(seed)
        n = n_train + 1000
        y = rng.integers(2, size=n)
        factors = rng.standard_normal((n, 12)) @ rng.standard_normal((12, n_genes))
        shift = np.where(rng.random(n_genes) < 0.05, 0.5 * rng.standard_normal(n_genes), 0)
        return divide(factors + 1.5 * rng.standard_normal((n, n_genes)) + 2 * y[:, None] * shift, y, n_train, rng)

    return draw


def pen_strokes(n_train: int = 4000, n_classes: int = 12) -> Any:
    """Return points along pen strokes, each class in two ways of writing, warped."""

    def draw(seed: int) -> Split:
        rng = np.random.default_rng(seed)
        n, n_points = n_train + 2000, 10
        time = np.linspace(0, 1, n_points)
        waves = np.concatenate([np.sin(np.pi * (k + 1) * time)[None] for k in range(4)])
        shapes = rng.standard_normal((n_classes, 2, 2, 4)) * [1, 0.8, 0.5, 0.3]
        y, way = rng.integers(n_classes, size=n), rng.integers(2, size=n)
        strokes = (shapes[y, way] + 0.35 * rng.standard_normal((n, 2, 4)) * [1, 0.8, 0.5, 0.3]) @ waves
        angles = 0.25 * rng.standard_normal(n)
        turns = np.stack([np.cos(angles), -np.sin(angles), np.sin(angles), np.cos(angles)], axis=1).reshape(n, 2, 2)
        X = (turns @ strokes).reshape(n, -1) + 0.08 * rng.standard_normal((n, 2 * n_points))
        return divide(np.round(50 + 20 * X), y, n_train, rng)

    return draw


def textures(n_train: int = 1200, side: int = 16) -> Any:
    """Return patches of photographed surfaces, turned and lit at random; those to be judged by from other halves."""

    def draw(seed: int) -> Split:
        from skimage import color, data

        rng = np.random.default_rng(seed)
        shown: Any = data
        pictures = [shown.brick(), shown.grass(), shown.gravel(), shown.coins(), shown.moon(), shown.page()]
        pictures.append(color.rgb2gray(shown.coffee()) * 255)

        def cut(n: int, half: int) -> tuple[Array, Array]:
            y = rng.integers(len(pictures), size=n)
            X = np.empty((n, side, side))
            for i, label in enumerate(y):
                picture = pictures[label]
                middle = picture.shape[1] // 2
                part = picture[:, :middle] if half == 0 else picture[:, middle:]
                row, column = (rng.integers(size - side) for size in part.shape)
                patch = np.rot90(part[row : row + side, column : column + side], int(rng.integers(4)))
                X[i] = patch * rng.uniform(0.5, 1.5)
            return X.reshape(n, -1), y

        return Split(*cut(n_train, 0), *cut(1500, 1))

    return draw


def letters(n_train: int = 2000, side: int = 16, alphabet: str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ") -> Any:
    """Return letters in many type faces, bent, blurred, with noise."""

    def draw(seed: int) -> Split:
        import matplotlib as mpl
        from PIL import Image, ImageDraw, ImageFont

        rng = np.random.default_rng(seed)
        folder = Path(mpl.get_data_path()) / "fonts" / "ttf"
        wanted = [*folder.glob("DejaVuS*.ttf"), *folder.glob("STIXGeneral*.ttf"), *folder.glob("cm[bst]*10.ttf")]
        names = sorted(path for path in wanted if "Display" not in path.name and "cmsy" not in path.name)
        fonts = [ImageFont.truetype(str(path), 22) for path in names]
        n = n_train + 2000
        y, font = rng.integers(len(alphabet), size=n), rng.integers(len(fonts), size=n)
        X = np.empty((n, side * side))
        grid = np.stack(np.meshgrid(*[np.arange(32.0)] * 2, indexing="ij"))
        for i in range(n):
            picture = Image.new("L", (32, 32))
            ImageDraw.Draw(picture).text((16, 16), alphabet[y[i]], 255, fonts[font[i]], anchor="mm")
            turn = np.eye(2) + 0.08 * rng.standard_normal((2, 2))
            middle = grid - 15.5
            moved = np.einsum("ij,jkl->ikl", turn, middle) + 15.5 + 0.8 * rng.standard_normal((2, 1, 1))
            moved += 0.7 * np.stack([ndimage.gaussian_filter(rng.standard_normal((32, 32)), 5) * 12 for _ in range(2)])
            bent = ndimage.map_coordinates(np.asarray(picture, float), moved, order=1)
            small = ndimage.gaussian_filter(bent, 0.7)[:: 32 // side, :: 32 // side]
            X[i] = (small * rng.uniform(0.5, 1) + 12 * rng.standard_normal(small.shape)).ravel()
        return divide(X, y, n_train, rng)

    return draw


def voices(folder: Path, n_train: int = 1500) -> Any:
    """Return short pieces of log-mel spectra; the speaker is the class, and other words are to be judged by."""

    def draw(seed: int) -> Split:
        import soundfile

        rng = np.random.default_rng(seed)
        edges = 700 * (10 ** (np.linspace(0, 2840, 34) / 2595) - 1)
        bins = np.fft.rfftfreq(512, 1 / 16000)
        bank = np.stack(
            [
                np.clip(np.minimum((bins - a) / (b - a), (c - bins) / (c - b)), 0, None)
                for a, b, c in zip(edges, edges[1:], edges[2:], strict=False)
            ]
        )
        parts: tuple[list[Array], list[Array]] = ([], [])
        labels: tuple[list[int], list[int]] = ([], [])
        for label, path in enumerate(sorted(folder.glob("*.flac"))):
            sound = soundfile.read(path)[0]
            frames = np.lib.stride_tricks.sliding_window_view(sound, 512)[::160] * np.hanning(512)
            bands = np.log(np.abs(np.fft.rfft(frames)) ** 2 @ bank.T + 1e-6)
            loud = np.flatnonzero(bands[:-8].mean(axis=1) > np.quantile(bands.mean(axis=1), 0.6))
            for half in range(2):
                inside = loud[loud < len(bands) // 2 - 8] if half == 0 else loud[loud > len(bands) // 2 + 8]
                parts[half].extend(bands[i : i + 8 : 2].ravel() for i in inside)
                labels[half].extend([label] * inside.size)
        chosen = [rng.permutation(len(own))[:size] for own, size in zip(labels, (n_train, 1500), strict=True)]
        train, test = (
            (np.array(own)[rows], np.array(label)[rows]) for own, label, rows in zip(parts, labels, chosen, strict=True)
        )
        return Split(*train, *test)

    return draw


def pixels(path: Path, n_train: int = 300) -> Any:
    """Return spectra of the pixels of a scene seen from the air; the commonest material is the class."""

    def draw(seed: int) -> Split:
        from scipy.io import loadmat

        scene = loadmat(path)
        X = np.asarray(scene["Y"].T, float)
        shares = scene["S_GT"].transpose(1, 0, 2).reshape(len(X), -1)
        shares_other = scene["S_GT"].reshape(len(X), -1)
        spectra = np.asarray(scene["GT"], float)
        error = [
            np.linalg.norm(X - share @ spectra * (X.sum() / (share @ spectra).sum()))
            for share in (shares, shares_other)
        ]
        y = np.argmax((shares, shares_other)[int(np.argmin(error))], axis=1)
        rng = np.random.default_rng(seed)
        X = X + 0.05 * X.std() * rng.standard_normal(X.shape)
        keep = rng.permutation(len(y))[: n_train + 2000]
        return divide(X[keep], y[keep], n_train, rng)

    return draw


def all_sets(folder: Path | None) -> dict[str, Callable[[int], Split]]:
    """Return the sets by name; those that need files only if a folder is given."""
    sets: dict[str, Callable[[int], Split]] = {
        "made, 3 classes": made(400, 15, 6, 3),
        "made, 6 classes": made(1500, 30, 12, 6, 3, separation=1.2),
        "made, 2 classes": made(100, 30, 5, 2, noise=0.1),
        "made, rare": made(800, 20, 8, 3, 2, weights=[0.75, 0.2, 0.05]),
        "made, large": made(5000, 25, 10, 8, 3, separation=1.0),
        "lit surfaces": lit_surfaces(),
        "subspaces": subspaces(),
        "moons": curved("moons", 300, 8, 0.15),
        "rings": curved("rings", 200, 4, 0.1),
        "documents": documents(),
        "mixed spectra": mixed_spectra(),
        "table": table(800),
        "table, small": table(120, 2),
        "expressions": expressions(),
        "pen strokes": pen_strokes(),
        "textures": textures(),
        "letters": letters(),
        "numerals": letters(400, alphabet="0123456789"),
    }
    if folder is not None:
        sets["voices"] = voices(folder / "speech" / "audiomnist")
        sets["Samson pixels"] = pixels(folder / "unmixing" / "Samson.mat")
        sets["Jasper pixels"] = pixels(folder / "unmixing" / "Jasper.mat", 150)
    return sets
