"""Images: patches, multi-focus fusion, super-resolution, and measures of how well they were done."""

from . import metrics
from ._patches import assemble_patches, extract_patches

__all__ = ["extract_patches", "assemble_patches", "metrics"]
