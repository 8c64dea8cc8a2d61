"""Sparse coding: views and dictionaries in, codes or sums over codes out."""
