"""Cross-modal matching: for samples given in one view, find the most similar ones given in another."""

from ._index import GalleryIndex
from ._matcher import CrossModalMatcher
from ._ranking import mean_average_precision, mean_reciprocal_rank, partner_ranks, rank_k

__all__ = [
    "CrossModalMatcher",
    "GalleryIndex",
    "mean_average_precision",
    "mean_reciprocal_rank",
    "partner_ranks",
    "rank_k",
]
