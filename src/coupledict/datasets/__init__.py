"""Data with several views: bundled, downloaded once, or simulated with known truth."""

from ._fetching import (
    fetch_focus_stack,
    fetch_lytro,
    fetch_multifeature,
    fetch_speech,
    fetch_super_resolution,
    fetch_unmixing,
    fetch_wikipedia,
)
from ._photographs import load_image_depth, load_sharp_blurred, load_stereo_patches
from ._recovery import AtomMatches, match_atoms, recovery_score
from ._remote import DownloadError, get_data_home
from ._results import CoupledSignals, ImageDataset, MultiviewDataset, SoundDataset
from ._signals import make_coupled_signals
from ._tables import load_breast_cancer_views, load_digit_views

__all__ = [
    "load_stereo_patches",
    "load_image_depth",
    "load_sharp_blurred",
    "load_digit_views",
    "load_breast_cancer_views",
    "make_coupled_signals",
    "recovery_score",
    "match_atoms",
    "AtomMatches",
    "fetch_multifeature",
    "fetch_unmixing",
    "fetch_super_resolution",
    "fetch_focus_stack",
    "fetch_speech",
    "fetch_lytro",
    "fetch_wikipedia",
    "get_data_home",
    "DownloadError",
    "MultiviewDataset",
    "CoupledSignals",
    "ImageDataset",
    "SoundDataset",
]
