"""The server of the page: what it takes, what it makes, and one job at a time."""

from __future__ import annotations

import contextlib
import inspect
import os
import socket
import struct
import threading
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from typer.main import get_command

import coupledict
from coupledict.cli import app
from coupledict.images import FusedSource, Fusion, MultiFocusFusion, SuperResolution, imresize
from coupledict.images._files import Picture
from coupledict.serve import _jobs, _pictures, _samples, _tasks
from coupledict.serve import run as serve
from coupledict.serve._forms import FormReader
from coupledict.serve._jobs import Job
from coupledict.serve._pictures import DisplaySize, align
from coupledict.serve._uploads import Form, Limits, Upload, plain_name
from support.serving import BOUNDARY, TOKEN, form, png, png_that_claims, read, serving, stack, tiff
from support.waiting import PATIENCE, wait_until


@pytest.fixture
def client(tmp_path):
    with serving(tmp_path / "jobs") as client:
        yield client


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """A server for requests that leave nothing behind, shared."""
    with serving(tmp_path_factory.mktemp("serve") / "jobs") as client:
        yield client


# What it takes


def test_too_many_bytes_are_refused_before_they_come(stranger):
    headers = form([], {})[1] | {"Content-Length": "100000000"}
    with socket.create_connection(("127.0.0.1", stranger.port), timeout=PATIENCE) as raw:
        lines = [f"POST /{TOKEN}/jobs/fuse HTTP/1.1", f"Host: 127.0.0.1:{stranger.port}"]
        raw.sendall("\r\n".join([*lines, *(f"{key}: {value}" for key, value in headers.items()), "", ""]).encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert b" 413 " in answer.splitlines()[0]
    assert b"Expected at most 1 MB at a time" in answer
    assert list(stranger.folder.iterdir()) == []


def test_a_stream_without_end_is_cut(stranger):
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'.encode()
    sent = 0
    with socket.create_connection(("127.0.0.1", stranger.port), timeout=PATIENCE) as raw:
        raw.sendall(
            f"POST /{TOKEN}/jobs/fuse HTTP/1.1\r\nHost: 127.0.0.1:{stranger.port}\r\nTransfer-Encoding: chunked\r\n"
            f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\n\r\n".encode()
        )
        raw.sendall(b"%x\r\n%s\r\n" % (len(head), head))
        chunk = b"%x\r\n%s\r\n" % (1 << 16, b"x" * (1 << 16))
        with contextlib.suppress(ConnectionError):
            while sent < 100_000_000:
                raw.sendall(chunk)
                sent += 1 << 16
    assert sent < 20_000_000  # the limit, and what the sockets hold
    assert stranger.json("GET", "/about")[0] == 200
    assert list(stranger.folder.iterdir()) == []


def test_what_is_no_form_is_refused(stranger):
    status, reported = stranger.json("POST", "/jobs/fuse", b"{}", {"Content-Type": "application/json"})
    assert (status, reported["message"][:15]) == (415, "Expected a form")
    assert stranger.json("POST", "/jobs/fuse", b"x", {"Content-Type": "multipart/form-data"})[0] == 400
    assert stranger.begin("fuse")[0] == 400
    assert stranger.begin("fuse", *[("a.png", b"x")] * 65)[0] == 400
    assert list(stranger.folder.iterdir()) == []


def test_pixels_are_counted_before_they_are_decoded(tmp_path, rng, monkeypatch):
    """What only claims to be a picture cannot be decoded, and would be told so."""
    monkeypatch.setattr(MultiFocusFusion, "fuse", lambda self, images: pytest.fail("it was decoded"))
    bomb = png_that_claims(12_000, 12_000)
    image = rng.integers(0, 255, (10, 12), np.uint8)
    with serving(tmp_path / "jobs", megapixels=0.0002) as client:
        for task, files in (("fuse", [("a.png", bomb)] * 2), ("enlarge", [("a.png", bomb)])):
            assert "Expected at most 0.0002 megapixels, but" in client.message(task, *files)
        larger = ("a.png", png_that_claims(60_000, 60_000))
        assert client.message("enlarge", larger).startswith("'a.png' could not be read: it claims to have more than")
        many = [(name, make(image)) for name, make in (("a.png", png), ("b.tif", tiff))] * 14
        reported = client.message("fuse", *many)  # each may have 200 pixels and has 120, all may have 16 times as many
        assert "Expected at most 0.0032 megapixels, but these 28 pictures have 0.0" in reported
        assert "'a.png' enlarged would have 0.0" in client.message(
            "enlarge", ("a.png", png_that_claims(12, 10)), scale="2"
        )


def test_a_tiff_that_claims_to_be_huge_is_not_decoded(stranger):
    content = bytearray(tiff(np.zeros((16, 16), np.uint8)))
    for tag in (256, 257):  # width and length, as 32-bit numbers
        place = content.index(struct.pack("<HHI", tag, 4, 1)) if struct.pack("<HHI", tag, 4, 1) in content else None
        place = place if place is not None else content.index(struct.pack("<HHI", tag, 3, 1))
        content[place : place + 12] = struct.pack("<HHII", tag, 4, 1, 10_000)
    assert "Expected at most 1 megapixels, but 'a.tif' enlarged would have" in stranger.message(
        "enlarge", ("a.tif", bytes(content)), scale="2"
    )


NOISE = np.random.default_rng(0).integers(0, 255, (40, 40), np.uint8)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "could not be read as an image"),
        (b"no picture", "could not be read as an image"),
        (b"II*\0", "could not be read as an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EOF\n", "could not be read as an image"),
        (png(NOISE)[:900], "'holiday.png' could not be read as an image"),
        (png(np.zeros((4, 4), np.uint8)), "Expected"),
    ],
    ids=["empty", "text", "tiff", "postscript", "truncated", "small"],
)
def test_a_bad_file_is_told_in_a_sentence_with_its_own_name(stranger, content, reason):
    message = stranger.message("fuse", ("holiday.png", content), ("b.png", content))
    assert reason in message
    assert str(stranger.folder) not in message
    assert message.endswith(".")
    assert list(stranger.folder.iterdir()) == []


def test_pictures_that_do_not_fit_are_refused(stranger, rng):
    one, other = png(rng.integers(0, 255, (20, 30), np.uint8)), png(rng.integers(0, 255, (20, 31, 3), np.uint8))
    assert stranger.message("fuse", ("a.png", one), ("b.png", other)) == (
        "Expected pictures of one size and kind, got 30 x 20 pixels of 8-bit grey in 'a.png' and 31 x 20 pixels of"
        " 8-bit colour in 'b.png'."
    )
    assert stranger.message("fuse", ("a.png", one)) == "Expected two or more pictures of one scene, got 1."
    assert stranger.message("enlarge", ("a.png", one), ("b.png", one)) == "Expected one picture at a time, got 2."
    assert stranger.message("enlarge", ("a.png", one), scale="7") == "Expected a scale of 2, 3 or 4, got '7'."


def test_six_pictures_of_24_megapixels_fit_without_a_flag(tmp_path):
    defaults = {name: option.default for name, option in inspect.signature(serve).parameters.items()}
    reported = {option.name: option.default for option in get_command(app).commands["serve"].params}
    limits = Limits(defaults["max_megabytes"], defaults["max_megapixels"])
    assert (reported["max_megabytes"], reported["max_megapixels"]) == (limits.megabytes, limits.megapixels)
    limits.check_bytes(6 * 6000 * 4000 * 3 * 2)  # as TIFF files of 16 bits
    uploads = [Upload(tmp_path / f"{number}", "a.png") for number in range(6)]
    for upload in uploads:
        upload.path.write_bytes(png_that_claims(6000, 4000))
    assert [header.shape for header in limits.check_pictures(uploads)] == [(4000, 6000)] * 6


def test_a_raw_file_is_known_by_its_name(tmp_path):
    body, head = form([(name, b"II*\0") for name in ("a.CR2", "b.dng", "c.png", "d.html")], {})
    with FormReader(head["Content-Type"], tmp_path) as reader:
        reader.take(body)
        files = reader.finish().files
    assert [upload.path.name for upload in files] == ["upload-00.cr2", "upload-01.dng", "upload-02", "upload-03"]


def test_no_name_is_part_of_another(client):
    files = [(f"picture {number}.png", b"x" if number == 10 else png(NOISE)) for number in range(12)]
    assert client.message("fuse", *files).startswith("'picture 10.png' could not be read")


def test_a_full_disk_is_told(client, monkeypatch):
    def fail(path, *given):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "open", fail)
    status, reported = client.begin("fuse", ("a.png", b"x"))
    assert (status, reported["message"]) == (507, "The files could not be stored (No space left on device).")
    assert list(client.folder.iterdir()) == []


HOSTILE = "../../..\\x/<img src=x onerror=alert(1)>\u202e\x07.png"


def test_names_lead_nowhere(client, rng):
    left, right = (png(picture) for picture in stack(rng))
    job = client.do("fuse", ("..%2f/<b onclick=1>a&b;.png", left), ("../../../../etc/passwd", right))
    shown = job["result"]
    assert [source["label"] for source in shown["shares"]] == ["<b onclick=1>a&b;.png", "passwd"]  # text, never HTML
    assert shown["result"]["formats"][1]["name"] == "b-onclick-1-a-b-fused.png"
    (folder,) = client.folder.iterdir()
    assert {file.name for file in folder.iterdir()} == {
        "fused.npy", "fused-view.png", "source-0.npy", "source-0-view.png", "map.png", "map-view.png",
        "sent",
    }  # fmt: skip
    paths = ("../x", "..%2f..%2fx", "%2e%2e", "..", ".", "", "/etc/passwd", "map.png/", "map.png%00", "sent")
    for name in (*paths, "sent/upload-0", "sent%2fupload-0", "upload-0", "fused.npy", "fused.webp", "part-fused.jpg"):
        assert client.ask("GET", f"/jobs/{job['id']}/{name}")[0] == 404
    assert plain_name(HOSTILE) == "<img src=x onerror=alert(1)>.png"
    assert plain_name("") == plain_name("a/") == "a file without a name"
    assert Upload(Path("x"), "...").stem == "picture"


# What it makes


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ({}, {"register": "auto"}),
        ({"register": "yes", "keep_size": "yes"}, {"register": "auto", "keep_size": True}),
        ({"register": "no", "keep_size": "yes"}, {"register": False}),
    ],
    ids=["aligned", "whole", "as-they-are"],
)
def test_a_stack_is_fused_as_the_library_does(client, rng, options, parameters):
    sources = [*stack(rng), stack(rng)[0]]
    files = [(f"{number}.png", png(picture)) for number, picture in enumerate(sources)]
    job = client.do("fuse", *files, **options)
    expected = MultiFocusFusion(**parameters).fuse(sources)
    shown = job["result"]
    assert np.array_equal(client.result(job), expected.image)
    for before, source, reported in zip(shown["before"], sources, expected.sources, strict=True):
        seen = align(Picture(source), reported.matrix, expected.box).pixels
        assert np.array_equal(client.picture(job, before["view"]), seen)
    assert np.array_equal(client.picture(job, shown["map"]["file"]), expected.decision)  # numbers in a palette
    assert [source["share"] for source in shown["shares"]] == [source.share for source in expected.sources]
    assert [source["note"] for source in shown["shares"]] == [source.note for source in expected.sources]
    height, width = expected.image.shape[:2]
    assert (shown["result"]["width"], shown["result"]["height"]) == (width, height)
    assert shown["source"] == {"width": 56, "height": 40}


def test_what_was_done_to_the_sources_is_told(client, rng, monkeypatch):
    near, far = stack(rng)
    matrix = np.array([[1, 0, 2], [0, 1, -1], [0, 0, 1.0]])

    def fuse(self, images):
        done = [
            FusedSource(0.25, False, 0.0, np.eye(3), 1.0, (1.0, 1.0), "could not be aligned: nothing fits"),
            FusedSource(0.75, True, 2.25, matrix, 1.0, (0.5, 0.9)),
        ]
        decision = np.zeros((30, 50), np.uint8)
        return Fusion(near[5:35, 4:54], decision, decision.astype(np.float32), 0, (5, 4, 35, 54), done)

    monkeypatch.setattr(MultiFocusFusion, "fuse", fuse)
    job = client.do("fuse", ("near.png", png(near)), ("far.png", png(far)))
    shown = job["result"]
    reported = [(source["share"], source["moved"], source["note"]) for source in shown["shares"]]
    assert reported == [(0.25, 0, "could not be aligned: nothing fits"), (0.75, 2.25, "")]
    views = [client.picture(job, before["view"]) for before in shown["before"]]
    assert np.array_equal(views[0], near[5:35, 4:54])
    assert np.array_equal(views[1], far[4:34, 6:56])  # two to the right and one up, as the matrix says


@pytest.mark.parametrize("perspective", [0, 2e-4])
def test_a_source_is_shown_where_the_result_sees_it(perspective):
    def scene(x, y):
        return 128 + 60 * np.sin(x / 9 + 0.3) * np.cos(y / 7) + 40 * np.sin((x + y) / 15)

    y, x = np.mgrid[:90, :120].astype(float)
    matrix = np.array([[1.02, 0.01, -1.4], [-0.015, 0.985, 2.3], [perspective, 0, 1]])
    box = (10, 12, 80, 108)
    moved = np.einsum("ij,jyx->iyx", matrix, np.stack([x, y, np.ones_like(x)]))
    expected = scene(*(moved[:2] / moved[2]))[10:80, 12:108]
    source = np.rint(scene(x, y)).astype(np.uint8)
    for pixels in (source, source.astype(np.uint16) << 8, np.dstack([source] * 3)):
        seen = align(Picture(pixels), matrix, box).pixels.astype(float)
        expected_here = expected if pixels.ndim == 2 else expected[..., None]
        assert np.abs(seen - expected_here)[2:-2, 2:-2].max() < 2.5  # a shift by half a pixel would be off by 5


@pytest.mark.parametrize(("shape", "make"), [((40, 56), png), ((40, 56, 3), tiff)], ids=["grey", "colour"])
def test_sixteen_bits_are_kept_and_shown_as_eight(client, rng, shape, make):
    sources = stack(rng, shape, np.uint16)
    job = client.do("fuse", *[("scan.bin", make(picture)) for picture in sources])  # what is inside counts
    shown = job["result"]["result"]
    fused = client.result(job)
    assert (shown["format"], fused.dtype, shown["bits"]) == ("TIFF", np.uint16, 16)
    assert np.array_equal(fused, MultiFocusFusion().fuse(sources).image)
    assert np.array_equal(fused, client.result(job, "PNG"))
    assert client.result(job, "JPEG").dtype == np.uint8
    assert np.array_equal(client.picture(job, shown["view"]), (fused >> 8).astype(np.uint8))


FORMATS = {"JPEG": ("image/jpeg", b"\xff\xd8"), "PNG": ("image/png", b"\x89PNG"), "TIFF": ("image/tiff", b"II")}


@pytest.mark.parametrize("wanted", FORMATS)
def test_the_result_can_be_had_in_every_format(client, rng, wanted, monkeypatch):
    sources = [gaussian_filter(source, (1, 1, 0)) for source in stack(rng)]
    job = client.do("fuse", *[("a.png", png(picture)) for picture in sources], format=wanted)
    shown = job["result"]["result"]
    kept = np.load(next(client.folder.rglob("fused.npy")))
    assert shown["format"] == wanted
    assert [entry["format"] for entry in shown["formats"]] == list(FORMATS)
    assert [entry["name"] for entry in shown["formats"]] == ["a-fused.jpg", "a-fused.png", "a-fused.tif"]
    monkeypatch.setattr(MultiFocusFusion, "fuse", lambda self, images: pytest.fail("it was fused again"))
    for entry in shown["formats"]:
        assert not (next(client.folder.rglob("sent")).parent / entry["file"]).exists()  # it is made when it is wanted
        status, headers, _ = client.ask("HEAD", f"/jobs/{job['id']}/{entry['file']}")
        assert status == 200
        _, _, content = client.ask("GET", f"/jobs/{job['id']}/{entry['file']}")
        kind, mark = FORMATS[entry["format"]]
        assert (headers["content-type"], content[: len(mark)]) == (kind, mark)
        assert int(headers["content-length"]) == len(content)
        error = np.abs(read(content).astype(float) - kept).mean()
        assert error < 12 if entry["format"] == "JPEG" else error == 0


def test_an_unknown_format_is_refused(client, rng):
    files = [("a.png", png(picture)) for picture in stack(rng)]
    assert client.message("fuse", *files, format="GIF") == "Expected a format of JPEG, PNG, TIFF, got 'GIF'."


@pytest.fixture
def small_client(tmp_path):
    with serving(tmp_path / "jobs", display=DisplaySize(most_pixels=500, tile=16)) as client:
        yield client


def test_tiles_are_the_pixels_themselves(small_client, rng):
    client, sources = small_client, stack(rng)
    job = client.do("fuse", *[("a.png", png(picture)) for picture in sources], register="no")
    shown = job["result"]
    expected = client.result(job)
    for entry, pixels in ((shown["result"], expected), *zip(shown["before"], sources, strict=True)):
        assert entry["tile"] == 16
        rows = [
            np.hstack([client.picture(job, f"tiles/{entry['picture']}/{row}/{column}") for column in range(4)])
            for row in range(3)
        ]
        assert np.array_equal(np.vstack(rows), pixels)
    for place in ("fused/3/0", "fused/0/4", "fused/-1/0", "fused/0/x", "source-2/0/0", "map/0/0", "../sent/0/0"):
        assert client.ask("GET", f"/jobs/{job['id']}/tiles/{place}")[0] == 404, place


def test_few_sources_are_kept_as_pixels(client, rng):
    files = [(f"{number}.png", png(stack(rng)[0])) for number in range(4)]
    job = client.do("fuse", *files, register="no")
    for number in (0, 1, 2, 3, 0):
        assert client.ask("GET", f"/jobs/{job['id']}/tiles/source-{number}/0/0")[0] == 200
        kept = sorted(file.stem for file in client.folder.rglob("source-*.npy"))
        assert f"source-{number}" in kept
        assert len(kept) <= _pictures.MOST_LOADED


def test_a_picture_that_cannot_be_written_is_told(client, rng, monkeypatch):
    job = client.do("fuse", *[("a.png", png(picture)) for picture in stack(rng)])

    def fail(part, path):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", fail)
    status, reported = client.json("GET", f"/jobs/{job['id']}/fused.tif")
    assert (status, reported["message"]) == (507, "The file could not be written (the disk is full).")
    monkeypatch.undo()
    assert client.ask("GET", f"/jobs/{job['id']}/fused.tif")[0] == 200


@pytest.mark.parametrize("scale", [2, 4])
def test_a_picture_is_enlarged_as_the_library_does(client, rng, scale):
    small = rng.integers(0, 255, (14, 18, 3), np.uint8)
    job = client.do("enlarge", ("a.b.png", png(small)), scale=str(scale))
    shown = job["result"]
    assert (shown["result"]["formats"][1]["name"], shown["note"]) == (f"a.b-x{scale}.png", "")
    large = client.result(job)
    assert np.array_equal(large, SuperResolution.pretrained(scale).upscale(small))
    assert np.array_equal(client.picture(job, shown["before"][0]["view"]), imresize(small, scale))


def test_large_results_are_shown_smaller_and_kept_whole(small_client, rng):
    client, sources = small_client, stack(rng)
    job = client.do("fuse", *[("a.png", png(picture)) for picture in sources])
    shown = job["result"]
    assert client.result(job).shape == (40, 56, 3)
    for view in (shown["result"]["view"], shown["before"][1]["view"], shown["map"]["view"]):
        assert 100 < np.prod(client.picture(job, view).shape[:2]) <= 500
    assert client.picture(job, shown["map"]["file"]).shape == (40, 56)


def test_a_model_is_explored_apart(client, rng, tmp_path):
    learner = coupledict.CoupledDictionaryLearning(16, n_nonzero_coefs=2, max_iter=1, predictor="ridge", random_state=0)
    learner.fit([rng.standard_normal((40, 16)), rng.standard_normal((40, 5))])
    learner.save(tmp_path / "model.safetensors")
    name = "<script>alert(1)</script>.safetensors"
    job = client.do("explore", (name.replace("/", "&#47;"), (tmp_path / "model.safetensors").read_bytes()))
    assert (job["result"]["atoms"], job["result"]["views"]) == (16, 2)
    status, headers, page = client.ask("GET", f"/jobs/{job['id']}/{job['result']['page']}")
    assert status == 200
    policy = headers["content-security-policy"].split("; ")
    assert {"sandbox allow-scripts", "default-src 'none'", "frame-ancestors 'self'"} <= set(policy)
    assert headers.get_all("content-security-policy") == ["; ".join(policy)]
    assert b"<script>alert" not in page
    assert b"&lt;script&gt;alert" in page


@pytest.mark.parametrize("content", [b"", b"no model", b"\xff" * 100, b"\x08\0\0\0\0\0\0\0{}      "])
def test_a_bad_model_is_told_in_a_sentence_with_its_own_name(stranger, content):
    message = stranger.message("explore", ("my.safetensors", content))
    assert "my.safetensors" in message
    assert str(stranger.folder) not in message


@pytest.mark.parametrize("where", ["images/models/super_resolution_x2", "audio/models/bandwidth"])
def test_models_of_tasks_are_explored_too(tmp_path, where):
    with resources.as_file(resources.files("coupledict") / f"{where}.safetensors") as path:
        content = path.read_bytes()
    with serving(tmp_path / "jobs", megabytes=2) as client:
        job = client.do("explore", ("model.safetensors", content))
    assert (job["state"], job["result"]["views"]) == ("done", 2)


def test_there_are_pictures_for_those_who_have_none(client, tmp_path):
    job = client.do("explore", sample="yes")
    assert job["result"]["atoms"] == MultiFocusFusion().n_components
    assert client.ask("GET", f"/jobs/{job['id']}/sample")[0] == 404  # for the page alone
    job = client.do("enlarge", sample="yes", scale="3")
    assert job["result"]["result"]["formats"][1]["name"] == "tissue-x3.png"
    assert "reduced to half" in job["result"]["note"]
    near, far = (read(upload.path.read_bytes()).astype(float) for upload in _samples.focus_stack(tmp_path))
    assert near.shape == far.shape

    def detail(picture, rows, columns):
        return np.abs(np.diff(picture[rows, columns], axis=1)).mean()

    spoon, rim = (slice(300, 400), slice(300, 500)), (slice(0, 60), slice(150, 450))
    assert detail(near, *spoon) > 2 * detail(far, *spoon)
    assert detail(far, *rim) > 2 * detail(near, *rim)


# One job at a time


@pytest.fixture
def gate(monkeypatch):
    """Make enlarging wait at a gate; return it, and a list of the jobs that are at work."""
    gate, inside = threading.Event(), []

    def wait(job, form, limits):
        inside.append(job)
        (job.folder / "out.png").write_bytes(b"x" * 100)
        while not gate.wait(0.005):
            job.report("Waiting at the gate", 0.5)
        inside.remove(job)
        return {}

    monkeypatch.setitem(_tasks.TASKS, "enlarge", wait)
    return gate, inside


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize(
    ("task", "options", "phases"),
    [
        ("fuse", {}, {"Fusing the pictures"}),
        ("enlarge", {"scale": "2"}, {"Enlarging the picture"}),
    ],
)
def test_a_task_tells_how_far_it_is_and_stops_where_it_is_cancelled(tmp_path, rng, task, options, phases, cancelled):
    pictures = stack(rng)[: 2 if task == "fuse" else 1]
    uploads = [Upload(tmp_path / f"{number}.png", "a.png") for number in range(len(pictures))]
    for upload, picture in zip(uploads, pictures, strict=True):
        upload.path.write_bytes(png(picture))
    (tmp_path / "job").mkdir()
    reported = []

    class Watched(_jobs.Job):
        def watch(self, phases):
            callback = super().watch(phases)

            def tell(progress):
                if cancelled:
                    self.cancel()
                stop = callback(progress)
                reported.append((self.phase, self.share))
                return stop

            return tell

    job = Watched(lambda job: _tasks.TASKS[task](job, Form(options, uploads), Limits(1, 1)), tmp_path / "job", {})
    job.run()
    if cancelled:
        assert (job.state, len(reported)) == ("cancelled", 1)
    else:
        assert job.state == "done"
        assert {phase for phase, _ in reported} == phases
        shares = [share for _, share in reported]
        assert shares == sorted(shares)
        assert shares[-1] == _tasks.WORKED  # writing follows


FILE = ("a.png", b"anything")


def test_jobs_wait_for_each_other_and_can_be_cancelled(client, gate):
    gate, inside = gate
    jobs = [client.begin("enlarge", FILE)[1] for _ in range(4)]
    reported = client.follow(jobs[0], "running")
    while not reported["phase"]:
        reported = client.follow(jobs[0], "running")
    assert (reported["phase"], reported["share"]) == ("Waiting at the gate", 0.5)
    assert [client.follow(job, "waiting")["before"] for job in jobs[1:]] == [1, 2, 3]
    assert len(inside) == 1
    assert client.json("DELETE", f"/jobs/{jobs[1]['id']}")[1]["state"] == "cancelled"  # it was waiting
    client.json("DELETE", f"/jobs/{jobs[0]['id']}")
    assert client.follow(jobs[0])["state"] == "cancelled"
    assert client.follow(jobs[2], "running")["id"] == jobs[2]["id"]
    assert client.ask("GET", f"/jobs/{jobs[2]['id']}/out.png")[0] == 404  # not before it is done
    gate.set()
    assert [client.follow(job)["state"] for job in jobs] == ["cancelled", "cancelled", "done", "done"]
    assert client.json("DELETE", f"/jobs/{jobs[2]['id']}")[1]["state"] == "done"  # too late
    assert client.ask("GET", f"/jobs/{jobs[2]['id']}/out.png")[0] == 200
    left = {file.name for file in client.folder.rglob("*") if file.is_file()}
    assert left == {"out.png"}  # what was sent is gone


def test_the_line_has_an_end(client, gate):
    client.follow(client.begin("enlarge", FILE)[1], "running")
    for _ in range(_jobs.MOST_WAITING):
        assert client.begin("enlarge", FILE)[0] == 202
    status, reported = client.begin("enlarge", FILE)
    assert (status, reported["message"][:18]) == (429, "Expected at most 8")
    assert len(list(client.folder.iterdir())) == 1 + _jobs.MOST_WAITING


def test_files_of_waiting_jobs_are_counted(tmp_path, gate):
    large = ("a.png", bytes(7_000_000))  # of 8 MB that one job may have, and 16 MB that all of them may
    with serving(tmp_path / "jobs", megabytes=8) as client:
        client.follow(client.begin("enlarge", large)[1], "running")
        second = client.begin("enlarge", large)[1]
        assert second["state"] == "waiting"
        status, reported = client.begin("enlarge", large)  # more than sockets hold, and yet the answer is heard
        assert (status, reported["message"][:56]) == (429, "Expected the files of waiting jobs to have at most 16 MB")
        assert client.begin("enlarge", FILE)[0] == 202
        client.json("DELETE", f"/jobs/{second['id']}")
        assert client.begin("enlarge", large)[0] == 202


# Somebody waits for it


def job_of(client, reported):
    """Return a job without asking for it: a request would tell that somebody waits for it."""
    return client.jobs.find(reported["id"])


def test_who_watches_is_told_of_every_state(client, gate):
    gate, _ = gate
    jobs = [client.begin("enlarge", FILE)[1] for _ in range(2)]
    with client.watching(jobs[1]) as line:
        assert line() == {"id": jobs[1]["id"], "state": "waiting", "before": 1}
        gate.set()
        reported = [line()]
        while reported[-1] is not None:
            reported.append(line())
    assert reported[-2]["state"] == "done"
    assert {state["state"] for state in reported[:-1]} <= {"waiting", "running", "done"}
    with client.watching(jobs[0]) as line:  # after its end
        assert (line()["state"], line()) == ("done", None)
    assert client.ask("GET", "/jobs/unknown/watch")[0] == 404


def test_running_work_tells_its_share_and_its_time(client, gate):
    job = client.begin("enlarge", FILE)[1]
    with client.watching(job) as line:
        reported = line()
        while reported["state"] != "running" or not reported["share"]:
            reported = line()
        assert reported["share"] == 0.5
        later = line()
        assert later["elapsed"] > reported["elapsed"] > 0


def test_a_job_ends_when_nobody_watches_it_any_more(client, gate):
    watched, left = (client.begin("enlarge", FILE)[1] for _ in range(2))
    with client.watching(watched) as line:
        while line()["state"] != "running":
            pass
        client.jobs._grace = 0.01
        client.json("GET", f"/jobs/{left['id']}")  # from now on, nobody asks for it
        wait_until(lambda: job_of(client, left).state == "cancelled", "the job that nobody watched had ended")
        assert job_of(client, watched).state == "running"
    wait_until(lambda: job_of(client, watched).state == "cancelled", "the other one had ended, too")
    assert list(client.folder.iterdir()) == []


def test_a_page_that_comes_back_finds_its_job(client, gate):
    gate, _ = gate
    reported = client.begin("enlarge", FILE)[1]
    job = job_of(client, reported)
    assert job.id in client.jobs._leaving
    for _ in range(2):
        with client.watching(reported) as line:
            wait_until(lambda: job.watchers == 1, "it was watched")
            assert job.id not in client.jobs._leaving
            while line()["state"] != "running":
                pass
        wait_until(lambda: job.watchers == 0, "it was left")
        assert job.id in client.jobs._leaving
    leaving = client.jobs._leaving[job.id]
    assert client.json("GET", f"/jobs/{job.id}")[1]["state"] == "running"
    assert leaving.cancelled()  # a question is as good as a look
    gate.set()
    assert client.follow(reported)["state"] == "done"


def test_a_grace_period_that_ends_after_the_job_changes_nothing(client, gate):
    gate, _ = gate
    gate.set()
    reported = client.do("enlarge", FILE)
    client.jobs._leave(job_of(client, reported))
    assert client.json("GET", f"/jobs/{reported['id']}")[1]["state"] == "done"


def test_old_results_make_room(client, gate):
    gate[0].set()
    done = [client.do("enlarge", FILE) for _ in range(_jobs.MOST_KEPT + 2)]
    known = [client.json("GET", f"/jobs/{job['id']}")[0] for job in done]
    assert known == [404, 404] + [200] * _jobs.MOST_KEPT
    assert len(list(client.folder.iterdir())) == _jobs.MOST_KEPT
    status, reported = client.json("GET", f"/jobs/{done[0]['id']}/out.png")
    assert (status, reported["message"]) == (404, "This result is no longer available; run the task again.")


@pytest.mark.parametrize(("kept_bytes", "n_kept"), [(250, 2), (1, 1)])  # the newest stays, however large
def test_large_results_make_room(tmp_path, gate, kept_bytes, n_kept):
    gate[0].set()
    with serving(tmp_path / "jobs", kept_bytes=kept_bytes) as client:
        done = [client.do("enlarge", FILE) for _ in range(4)]
        wait_until(lambda: len(list(client.folder.iterdir())) == n_kept, "there was room")
        found = [client.ask("GET", f"/jobs/{job['id']}/out.png")[0] for job in done]
        assert found == [404] * (4 - n_kept) + [200] * n_kept


def test_a_fault_of_ours_is_told_as_such(client, monkeypatch, capfd):
    def fail(job, form, limits):
        raise RuntimeError("secret details")

    monkeypatch.setitem(_tasks.TASKS, "enlarge", fail)
    message = client.message("enlarge", FILE)
    assert message == "This is a fault in coupledict (RuntimeError); the terminal shows the details."
    assert "secret details" in capfd.readouterr().err

    def run_out(job, form, limits):
        raise MemoryError

    monkeypatch.setitem(_tasks.TASKS, "enlarge", run_out)
    assert client.message("enlarge", FILE) == "There is not enough memory for this; try smaller files."
    assert list(client.folder.iterdir()) == []


@pytest.mark.parametrize("first", ["cancel", "run"])
def test_a_job_that_is_cancelled_as_it_begins(tmp_path, first):
    """It either never begins, and its folder goes, or it runs and hears of it; never both."""
    begun = threading.Event()

    def work(job):
        begun.set()
        job.report("working")
        return {}

    job = Job(work, tmp_path / "job", {})
    job.folder.mkdir()
    if first == "cancel":
        job.cancel()
        job.run()
        assert not begun.is_set()
    else:
        with job._beginning:  # the moment between the two
            running = threading.Thread(target=job.run)
            running.start()
            job._stop.set()
        running.join(60)
        assert not begun.is_set(), "it looks whether anybody waits once it may begin"
        job.cancel()
    assert job.state == "cancelled"
    assert job.ended.is_set()
    assert not job.folder.exists()
