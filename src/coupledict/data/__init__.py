"""The samples of a fit, in memory or in blocks on disk, and how one pass runs over them."""
