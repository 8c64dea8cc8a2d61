"""Plots: what is drawn, and where; pictures are checked as numbers, and were looked at by people."""

from __future__ import annotations

import sys

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse

from coupledict import plotting
from coupledict.plotting import plot_atom_use, plot_atoms, plot_convergence, plot_pairs

SEPARATOR = (*plotting.SEPARATOR, 255)


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


def image(ax):
    (shown,) = ax.images  # one image, not one an atom
    return np.asarray(shown.get_array())


def cell(ax, number, n_columns, height, width):
    """Return the pixels of the atom that was drawn at this place, one for each entry of the patch."""
    size = int(np.ceil(24 / np.sqrt(height * width)))
    line = max(1, min(height, width) * size // 24)
    top = line + (number // n_columns) * (height * size + line)
    left = line + (number % n_columns) * (width * size + line)
    block = image(ax)[top : top + height * size, left : left + width * size]
    pixels = block[::size, ::size]
    np.testing.assert_array_equal(block, pixels.repeat(size, axis=0).repeat(size, axis=1))
    return pixels


def levels(atom, shape, typical=None):
    """Return an atom as it should be drawn: 0 is mid-grey, the largest absolute value black or white.

    Beside much larger atoms, whose root mean square norm is `typical`, it is paler.
    """
    contrast = min(1, np.linalg.norm(atom) / (0.05 * typical)) if typical else 1
    grey = np.rint(127.5 + 127.5 * contrast * np.reshape(atom, shape) / np.abs(atom).max())
    return grey if len(shape) == 3 else np.repeat(grey[..., None], 3, axis=2)


# Atoms


@pytest.mark.parametrize("shape", [(8, 8), (3, 5), (1, 6), (50, 60), (4, 4, 3), (2, 7, 3)])
@pytest.mark.parametrize("n_columns", [1, 4, 7])
def test_every_atom_is_in_its_place(rng, shape, n_columns):
    atoms = rng.standard_normal((10, int(np.prod(shape)))) * 10.0 ** rng.integers(-5, 5, size=(10, 1))
    ax = plot_atoms(atoms, patch_size=shape, n_columns=n_columns)
    for t, atom in enumerate(atoms):
        pixels = cell(ax, t, n_columns, *shape[:2])
        np.testing.assert_array_equal(pixels[..., :3], levels(atom, shape, np.sqrt(np.mean(np.sum(atoms**2, axis=1)))))
        assert (pixels[..., 3] == 255).all()


def test_order_and_selection(rng):
    atoms = rng.standard_normal((6, 9))
    order = [4, 0, 5]
    ax = plot_atoms(atoms, order=order, n_columns=2)
    for place, t in enumerate(order):
        np.testing.assert_array_equal(cell(ax, place, 2, 3, 3)[..., :3], levels(atoms[t], (3, 3)))


def test_separators_and_empty_cells():
    mosaic = image(plot_atoms(np.ones((5, 4)), n_columns=3))
    assert mosaic.shape == (2 * 25 + 1, 3 * 25 + 1, 4)
    separator = (mosaic == SEPARATOR).all(axis=2)
    white = (mosaic == 255).all(axis=2)
    transparent = mosaic[..., 3] == 0
    expected = np.full(mosaic.shape[:2], "white ")
    expected[::25] = expected[:, ::25] = "line"
    expected[26:, 51:] = "empty"  # the sixth cell; the lines that it shares stay
    np.testing.assert_array_equal(separator, expected == "line")
    np.testing.assert_array_equal(white, expected == "white ")
    np.testing.assert_array_equal(transparent, expected == "empty")


def test_scale_is_symmetric_and_of_each_atom():
    atoms = np.array([[0.0, 1.0, 2.0, -1.0], [0.0, -1e-9, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [3.0, 3.0, 3.0, 3.0]])
    ax = plot_atoms(atoms, n_columns=4)
    drawn = [cell(ax, t, 4, 2, 2)[..., 0].ravel().tolist() for t in range(4)]
    assert drawn == [[128, 191, 255, 64], [128, 127, 128, 128], [128] * 4, [255] * 4], (
        "what nearly vanishes is not made large"
    )
    atoms[1] *= 1e9
    assert cell(plot_atoms(atoms, n_columns=4), 1, 4, 2, 2)[..., 0].ravel().tolist() == [128, 0, 128, 128]


def test_flipping_an_atom_flips_its_picture(rng):
    atom = rng.standard_normal((1, 16))
    one, other = (cell(plot_atoms(a), 0, 1, 4, 4)[..., :3].astype(int) for a in (atom, -atom))
    assert np.abs(one + other - 255).max() <= 1  # rounding of the halves


def test_channels_share_a_scale():
    ax = plot_atoms([[1.0, 0.5, -0.5]], patch_size=(1, 1, 3))
    assert cell(ax, 0, 1, 1, 1)[0, 0].tolist() == [255, 191, 64, 255]


@pytest.mark.parametrize(("n_features", "shape"), [(64, (8, 8)), (192, (8, 8, 3)), (1, (1, 1)), (3, (1, 1, 3))])
def test_default_patch_is_a_square(rng, n_features, shape):
    atoms = rng.standard_normal((2, n_features))
    np.testing.assert_array_equal(image(plot_atoms(atoms)), image(plot_atoms(atoms, patch_size=shape)))


@pytest.mark.parametrize(
    ("n_atoms", "shape", "columns"),
    [(256, (8, 8), 16), (10, (8, 8), 4), (32, (4, 8), 4), (1, (2, 2), 1), (3, (99, 1), 3)],
)
def test_default_grid_is_about_square(n_atoms, shape, columns):
    atoms = np.eye(n_atoms, shape[0] * shape[1])
    ax = plot_atoms(atoms, patch_size=shape)
    np.testing.assert_array_equal(image(ax), image(plot_atoms(atoms, patch_size=shape, n_columns=columns)))


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8, np.bool_, np.float16])
def test_number_types(dtype):
    atoms = np.array([[0, 1, 1, 0]], dtype=dtype)
    assert cell(plot_atoms(atoms), 0, 1, 2, 2)[..., 0].tolist() == [[128, 255], [255, 128]]


def test_input_is_not_changed(rng):
    atoms = rng.standard_normal((4, 9))
    atoms.flags.writeable = False
    before = atoms.copy()
    plot_atoms(atoms)
    np.testing.assert_array_equal(atoms, before)


def test_given_axes_and_title():
    figure, (left, right) = plt.subplots(1, 2)
    assert plot_atoms(np.eye(4), ax=right, title="DCT") is right
    assert right.get_title() == "DCT"
    assert not left.images
    assert plt.get_fignums() == [figure.number]


def test_pixels_are_square_on_the_page():
    ax = plot_atoms(np.eye(12, 12), patch_size=(2, 6), title="wide")
    assert ax.get_aspect() == 1
    assert ax.figure.get_layout_engine() is not None
    assert not ax.axison


@pytest.mark.parametrize(
    ("n_atoms", "side", "inches"), [(1, 2, 5), (256, 8, 5), (1024, 8, 8), (1024, 16, 10), (9, 400, 10)]
)
def test_large_dictionaries_get_large_figures(n_atoms, side, inches):
    ax = plot_atoms(np.eye(n_atoms, side * side))
    assert ax.figure.get_size_inches() == pytest.approx([inches, inches], abs=0.1)


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"components": np.zeros(4)}, "components to have 2 dimensions, got 1"),
        ({"components": np.zeros((0, 4))}, "components to hold at least one atom"),
        ({"components": np.zeros((4, 0))}, "size of a square patch, got 0"),
        ({"components": np.zeros((4, 12))[:, :11]}, r"got 11\. Give patch_size="),
        ({"components": np.full((1, 4), np.nan)}, "components to be finite"),
        ({"patch_size": (2, 3)}, r"patch_size to multiply to the 4 features of components, got \(2, 3\)"),
        ({"patch_size": (-2, -2)}, "patch_size to multiply"),
        ({"patch_size": (4,)}, r"patch_size to be .*\(height, width\) or \(height, width, 3\), got \(4,\)"),
        ({"patch_size": (1, 1, 4)}, "patch_size to be"),
        ({"patch_size": (2.0, 2.0)}, "patch_size to be"),
        ({"patch_size": 3}, r"patch_size to multiply to the 4 features of components, got \(3, 3\)"),
        ({"order": [0, 3]}, r"order to hold different numbers from 0 to 2, got \[0, 3\]"),
        ({"order": [-1]}, "order to hold different"),
        ({"order": [1, 1]}, "order to hold different"),
        ({"order": []}, "order to be a sequence of atom numbers"),
        ({"order": [0.5]}, "order to be a sequence"),
        ({"order": [True, False, True]}, "order to be a sequence"),
        ({"n_columns": 0}, "n_columns to be at least 1"),
    ],
)
def test_atoms_errors(keywords, words):
    with pytest.raises(ValueError, match=words):
        plot_atoms(**({"components": np.eye(3, 4)} | keywords))
    assert not plt.get_fignums(), "nothing is drawn of what cannot be"


def test_sparse_dictionary_is_refused():
    with pytest.raises(TypeError, match="components to be a dense array"):
        plot_atoms(scipy.sparse.csr_array(np.eye(4)))


# Pairs


def test_pairs_share_order_and_places(rng):
    views = [rng.standard_normal((11, 64)), rng.standard_normal((11, 16)), rng.standard_normal((11, 48))]
    shapes = [(8, 8), (4, 4), (4, 4, 3)]
    order = rng.permutation(11)
    axes = plot_pairs(views, order=order, n_columns=5)
    assert axes.shape == (3,)
    for ax, atoms, shape in zip(axes, views, shapes, strict=True):
        for place, t in enumerate(order):
            np.testing.assert_array_equal(cell(ax, place, 5, *shape[:2])[..., :3], levels(atoms[t], shape))
    assert [ax.get_title() for ax in axes] == ["view 0", "view 1", "view 2"]


def test_pairs_line_up_on_the_page(rng):
    views = [rng.standard_normal((10, 64)), rng.standard_normal((10, 16)), rng.standard_normal((10, 32))]
    axes = plot_pairs(views, patch_size=[None, (4, 4), (8, 4)], labels=["a", "b", "c"])
    axes[0].figure.canvas.draw()
    boxes = [ax.get_window_extent() for ax in axes]
    for box in boxes[1:]:
        assert box.y0 == pytest.approx(boxes[0].y0, abs=1.5)
        assert box.height == pytest.approx(boxes[0].height, abs=1.5)
    assert boxes[2].width == pytest.approx(boxes[0].width / 2, rel=0.05)


def test_many_views_still_fit_the_page():
    axes = plot_pairs([np.eye(400, 64)] * 6)
    assert axes[0].figure.get_size_inches()[0] == pytest.approx(14)


def test_one_shape_for_all_or_one_a_view(rng):
    views = [rng.standard_normal((4, 6)), rng.standard_normal((4, 6))]
    for shapes, expected in [((2, 3), [(2, 3)] * 2), ([(2, 3), (3, 2)], [(2, 3), (3, 2)]), ([2, 3], [(2, 3)] * 2)]:
        axes = plot_pairs(views, patch_size=shapes, n_columns=2)
        for ax, atoms, shape in zip(axes, views, expected, strict=True):
            np.testing.assert_array_equal(cell(ax, 3, 2, *shape)[..., :3], levels(atoms[3], shape))


@pytest.mark.parametrize(
    ("components_list", "keywords", "words"),
    [
        ([np.eye(4)], {}, "at least 2 dictionaries, got 1. Use plot_atoms"),
        (np.ones((2, 4, 4)), {}, "at least 2 dictionaries, got ndarray"),
        ([np.eye(4), np.eye(3, 4)], {}, r"as many atoms in every dictionary of components_list, got \[4, 3\]"),
        ([np.eye(4), np.eye(4, 5)], {}, r"Expected components_list\[1\] to have s \* s"),
        ([np.eye(4), np.eye(4, 9)], {"patch_size": (2, 2)}, r"9 features of components_list\[1\], got \(2, 2\)"),
        ([np.eye(4), np.eye(4)], {"patch_size": [(2, 2)] * 3}, "one size, or a list of 2 sizes"),
        ([np.eye(4), np.eye(4)], {"patch_size": "22"}, "one size, or a list of 2 sizes"),
        ([np.eye(4), np.eye(4)], {"labels": ["a"]}, "labels to hold 2 names, one per view, got 1"),
        ([np.eye(4), np.eye(4)], {"order": [4]}, "order to hold different numbers from 0 to 3"),
        ([np.eye(4), np.full((4, 4), np.inf)], {}, r"components_list\[1\] to be finite"),
    ],
)
def test_pairs_errors(components_list, keywords, words):
    with pytest.raises(ValueError, match=words):
        plot_pairs(components_list, **keywords)
    assert not plt.get_fignums()


# Convergence


def history(n, factor=1.0):
    return [
        {"seconds": factor * (k + 1), "error": 1 / (k + 1), "mean_nonzeros": k / 2, "limit": k, "unused": 0}
        for k in range(n)
    ]


def test_convergence_draws_what_happened():
    axes = plot_convergence(history(5))
    assert axes.shape == (2,)
    for ax, values in zip(axes, ([1 / (k + 1) for k in range(5)], [k / 2 for k in range(5)]), strict=True):
        (line,) = ax.lines
        np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3, 4, 5])
        np.testing.assert_array_equal(line.get_ydata(), values)
        assert line.get_marker() not in ("", "None", None)
        assert line.get_markevery() is None
        assert ax.get_xlabel() == "seconds"
    assert "error" in axes[0].get_ylabel()
    assert "nonzeros" in axes[1].get_ylabel()
    assert axes[0].get_legend() is None


def test_methods_are_compared_on_the_same_axes():
    axes = plot_convergence(history(5), label="paper")
    again = plot_convergence(history(9, 0.1), label="default", axes=axes)
    plot_convergence(history(20, 3), label="K-SVD", axes=list(again))
    assert len(plt.get_fignums()) == 1
    assert list(again) == list(axes)
    assert [text.get_text() for text in axes[0].get_legend().get_texts()] == ["paper", "default", "K-SVD"]
    for ax in axes:
        looks = [(line.get_color(), line.get_marker()) for line in ax.lines]
        assert len({colour for colour, _ in looks}) == len({marker for _, marker in looks}) == 3
    assert [line.get_color() for line in axes[0].lines] == [line.get_color() for line in axes[1].lines]
    assert axes[0].get_xlim()[1] > 60, "the scale follows the longest run"


def test_many_methods():
    axes = plot_convergence(history(2), label="0")
    for k in range(1, 10):
        plot_convergence(history(2), label=str(k), axes=axes)
    assert len(axes[0].lines) == 10


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([], "at least one, got an empty one"),
        ({"seconds": [1]}, "history to be a list with a dict for each iteration, at least one, got dict"),
        ([{"seconds": 1, "error": 2}], r"history\[0\] to be a dict with the key 'mean_nonzeros', got"),
        ([*history(1), {"error": 1}], r"history\[1\] to be a dict with the key 'seconds'"),
        ([1], r"history\[0\] to be a dict"),
    ],
)
def test_convergence_errors(runs, words):
    with pytest.raises(ValueError, match=words):
        plot_convergence(runs)
    assert not plt.get_fignums()


def test_convergence_needs_two_axes():
    _, ax = plt.subplots()
    with pytest.raises(ValueError, match="axes to be a sequence of 2 matplotlib Axes"):
        plot_convergence(history(2), axes=[ax])
    with pytest.raises(ValueError, match="axes to be a sequence of 2 matplotlib Axes"):
        plot_convergence(history(2), axes=ax)
    assert not ax.lines


# Use of atoms


def heights(ax):
    (stairs,) = ax.patches
    return stairs.get_data().values


CODES = np.array([[1.0, 0, 0, -2.0], [1e-300, 0, 3.0, 0], [1.0, 0, 0, 1.0]])


def shuffled_coo():
    """Return the codes with entries that are stored twice and one that adds up to zero."""
    rows, columns = np.nonzero(CODES)
    values = CODES[rows, columns]
    return scipy.sparse.coo_array(
        (np.r_[values / 2, values / 2, 1.0, -1.0], (np.r_[rows, rows, 0, 0], np.r_[columns, columns, 1, 1])),
        shape=CODES.shape,
    )


def with_stored_zeros():
    codes = scipy.sparse.csr_array(np.ones((3, 4)))
    codes.data[:] = CODES.ravel()
    return codes


@pytest.mark.parametrize(
    "codes",
    [
        CODES,
        CODES.astype(np.float32) * np.float32(1e10) + CODES,
        scipy.sparse.csr_array(CODES),
        scipy.sparse.csc_matrix(CODES),
        shuffled_coo(),
        with_stored_zeros(),
        [3, 0, 1, 2],
        np.array([0, 1, 2, 3], np.uint8),
    ],
)
def test_use_is_counted_and_sorted(codes):
    ax = plot_atom_use(codes)
    np.testing.assert_array_equal(heights(ax), [3, 2, 1, 0])
    assert ax.texts[0].get_text() == "4 atoms, 1 unused"
    assert ax.get_yscale() == "linear"


def test_the_callers_codes_stay_as_they_are():
    codes = scipy.sparse.csr_array((np.ones(4), np.array([1, 1, 0, 2]), np.array([0, 2, 4])), shape=(2, 3))
    ax = plot_atom_use(codes)
    assert codes.nnz == 4
    np.testing.assert_array_equal(heights(ax), [1, 1, 1])


def test_wide_range_is_logarithmic():
    ax = plot_atom_use([1000, 1, 50, 0, 0])
    assert ax.get_yscale() == "log"
    assert ax.texts[0].get_text() == "5 atoms, 2 unused"
    drawn = heights(ax)
    np.testing.assert_array_equal(drawn[:3], [1000, 50, 1])
    bottom = ax.get_ylim()[0]
    assert 0 < bottom < 1, "an atom that is used once has a bar"
    np.testing.assert_array_equal(drawn[3:], bottom)


@pytest.mark.parametrize("counts", [[0, 0, 0], [7], [1e-12, 1.0], [10**18, 1]])
def test_unusual_counts_can_be_drawn(counts):
    ax = plot_atom_use(counts)
    ax.figure.canvas.draw()
    assert ax.texts[0].get_text().endswith(f"{sum(c == 0 for c in counts)} unused")


def test_no_samples():
    assert plot_atom_use(scipy.sparse.csr_array((0, 3))).texts[0].get_text() == "3 atoms, 3 unused"
    assert plot_atom_use(np.zeros((0, 3))).texts[0].get_text() == "3 atoms, 3 unused"


def test_use_on_given_axes():
    _, ax = plt.subplots()
    assert plot_atom_use([1, 2], ax=ax) is ax
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "at least one atom"),
        (np.zeros((3, 0)), "at least one atom"),
        ([1, -1], "counts of at least 0, got -1"),
        ([1, np.nan], "finite"),
        (np.array([[1, np.inf]]), "finite"),
        (scipy.sparse.csr_array([[1, np.nan]]), "finite"),
        (np.zeros((2, 2, 2)), "codes_or_counts to have 2 dimensions"),
        (3, "codes_or_counts to have 2 dimensions"),
    ],
)
def test_use_errors(value, words):
    with pytest.raises(ValueError, match=words):
        plot_atom_use(value)
    assert not plt.get_fignums()


@pytest.mark.parametrize("call", [lambda: plot_atoms(np.eye(4)), lambda: plot_atom_use([1])])
def test_without_matplotlib(monkeypatch, call):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "coupledict\[plot\]"'):
        call()


@pytest.mark.slow
def test_importing_draws_nothing_in():
    """`import coupledict.plotting` must work, and stay fast, without matplotlib."""
    import subprocess

    code = "import sys; sys.modules['matplotlib'] = None; import coupledict.plotting"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_pictures_render(rng, tmp_path):
    """Every plot becomes a file without a warning, tight or not."""
    atoms = rng.standard_normal((9, 16))
    figures = [
        plot_atoms(atoms, title="t").figure,
        plot_pairs([atoms, atoms])[0].figure,
        plot_convergence(history(3), label="x")[0].figure,
        plot_atom_use([1000, 1, 0]).figure,
    ]
    for k, figure in enumerate(figures):
        figure.savefig(tmp_path / f"{k}.png", bbox_inches="tight" if k % 2 else None)
        assert (tmp_path / f"{k}.png").stat().st_size > 1000
