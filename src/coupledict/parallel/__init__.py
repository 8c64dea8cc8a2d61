"""Threads: ordered work, cancellation, one thread for BLAS, and how many threads ``n_jobs`` means."""
