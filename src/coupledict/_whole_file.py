"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def replace_file(path: str | os.PathLike[str], parts: Iterable[bytes | memoryview]) -> None:
    """Write a file under another name, make sure that it is on disk, and only then give it its name."""
    target = Path(os.path.realpath(path))  # a link stays a link
    if not target.parent.is_dir():
        raise FileNotFoundError(f"Expected the folder {str(target.parent)!r} to exist, got no such folder. Make it.")
    temporary = target.parent / f".coupledict-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "xb") as file:  # not tempfile, whose files no one else may read
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
