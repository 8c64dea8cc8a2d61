"""The table of the files of public data sets."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources

from ._remote import RemoteFile


@functools.cache
def registry() -> Mapping[str, RemoteFile]:
    """Return all files by their paths below the data folder, in the order of the table."""
    return read_registry(resources.files(__package__).joinpath("sources.txt").read_text(encoding="utf-8"))


def read_registry(text: str) -> dict[str, RemoteFile]:
    """Read a table of files; a line has the number of bytes, the SHA-256, the path and the address."""
    files: dict[str, RemoteFile] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        size, digest, path, address = line.split()
        if path in files:
            files[path].digests[digest] = int(size)
        else:
            files[path] = RemoteFile(path, address, {digest: int(size)})
    return files


def files_below(folder: str) -> list[RemoteFile]:
    """Return the files of a folder."""
    return [file for path, file in registry().items() if path.startswith(f"{folder}/")]
