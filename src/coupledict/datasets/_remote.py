"""Files that are downloaded once: over https, checked by SHA-256 before they get their names, complete or absent."""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from ..files.whole import new_file
from ..foundation.text import printable
from ..foundation.version import __version__

VARIABLE = "COUPLEDICT_DATA_HOME"
SILENCE = 30.0  # seconds without a byte after which a download is given up
LONGEST = 600.0  # seconds that one file may take, however busy the line is
CHUNK = 1 << 16


class DownloadError(OSError):
    """A file of a data set could not be downloaded, or is not the one that was expected."""


@dataclass(frozen=True)
class RemoteFile:
    """A file of a data set: its place below the folder of data, where it is downloaded, and what it must be."""

    path: str
    address: str
    digests: dict[str, int]  # from the SHA-256 to the number of bytes


def get_data_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of downloaded data.

    It is made when something is downloaded. Its layout is that of the folder that ``--data`` of the benchmarks and
    ``COUPLEDICT_DATA`` name: what is fetched there can be used there.

    Parameters
    ----------
    data_home : str or path, optional
        The folder. If left out, it is that of the environment variable ``COUPLEDICT_DATA_HOME``, else
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
) -> list[Path]:
    """Return where files are, after downloading those that are not there.

    Raises
    ------
    DownloadError
        If a file is missing and may not or cannot be downloaded, or if it is not the expected one.
    """
    home = get_data_home(data_home)
    return [_get_file(file, home / file.path, download=download_if_missing) for file in files]


def _get_file(file: RemoteFile, path: Path, *, download: bool) -> Path:
    if path.is_file():
        _check_cached(file, path)
    elif download:
        _download(file, path)
    else:
        raise DownloadError(
            f"Expected the file '{path}', got none, and download_if_missing is False; set it to True, or download"
            f" {file.address} by hand to that place."
        )
    return path


def _check_cached(file: RemoteFile, path: Path) -> None:
    """Raise if a file that is there already is not the expected one; it may be somebody's own, and is not replaced."""
    with open(path, "rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found not in file.digests:
        raise DownloadError(
            f"Expected '{path}' to have the SHA-256 {_expected(file)}, got {found}; remove it to download it again."
        )


def _expected(file: RemoteFile) -> str:
    return " or ".join(file.digests)


def _download(file: RemoteFile, path: Path) -> None:
    """Download a file under another name, check it, and give it its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, received, most = hashlib.sha256(), 0, max(file.digests.values())
    with new_file(path) as target:
        for chunk in _chunks(file, path):
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
                f" {digest.hexdigest()}: it was cut off or changed, and nothing was kept; try again, or put the right"
                f" file to '{path}' by hand."
            )


def _chunks(file: RemoteFile, path: Path) -> Iterator[bytes]:
    """Yield what an address answers, piece by piece; errors of the network say what can be done."""
    deadline = time.monotonic() + LONGEST
    try:
        with _open(file.address) as answer:
            while chunk := answer.read1(CHUNK):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no end within {LONGEST:g} seconds")
                yield chunk
    except DownloadError:
        raise
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError(
            f"Expected to download {file.address}, got {_reason(error)}; try again with a network, or download it by"
            f" hand to '{path}', or give data_home= a folder that has it."
        ) from error


def allowed(address: str) -> bool:
    """Tell whether an address may be asked, also as the target of a redirection."""
    return urlsplit(address).scheme == "https"


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirection only to an address that is allowed."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if not allowed(newurl):
            fp.close()
        _check_address(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_address(address: str) -> None:
    if not allowed(address):
        raise DownloadError(
            f"Expected an address that begins with https://, got {printable(address)}; nothing was downloaded."
        )


def _open(address: str) -> Any:
    _check_address(address)
    opener = urllib.request.build_opener(_CheckedRedirects)
    request = urllib.request.Request(address, headers={"User-Agent": f"coupledict/{__version__}"})
    return opener.open(request, timeout=SILENCE)


def _reason(error: BaseException) -> str:
    """Return in a few words why a download failed."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"the answer {error.code} ({printable(error.reason)})"
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(inner, TimeoutError):
        return f"no answer in time ({printable(inner)})"
    words = inner.strerror if isinstance(inner, OSError) else None
    return f"an error of the network ({printable(words or inner)})"
