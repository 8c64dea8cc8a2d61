"""Files of models and codes: data only, never code, and written completely or not at all."""

from .models import ModelFileError, read_model, write_model

__all__ = ["ModelFileError", "read_model", "write_model"]
