"""The server of the page: what it takes, what it makes, and one job at a time."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from serving import BOUNDARY, TOKEN, form, png, png_that_claims, read, serving, stack, tiff
from waiting import PATIENCE

import coupledict
from coupledict.images import MultiFocusFusion, SuperResolution, imresize
from coupledict.serve import _jobs, _samples, _tasks
from coupledict.serve._jobs import Job
from coupledict.serve._uploads import Form, Limits, Upload, plain_name


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
    status, told = stranger.json("POST", "/jobs/fuse", b"{}", {"Content-Type": "application/json"})
    assert (status, told["message"][:15]) == (415, "Expected a form")
    assert stranger.json("POST", "/jobs/fuse", b"x", {"Content-Type": "multipart/form-data"})[0] == 400
    assert stranger.begin("fuse")[0] == 400
    assert stranger.begin("fuse", *[("a.png", b"x")] * 65)[0] == 400
    assert list(stranger.folder.iterdir()) == []


def test_pixels_are_counted_before_they_are_decoded(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(_tasks, "read_image", lambda path: pytest.fail("it was decoded"))
    bomb = png_that_claims(12_000, 12_000)
    image = rng.integers(0, 255, (10, 12), np.uint8)
    with serving(tmp_path / "jobs", megapixels=0.0002) as client:
        for task, files in (("fuse", [("a.png", bomb)] * 2), ("enlarge", [("a.png", bomb)])):
            assert "Expected at most 0.0002 megapixels, but" in client.message(task, *files)
        larger = ("a.png", png_that_claims(60_000, 60_000))
        assert client.message("enlarge", larger) == "'a.png' claims to have more pixels than any picture that is read."
        many = [(name, make(image)) for name, make in (("a.png", png), ("b.tif", tiff))]
        assert "these 2 pictures have 0.0" in client.message("fuse", *many)
        assert "'a.png' enlarged would have 0.0" in client.message("enlarge", many[0], scale="2")


def test_a_tiff_that_claims_to_be_huge_is_not_decoded(stranger):
    content = bytearray(tiff(np.zeros((16, 16), np.uint8)))
    for tag in (256, 257):  # width and length, as 32-bit numbers
        place = content.index(struct.pack("<HHI", tag, 4, 1)) if struct.pack("<HHI", tag, 4, 1) in content else None
        place = place if place is not None else content.index(struct.pack("<HHI", tag, 3, 1))
        content[place : place + 12] = struct.pack("<HHII", tag, 4, 1, 50_000)
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
        (
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EOF\n",
            "expected a PNG, JPEG, TIFF, WebP, BMP or GIF file",
        ),
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


HOSTILE = "../../..\\x/<img src=x onerror=alert(1)>\u202e\x07.png"


def test_names_lead_nowhere(client, rng):
    left, right = (png(picture) for picture in stack(rng))
    job = client.do("fuse", ("..%2f/<b onclick=1>a&b;.png", left), ("../../../../etc/passwd", right))
    shown = job["result"]
    assert [source["label"] for source in shown["shares"]] == ["<b onclick=1>a&b;.png", "passwd"]  # text, never HTML
    assert shown["result"]["name"] == "b-onclick-1-a-b-fused.png"
    (folder,) = client.folder.iterdir()
    assert {file.name for file in folder.iterdir()} == {
        "fused.png", "source-0.png", "source-1.png", "map.png", "map-view.png",
    }  # fmt: skip
    for name in ("../x", "..%2f..%2fx", "%2e%2e", "..", ".", "upload-0", "", "/etc/passwd", "map.png/", "map.png%00"):
        assert client.ask("GET", f"/jobs/{job['id']}/{name}")[0] == 404
    assert plain_name(HOSTILE) == "<img src=x onerror=alert(1)>.png"
    assert plain_name("") == plain_name("a/") == "a file without a name"
    assert Upload(Path("x"), "...").stem == "picture"


# What it makes


@pytest.mark.parametrize("register", [False, True])
def test_a_stack_is_fused_as_the_library_does(client, rng, register):
    sources = [*stack(rng), stack(rng)[0]]
    files = [(f"{number}.png", png(picture)) for number, picture in enumerate(sources)]
    job = client.do("fuse", *files, register="yes" if register else "no")
    expected = MultiFocusFusion(register=register).fuse(sources)
    shown = job["result"]
    assert np.array_equal(client.picture(job, shown["result"]["file"]), expected.image)
    for number, source in enumerate(sources):
        assert np.array_equal(client.picture(job, shown["before"][number]["view"]), source)
    assert np.array_equal(client.picture(job, shown["map"]["file"]), expected.decision)  # numbers in a palette
    shares = [source["share"] for source in shown["shares"]]
    assert shares == [np.mean(expected.decision == number) for number in range(3)]
    assert (shown["result"]["width"], shown["result"]["height"]) == (56, 40)


@pytest.mark.parametrize(
    ("shape", "make", "suffix"), [((40, 56), png, ".png"), ((40, 56, 3), tiff, ".tif")], ids=["grey", "colour"]
)
def test_sixteen_bits_are_kept_and_shown_as_eight(client, rng, shape, make, suffix):
    sources = stack(rng, shape, np.uint16)
    job = client.do("fuse", *[("scan.bin", make(picture)) for picture in sources])  # what is inside counts
    shown = job["result"]["result"]
    fused = client.picture(job, shown["file"])
    assert shown["name"] == f"scan-fused{suffix}"
    assert (fused.dtype, shown["bits"]) == (np.uint16, 16)
    assert np.array_equal(fused, MultiFocusFusion().fuse(sources).image)
    assert np.array_equal(client.picture(job, shown["view"]), (fused >> 8).astype(np.uint8))


@pytest.mark.parametrize("scale", [2, 4])
def test_a_picture_is_enlarged_as_the_library_does(client, rng, scale):
    small = rng.integers(0, 255, (14, 18, 3), np.uint8)
    job = client.do("enlarge", ("a.b.png", png(small)), scale=str(scale))
    shown = job["result"]
    assert (shown["result"]["name"], shown["note"]) == (f"a.b-x{scale}.png", "")
    large = client.picture(job, shown["result"]["file"])
    assert np.array_equal(large, SuperResolution.pretrained(scale).upscale(small))
    assert np.array_equal(client.picture(job, shown["before"][0]["view"]), imresize(small, scale))


def test_large_results_are_shown_smaller_and_kept_whole(client, rng, monkeypatch):
    monkeypatch.setattr(_tasks, "MOST_SHOWN", 500)
    sources = stack(rng)
    job = client.do("fuse", *[("a.png", png(picture)) for picture in sources])
    shown = job["result"]
    assert client.picture(job, shown["result"]["file"]).shape == (40, 56, 3)
    for view in (shown["result"]["view"], shown["before"][1]["view"], shown["map"]["view"]):
        assert 100 < np.prod(client.picture(job, view).shape[:2]) <= 500
    assert client.picture(job, shown["map"]["file"]).shape == (40, 56)


def test_a_model_is_explored_apart(client, rng, tmp_path):
    learner = coupledict.CoupledDictionaryLearning(16, n_nonzero_coefs=2, max_iter=1, random_state=0)
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
    assert job["result"]["atoms"] == 256
    assert client.ask("GET", f"/jobs/{job['id']}/sample")[0] == 404  # for the page alone
    job = client.do("enlarge", sample="yes", scale="3")
    assert job["result"]["result"]["name"] == "motorcycle-x3.png"
    assert "made half as large" in job["result"]["note"]
    near, far = (read(upload.path.read_bytes()).astype(float) for upload in _samples.focus_stack(tmp_path))
    assert near.shape == far.shape

    def detail(picture, rows, columns):
        return np.abs(np.diff(picture[rows, columns], axis=1)).mean()

    wheel, shelf = (slice(240, 400), slice(130, 270)), (slice(20, 100), slice(520, 700))
    assert detail(near, *wheel) > 2 * detail(far, *wheel)
    assert detail(far, *shelf) > 2 * detail(near, *shelf)


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
        ("fuse", {"register": "yes"}, {"Aligning the pictures", "Comparing the pictures"}),
        ("enlarge", {"scale": "2"}, {"Enlarging the picture"}),
    ],
)
def test_a_task_tells_how_far_it_is_and_stops_where_it_is_cancelled(tmp_path, rng, task, options, phases, cancelled):
    pictures = stack(rng)[: 2 if task == "fuse" else 1]
    uploads = [Upload(tmp_path / f"{number}.png", "a.png") for number in range(len(pictures))]
    for upload, picture in zip(uploads, pictures, strict=True):
        upload.path.write_bytes(png(picture))
    (tmp_path / "job").mkdir()
    told = []

    class Watched(_jobs.Job):
        def watch(self, names):
            callback = super().watch(names)

            def tell(progress):
                if cancelled:
                    self.cancel()
                stop = callback(progress)
                told.append((self.phase, self.share))
                return stop

            return tell

    job = Watched(lambda job: _tasks.TASKS[task](job, Form(options, uploads), Limits(1, 1)), tmp_path / "job", {})
    job.run()
    if cancelled:
        assert (job.state, len(told)) == ("cancelled", 1)
    else:
        assert job.state == "done"
        assert {phase for phase, _ in told} == phases
        assert told[-1][1] == 1


FILE = ("a.png", b"anything")


def test_jobs_wait_for_each_other_and_can_be_cancelled(client, gate):
    gate, inside = gate
    jobs = [client.begin("enlarge", FILE)[1] for _ in range(4)]
    told = client.follow(jobs[0], "running")
    while not told["phase"]:
        told = client.follow(jobs[0], "running")
    assert (told["phase"], told["share"]) == ("Waiting at the gate", 0.5)
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
    status, told = client.begin("enlarge", FILE)
    assert (status, told["message"][:18]) == (429, "Expected at most 8")
    assert len(list(client.folder.iterdir())) == 1 + _jobs.MOST_WAITING


def test_old_results_make_room(client, gate, monkeypatch):
    gate[0].set()
    done = [client.do("enlarge", FILE) for _ in range(_jobs.MOST_KEPT + 2)]
    known = [client.json("GET", f"/jobs/{job['id']}")[0] for job in done]
    assert known == [404, 404] + [200] * _jobs.MOST_KEPT
    assert len(list(client.folder.iterdir())) == _jobs.MOST_KEPT
    status, told = client.json("GET", f"/jobs/{done[0]['id']}/out.png")
    assert (status, told["message"]) == (404, "This result is not kept any more; do it again.")
    monkeypatch.setattr(_jobs, "MOST_KEPT_BYTES", 250)
    last = [client.do("enlarge", FILE) for _ in range(2)]
    assert len(list(client.folder.iterdir())) == 2
    monkeypatch.setattr(_jobs, "MOST_KEPT_BYTES", 1)
    last = client.do("enlarge", FILE)
    client.follow(last)
    assert client.ask("GET", f"/jobs/{last['id']}/out.png")[0] == 200  # the newest stays, however large


def test_a_fault_of_ours_is_told_as_such(client, monkeypatch, capfd):
    def fail(job, form, limits):
        raise RuntimeError("secret details")

    monkeypatch.setitem(_tasks.TASKS, "enlarge", fail)
    message = client.message("enlarge", FILE)
    assert message == "Something went wrong that should not have (RuntimeError); the terminal says more."
    assert "secret details" in capfd.readouterr().err

    def run_out(job, form, limits):
        raise MemoryError

    monkeypatch.setitem(_tasks.TASKS, "enlarge", run_out)
    assert client.message("enlarge", FILE) == "There is not enough memory for this; try smaller pictures."
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
