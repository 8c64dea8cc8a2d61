"""Public sets: what is downloaded is read as it should be. The files are made here; nothing leaves this machine."""

from __future__ import annotations

import hashlib
import io
import sys
import urllib.request

import numpy as np
import pytest
import soundfile
from PIL import Image
from scipy.io import savemat

from coupledict import CoupledDictionaryLearning, datasets
from coupledict.datasets import _sources
from coupledict.datasets._remote import RemoteFile


class World:
    """Answers what is asked for in the net, and remembers it."""

    def __init__(self):
        self.files, self.requests = {}, []

    def open(self, request, *, timeout):
        self.requests.append(request.full_url)
        return io.BytesIO(self.files[request.full_url])


@pytest.fixture
def publish(monkeypatch):
    """A function that puts made files in the place of those of the table; returns what stands in for the net."""
    world = World()
    monkeypatch.setattr(urllib.request.OpenerDirector, "open", world.open)

    def put(files):
        table = _sources.registry()
        assert set(files) <= set(table)
        for path, content in files.items():
            address, digest = table[path].address, hashlib.sha256(content).hexdigest()
            monkeypatch.setitem(table, path, RemoteFile(path, address, {digest: len(content)}))
            world.files[address] = content
        return world

    return put


def picture(rng, height, width, *, kind="PNG", grey=False):
    pixels = rng.integers(0, 256, (height, width) if grey else (height, width, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, kind)
    with Image.open(content) as read:
        return content.getvalue(), np.asarray(read)


def mat(**arrays):
    content = io.BytesIO()
    savemat(content, arrays)
    return content.getvalue()


def test_multifeature(publish, tmp_path, rng):
    widths = {"fou": 4, "fac": 7, "kar": 3, "pix": 5, "zer": 6, "mor": 2}
    digits = np.arange(40) % 10
    tables, files = {}, {}
    for code, width in widths.items():
        tables[code] = rng.standard_normal((40, width))
        rows = zip(tables[code].tolist(), digits.tolist(), strict=True)
        lines = [",".join(map(repr, [*row, digit])) for row, digit in rows]
        head = ",".join(map(str, [*range(width), 0]))
        files[f"multifeature/mfeat-{code}.csv"] = "\r\n".join([head, *lines, ""]).encode()
    world = publish(files)
    data = datasets.fetch_multifeature(data_home=tmp_path)
    assert list(data.views) == ["fourier", "profiles", "karhunen_loeve", "pixels", "zernike", "morphology"]
    for view, code in zip(data.views.values(), widths, strict=True):
        np.testing.assert_array_equal(view, tables[code])
    np.testing.assert_array_equal(data.target, digits)
    again = datasets.fetch_multifeature(data_home=tmp_path, download_if_missing=False, dtype=np.float32)
    assert again.views["zernike"].dtype == np.float32
    assert len(world.requests) == 6
    assert CoupledDictionaryLearning(4, n_nonzero_coefs=1, max_iter=1, predictor="ridge").fit(data.views).n_iter_ == 1


@pytest.mark.parametrize("name", ["samson", "jasper"])
def test_unmixing(publish, tmp_path, rng, name):
    shares = rng.dirichlet(np.ones(3), (4, 5))  # rows, columns, materials
    spectra = rng.random((3, 6))
    pixels = np.stack([shares[row, column] @ spectra for column in range(5) for row in range(4)])
    file = mat(Y=pixels.T * 2, GT=spectra, S_GT=shares)
    publish({f"unmixing/{name.capitalize()}.mat": file})
    data = datasets.fetch_unmixing(name, data_home=tmp_path)
    assert data.views["spectra"].max() == 1
    np.testing.assert_allclose(data.codes @ data.components["spectra"], data.views["spectra"] * pixels.max())
    assert data.codes.shape == (20, 3)
    assert datasets.fetch_unmixing(name, data_home=tmp_path, dtype=np.float32).codes.dtype == np.float32


def test_super_resolution(publish, tmp_path, rng):
    files, truth = {}, {}
    for number in range(1, 6):
        for mark, side in (("LR", 5), ("HR", 20)):
            path = f"sr/Set5/image_SRF_4/img_{number:03d}_SRF_4_{mark}.png"
            files[path], truth[number, mark] = picture(rng, side, side + number, grey=number == 3)
    world = publish(files)
    data = datasets.fetch_super_resolution("Set5", scale=4, data_home=tmp_path)
    assert data.names == ["001", "002", "003", "004", "005"]
    assert repr(data) == "ImageDataset: low, high; 5 of each"
    for place, number in enumerate(range(1, 6)):
        np.testing.assert_array_equal(data.images["low"][place], truth[number, "LR"])
        np.testing.assert_array_equal(data.images["high"][place], truth[number, "HR"])
    assert len(world.requests) == 10


def test_focus_stack(publish, tmp_path, rng):
    made = {f"stacks/pcb/pcb_{number:03d}.jpg": picture(rng, 9, 12, kind="JPEG") for number in range(1, 8)}
    publish({path: content for path, (content, _) in made.items()})
    data = datasets.fetch_focus_stack(data_home=tmp_path)
    assert data.names[0] == "pcb_001"
    for found, (_, pixels) in zip(data.images["stack"], made.values(), strict=True):
        np.testing.assert_array_equal(found, pixels)


def test_speech(publish, tmp_path, rng):
    files, names = {}, ("198-209-0000", "3436-172162-0000", "5703-47212-0000")
    signals = [(0.1 * rng.standard_normal(1600 + n)).astype(np.float32) for n in range(3)]
    for name, signal in zip(names, signals, strict=True):
        content = io.BytesIO()
        soundfile.write(content, signal, 16_000, format="WAV", subtype="FLOAT")
        files[f"speech/librispeech/{name}.hq.ogg"] = content.getvalue()
    publish(files)
    data = datasets.fetch_speech(data_home=tmp_path)
    assert (data.rate, data.names) == (16_000, list(names))
    assert repr(data) == "SoundDataset: 3 recordings, 0.3 s at 16000 Hz"
    for found, signal in zip(data.signals, signals, strict=True):
        np.testing.assert_array_equal(found, signal)


def test_lytro_is_read_from_files_that_were_put_there(tmp_path, rng):
    with pytest.raises(datasets.DownloadError, match="not downloaded for you: get it from https://mansournejati"):
        datasets.fetch_lytro(data_home=tmp_path)
    (tmp_path / "lytro").mkdir()
    truth = {}
    for side in "AB":
        for number in range(1, 21):
            content, truth[number, side] = picture(rng, 8, 8, kind="JPEG")
            (tmp_path / "lytro" / f"lytro-{number:02d}-{side}.jpg").write_bytes(content)
    data = datasets.fetch_lytro(data_home=tmp_path)
    for side in "AB":
        for place, found in enumerate(data.images[side]):
            np.testing.assert_array_equal(found, truth[place + 1, side])
    (tmp_path / "lytro" / "lytro-13-B.jpg").unlink()
    with pytest.raises(datasets.DownloadError, match=r"lytro-13-B\.jpg', got none"):
        datasets.fetch_lytro(data_home=tmp_path)


@pytest.fixture
def wiki(tmp_path, rng):
    """A folder of data with features of 12 and 5 pairs, and the truth."""
    (tmp_path / "wiki").mkdir()
    truth = {f"{letter}_{end}": rng.random((n, p)) for letter, p in (("I", 6), ("T", 4))
             for end, n in (("tr", 12), ("te", 5))}  # fmt: skip
    (tmp_path / "wiki" / "raw_features.mat").write_bytes(mat(**truth))
    for part, n in (("train", 12), ("test", 5)):
        lines = "".join(f"text-{i}.1\timage{i}\t{i % 10 + 1}\n" for i in range(n))
        (tmp_path / "wiki" / f"{part}set_txt_img_cat.list").write_text(lines)
    return tmp_path, truth


def test_wikipedia_is_read_from_files_that_were_put_there(wiki):
    home, truth = wiki
    train, test, both = (datasets.fetch_wikipedia(subset, data_home=home) for subset in ("train", "test", "all"))
    for name, letter in (("image", "I"), ("text", "T")):
        np.testing.assert_array_equal(train.views[name], truth[f"{letter}_tr"])
        np.testing.assert_array_equal(test.views[name], truth[f"{letter}_te"])
        np.testing.assert_array_equal(both.views[name], np.vstack([train.views[name], test.views[name]]))
    assert train.target.tolist() == [i % 10 for i in range(12)]
    assert both.target.tolist() == [*train.target, *test.target]


def test_features_and_categories_of_wikipedia_must_agree(wiki):
    home, truth = wiki
    (home / "wiki" / "raw_features.mat").write_bytes(mat(**truth | {"T_tr": truth["T_tr"][:-1]}))
    with pytest.raises(ValueError, match=r"got \[12, 11\] and 12; get the files from one source"):
        datasets.fetch_wikipedia(data_home=home)
    (home / "wiki" / "raw_features.mat").write_bytes(mat(other=truth["T_tr"]))
    with pytest.raises(ValueError, match=r"Expected an array I_tr in .*, got \['other'\]"):
        datasets.fetch_wikipedia(data_home=home)
    with pytest.raises(datasets.DownloadError, match=r"get it from http://www\.svcl\.ucsd\.edu"):
        datasets.fetch_wikipedia(data_home=home / "nowhere")


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: datasets.fetch_unmixing("urban"), ValueError, r"name to be one of \('samson', 'jasper'\)"),
        (lambda: datasets.fetch_super_resolution("Set6"), ValueError, r"name to be one of \('Set5', 'Set14'\)"),
        (lambda: datasets.fetch_super_resolution(scale=2), ValueError, "scale to be 3 or 4, got 2"),
        (lambda: datasets.fetch_wikipedia("tail"), ValueError, "subset to be one of"),
        (lambda: datasets.fetch_multifeature(dtype=int), ValueError, "dtype to be float32 or float64"),
        (lambda: datasets.fetch_speech(download_if_missing="no"), TypeError, "download_if_missing to be True or False"),
    ],
)
def test_bad_settings_are_named_before_anything_is_asked_for(publish, call, kind, message):
    world = publish({})
    with pytest.raises(kind, match=message):
        call()
    assert world.requests == []


def test_missing_packages_are_named(publish, tmp_path, monkeypatch):
    files = {path: b"x" for path in _sources.registry() if path.startswith(("speech/", "stacks/"))}
    publish(files)
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(ImportError, match=r'pip install "coupledict\[audio\]"'):
        datasets.fetch_speech(data_home=tmp_path)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r'pip install "coupledict\[images\]"'):
        datasets.fetch_focus_stack(data_home=tmp_path)
