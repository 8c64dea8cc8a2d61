import numpy as np
import pytest
from command import call as run
from command import refused
from PIL import Image
from scipy.ndimage import gaussian_filter
from skimage import data

from coupledict.images._files import read_image


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """Two pictures that are in focus in one half each, and the one that is in focus everywhere."""
    folder = tmp_path_factory.mktemp("stack")
    sharp = data.astronaut()[:160, 130:330]
    soft = np.dstack([gaussian_filter(sharp[..., c].astype(float), 2.0) for c in range(3)]).astype(np.uint8)
    left, right = soft.copy(), soft.copy()
    left[:, :100], right[:, 100:] = sharp[:, :100], sharp[:, 100:]
    for name, pixels in (("sharp", sharp), ("left", left), ("right", right)):
        Image.fromarray(pixels).save(folder / f"{name}.png")
    return folder


def test_a_stack_is_fused_into_a_sharp_picture_with_a_map(stack, tmp_path):
    out_file, map_file = tmp_path / "out.png", tmp_path / "map.png"
    done = run("fuse", stack / "left.png", stack / "right.png", "-o", out_file, "--map", map_file)
    assert done.returncode == 0, done.stderr
    files = (stack / "sharp.png", stack / "left.png", out_file)
    sharp, left, out = (read_image(path).pixels.astype(float) for path in files)
    assert np.abs(out - sharp).mean() < 0.15 * np.abs(left - sharp).mean()
    decision = read_image(map_file).pixels
    assert set(np.unique(decision)) == {0, 255}
    assert np.mean(decision[:, :90] == 0) > 0.95
    assert np.mean(decision[:, 110:] == 255) > 0.95
    assert "of the pixels are from" in done.stdout
    assert f"Wrote {out_file} and {map_file}." in done.stdout


def test_bad_stacks_are_one_sentence_each_and_nothing_is_written(stack, tmp_path):
    out = tmp_path / "out.png"
    Image.fromarray(data.camera()[:160, :200]).save(tmp_path / "grey.png")
    Image.fromarray(data.astronaut()[:50, :50]).save(tmp_path / "small.png")
    (tmp_path / "broken.png").write_bytes((stack / "left.png").read_bytes()[:900])
    left = stack / "left.png"
    assert "two or more pictures" in refused(run("fuse", left, "-o", out))
    assert "200 x 160 pixels of 8-bit colour" in refused(run("fuse", left, tmp_path / "small.png", "-o", out))
    assert "8-bit grey" in refused(run("fuse", left, tmp_path / "grey.png", "-o", out))
    assert "damaged or no image" in refused(run("fuse", left, tmp_path / "broken.png", "-o", out))
    assert "found none" in refused(run("fuse", left, tmp_path / "nothing.png", "-o", out))
    assert "ending in" in refused(run("fuse", left, stack / "right.png", "-o", tmp_path / "out.xyz"))
    assert "make it first" in refused(run("fuse", left, stack / "right.png", "-o", tmp_path / "no" / "out.png"))
    assert "different files" in refused(run("fuse", left, stack / "right.png", "-o", out, "--map", out))
    assert not out.exists()


def test_an_existing_output_is_kept_unless_forced(stack, tmp_path):
    out = tmp_path / "out.png"
    out.write_text("mine")
    arguments = ("fuse", stack / "left.png", stack / "right.png", "-o", out)
    assert "--force" in refused(run(*arguments))
    assert out.read_text() == "mine"
    assert run(*arguments, "--force").returncode == 0
    assert read_image(out).pixels.shape == (160, 200, 3)


def test_a_picture_is_enlarged_and_keeps_its_alpha(tmp_path):
    small = data.coffee()[100:160, 200:290]
    alpha = np.tile(np.linspace(0, 255, 90).astype(np.uint8), (60, 1))
    Image.fromarray(np.dstack([small, alpha])).save(tmp_path / "small.png")
    done = run("upscale", tmp_path / "small.png", "-o", tmp_path / "large.png", "--scale", "3")
    assert done.returncode == 0, done.stderr
    assert "270 x 180 pixels" in done.stdout
    large = read_image(tmp_path / "large.png").pixels
    assert large.shape == (180, 270, 4)
    assert np.abs(large[90, ::27, 3].astype(int) - np.linspace(0, 255, 270)[::27]).max() < 4


def test_a_model_is_learned_kept_and_used_again(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name in ("coffee", "chelsea"):
        Image.fromarray(getattr(data, name)()[:260, :260]).save(folder / f"{name}.png")
    Image.fromarray(data.camera()[200:260, 200:260]).save(tmp_path / "small.png")
    model, first, second = tmp_path / "m.safetensors", tmp_path / "a.png", tmp_path / "b.png"
    done = run("upscale", tmp_path / "small.png", "-o", first, "--train", folder, "--coupled", "--save-model", model)
    assert done.returncode == 0, done.stderr
    done = run("upscale", tmp_path / "small.png", "-o", second, "--model", model)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(read_image(first).pixels, read_image(second).pixels)
    assert "--scale 2" in refused(
        run("upscale", tmp_path / "small.png", "-o", first, "--model", model, "--scale", "3", "--force")
    )


def test_bad_requests_to_enlarge_are_one_sentence_each(tmp_path):
    small, out = tmp_path / "small.png", tmp_path / "out.png"
    Image.fromarray(data.camera()[:40, :40]).save(small)
    (tmp_path / "fake.safetensors").write_text("not a model")
    (tmp_path / "empty").mkdir()
    assert "'--scale'" in refused(run("upscale", small, "-o", out, "--scale", "5"), code=2)
    assert "truncated" in refused(run("upscale", small, "-o", out, "--model", tmp_path / "fake.safetensors"))
    assert "found none" in refused(run("upscale", small, "-o", out, "--train", tmp_path / "empty"))
    assert "found none" in refused(run("upscale", small, "-o", out, "--train", tmp_path / "absent"))
    both = ("--train", tmp_path / "empty", "--model", tmp_path / "fake.safetensors")
    assert "got both" in refused(run("upscale", small, "-o", out, *both))
    assert "--train" in refused(run("upscale", small, "-o", out, "--save-model", tmp_path / "m"))
    assert "--train" in refused(run("upscale", small, "-o", out, "--coupled"))
    assert not out.exists()
