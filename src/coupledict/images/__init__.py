"""Images: patches, multi-focus fusion, super-resolution, inpainting, stains, measures of how well they were done."""

from . import metrics
from ._fusion import MultiFocusFusion
from ._fusion_result import FusedSource, Fusion
from ._inpainting import Inpainting
from ._patches import assemble_patches, extract_patches, patch_bands
from ._resize import imresize
from ._stain import StainSeparator
from ._super_resolution import SuperResolution

__all__ = [
    "extract_patches",
    "assemble_patches",
    "patch_bands",
    "MultiFocusFusion",
    "Fusion",
    "FusedSource",
    "SuperResolution",
    "Inpainting",
    "StainSeparator",
    "imresize",
    "metrics",
]
