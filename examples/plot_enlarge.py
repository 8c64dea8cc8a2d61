"""
Enlarge a photograph
====================

Dictionaries of small and large patches, learned from other photographs, enlarge a
photograph threefold. The small photograph is made from a large one, so the truth is
known. The pretrained model, ``SuperResolution.pretrained(3)``, has seen this
photograph, so a new one is learned here.
"""

import time

import matplotlib.pyplot as plt
from skimage import data

from coupledict.images import SuperResolution, imresize
from coupledict.images.metrics import psnr

SCALE = 3

# %%
# Learn from others, enlarge this one
# -----------------------------------
# ``"coupled"`` is the paper's method: code the small patch, and combine the partners of
# its atoms into the large one. ``"anchored"`` instead uses one linear map from small to
# large patches per atom. Fewer samples and atoms than the defaults keep this fast.

large = data.chelsea()[15:255, 60:390]
small = imresize(large, 1 / SCALE)
results = {
    "pixels": small.repeat(SCALE, axis=0).repeat(SCALE, axis=1),
    "bicubic": imresize(small, SCALE),
}
others = [data.astronaut(), data.coffee(), data.camera(), data.rocket()]
for method in ("coupled", "anchored"):
    model = SuperResolution(
        SCALE,
        method=method,
        n_components=256,
        max_samples=60_000,
        n_jobs=2,
        random_state=0,
    )
    model.fit(others)
    began = time.perf_counter()
    results[method] = model.upscale(small)
    seconds = time.perf_counter() - began
    quality = psnr(large, results[method], crop=SCALE)
    print(f"{method}: {1e3 * seconds:.0f} ms, PSNR {quality:.2f} dB")
print(f"bicubic: PSNR {psnr(large, results['bicubic'], crop=SCALE):.2f} dB")

# %%
# A closer look
# -------------

panels = results | {"truth": large}
figure, axes = plt.subplots(1, len(panels), figsize=(16, 3.6), layout="constrained")
for axis, (title, panel) in zip(axes, panels.items(), strict=True):
    axis.imshow(panel[60:190, 20:180])
    score = "" if panel is large else f"\nPSNR {psnr(large, panel, crop=SCALE):.2f} dB"
    axis.set_title(title + score)
    axis.set_axis_off()
plt.show()
