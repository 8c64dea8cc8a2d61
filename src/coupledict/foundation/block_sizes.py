"""How much is worked on at a time: numbers that change memory and speed, and results by no more than rounding."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass


@dataclass
class BlockSizes:
    """One number for each place that cuts its work into blocks; read it where the work begins.

    Examples
    --------
    >>> from coupledict.foundation.block_sizes import SIZES
    >>> with SIZES.changed(block_rows=100):
    ...     SIZES.block_rows
    100
    >>> SIZES.block_rows
    16384
    """

    # foundation
    copy_bytes: int = 32 << 20  # of a mapped file that one system call copies; an interrupt is noticed between two
    copy_runs: int = 1024  # runs of bytes that one such call copies: what Linux takes (IOV_MAX)
    # files
    zarr_chunk: int = 1 << 20  # numbers in a chunk of codes that are written as Zarr arrays
    # coding
    gram_bytes: int = 1 << 30  # a larger Gram matrix is not made: correlations are computed step by step
    gap_numbers: int = 1 << 22  # correlations that duality gaps hold in memory
    lasso_room: int = 64  # nonzeros that the lasso has room for at first; codes that need more are made again
    # data
    block_rows: int = 16384  # rows of a block if the storage has no chunks of its own
    block_bytes: int = 32 << 20  # and the largest size of such a block
    large_bytes: int = 64 << 20  # smaller memory maps are read completely, and then are arrays in memory
    # learning
    sums_bytes: int = 1 << 27  # larger sums A = C^T C are not made where the codes are at hand
    stream_records: int = 1000  # batches that the history of a stream keeps, for it may never end
    # distributed
    groups_per_thread: int = 4  # with fewer groups of blocks, workers would be idle at the end of a pass
    # images
    upscaled_pixels: int = 1 << 14  # of a tile of the small image; larger tiles leave the cache, smaller have more edge
    upscaled_columns: int = 512  # of such a tile at most
    detail_samples: int = 1 << 14  # pairs of small and large patches that maps are fitted to at a time
    blended_rows: int = 256  # of a tile of a fused picture; a multiple of 8
    blended_columns: int = 512  # of such a tile; a multiple of 8
    assembled_bytes: int = 1 << 21  # patches, which are read once for each of their pixels and should fit the cache
    resized_pixels: int = 32  # along an axis: smaller blocks need more calls, larger ones hold more zeros
    unpacked_bytes: int = 1 << 25  # of a TIFF file, unless a single strip has more
    # audio
    window_frames: int = 2048  # of speech without the margins, 16 s
    resampled_samples: int = 1 << 15  # at least
    added_samples: int = 1 << 15  # of a high band
    sound_samples: int = 1 << 16  # read from a file, over all its channels
    # datasets
    drawn_numbers: int = 1 << 22  # for the supports of simulated codes
    # classification
    residual_rows: int = 4096  # samples whose residuals are in memory at a time
    # matching
    gallery_rows: int = 4096  # samples of a gallery that are compared at a time
    query_rows: int = 1024  # queries that are compared at a time
    ranked_parts: int = 32  # results of blocks that are kept before they are merged
    grouped_columns: int = 64  # wide rows of similarities are searched by the maxima of so many columns
    kernel_rows: int = 1024  # samples whose kernel is computed at a time
    # cli
    coded_bytes: int = 1 << 26  # samples that encode and predict read at a time
    patch_bytes: int = 1 << 24  # patches that predict makes of a picture at a time

    @contextmanager
    def changed(self, **sizes: int) -> Iterator[None]:
        """Change sizes for all threads of this process until the block ends: for tests and measurements."""
        before = asdict(self)
        unknown = sorted(set(sizes) - set(before))
        if unknown:
            raise ValueError(f"Expected sizes among {sorted(before)}, got {unknown}.")
        vars(self).update(sizes)
        try:
            yield
        finally:
            vars(self).update(before)


SIZES = BlockSizes()
