"""Files that are downloaded once: over https, verified by SHA-256 before they get their names, complete or absent."""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from ..files.whole import new_file
from ..foundation.text import printable
from ..foundation.version import __version__

VARIABLE = "COUPLEDICT_DATA_HOME"


class DownloadError(OSError):
    """A file of a data set could not be downloaded, or is not the expected one."""


@dataclass(frozen=True)
class RemoteFile:
    """A file of a data set: its path below the data folder, its address, and its expected contents."""

    path: str
    address: str
    digests: dict[str, int]  # from the SHA-256 to the number of bytes


def over_https(address: str) -> bool:
    """Return whether an address begins with https."""
    return urlsplit(address).scheme == "https"


@dataclass(frozen=True)
class Download:
    """Rules for downloads.

    Parameters
    ----------
    allowed : callable
        Returns whether an address may be requested, also as the target of a redirection.
    silence : float
        Seconds without data after which a download fails.
    longest : float
        Most seconds for one file.
    chunk : int
        Most bytes read at a time.
    """

    allowed: Callable[[str], bool] = over_https
    silence: float = 30.0
    longest: float = 600.0
    chunk: int = 1 << 16

    def get(self, file: RemoteFile, path: Path) -> None:
        """Download a file under a temporary name, check it, and rename it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        digest, received, most = hashlib.sha256(), 0, max(file.digests.values())
        with new_file(path) as target:
            for chunk in self._chunks(file, path):
                received += len(chunk)
                if received > most:
                    raise DownloadError(
                        f"Expected {file.address} to have {most} bytes, got more: it was changed, and nothing was kept."
                    )
                digest.update(chunk)
                target.write(chunk)
            if file.digests.get(digest.hexdigest()) != received:
                raise DownloadError(
                    f"Expected {file.address} to have the SHA-256 {_expected(file)}, got {received} bytes with"
                    f" {digest.hexdigest()}: it was cut off or changed, and nothing was kept; try again, or save the"
                    f" right file as '{path}'."
                )

    def _chunks(self, file: RemoteFile, path: Path) -> Iterator[bytes]:
        """Yield the response of an address piece by piece; network errors say what can be done."""
        deadline = time.monotonic() + self.longest
        try:
            with self._open(file.address) as answer:
                while chunk := answer.read1(self.chunk):
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"not complete within {self.longest:g} seconds")
                    yield chunk
        except DownloadError:
            raise
        except (OSError, http.client.HTTPException) as error:
            raise DownloadError(
                f"Expected to download {file.address}, got {_reason(error)}; try again with a network connection, save"
                f" the file as '{path}', or set data_home= to a folder that has it."
            ) from error

    def _open(self, address: str) -> Any:
        self.check_address(address)
        opener = urllib.request.build_opener(_CheckedRedirects(self))
        request = urllib.request.Request(address, headers={"User-Agent": f"coupledict/{__version__}"})
        return opener.open(request, timeout=self.silence)

    def check_address(self, address: str) -> None:
        """Raise unless an address may be requested."""
        if not self.allowed(address):
            raise DownloadError(
                f"Expected an address that begins with https://, got {printable(address)}; nothing was downloaded."
            )


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirections only to allowed addresses."""

    def __init__(self, download: Download) -> None:
        self._download = download

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        try:
            self._download.check_address(newurl)
        except DownloadError:
            fp.close()
            raise
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def get_data_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of downloaded data.

    It is created by the first download. It has the layout that ``--data`` of the benchmarks and ``COUPLEDICT_DATA``
    expect, so they can use what is fetched here.

    Parameters
    ----------
    data_home : str or path, optional
        The folder. By default, that of the environment variable ``COUPLEDICT_DATA_HOME`` or, if it is not set,
        ``coupledict_data`` in your home folder.

    Returns
    -------
    pathlib.Path
        The folder, whether it exists or not.

    Examples
    --------
    >>> from coupledict.datasets import get_data_home
    >>> get_data_home("data").name
    'data'
    """
    chosen = data_home or os.environ.get(VARIABLE) or Path("~", "coupledict_data")
    return Path(chosen).expanduser().absolute()


def get_files(
    files: Iterable[RemoteFile],
    data_home: str | os.PathLike[str] | None,
    *,
    download_if_missing: bool,
    download: Download | None = None,
) -> list[Path]:
    """Return the paths of files, after downloading missing ones.

    Raises
    ------
    DownloadError
        If a file is missing and may not or cannot be downloaded, or is not the expected one.
    """
    home = get_data_home(data_home)
    way = (download or Download()) if download_if_missing else None
    return [_get_file(file, home / file.path, way) for file in files]


def _get_file(file: RemoteFile, path: Path, download: Download | None) -> Path:
    if path.is_file():
        _check_cached(file, path)
    elif download is not None:
        download.get(file, path)
    else:
        raise DownloadError(
            f"Expected the file '{path}', got none, and download_if_missing is False; set it to True, or save"
            f" {file.address} under that name."
        )
    return path


def _check_cached(file: RemoteFile, path: Path) -> None:
    """Raise if an existing file is not the expected one; it is not replaced, because it may be the user's own."""
    with open(path, "rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found not in file.digests:
        raise DownloadError(
            f"Expected '{path}' to have the SHA-256 {_expected(file)}, got {found}; remove it to download it again."
        )


def _expected(file: RemoteFile) -> str:
    return " or ".join(file.digests)


def _reason(error: BaseException) -> str:
    """Return in a few words why a download failed."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"HTTP status {error.code} ({printable(error.reason)})"
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(inner, TimeoutError):
        return f"no answer in time ({printable(inner)})"
    words = inner.strerror if isinstance(inner, OSError) else None
    return f"a network error ({printable(words or inner)})"
