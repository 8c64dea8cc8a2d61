"""The compiled kernels (``_native``, built from src/native) and the choice of their instruction set."""
