"""The least that an installed wheel must do, with no test library at hand: run as a script."""

import numpy as np

import coupledict

rng = np.random.default_rng(0)
for level in coupledict.build_info()["simd_available"]:
    print(level, end=" ")
atoms = rng.standard_normal((20, 8))
X = rng.standard_normal((50, 2)) @ atoms[[3, 7]]
codes = coupledict.sparse_encode(X, atoms, n_nonzero_coefs=2)
assert np.allclose(codes @ atoms, X), "two atoms must explain what two atoms made"
learner = coupledict.CoupledDictionaryLearning(12, n_nonzero_coefs=2, random_state=0).fit([X, X[:, :3]])
assert learner.score([X, X[:, :3]]) > 0.9, "a dictionary must be learned"
print(coupledict.__version__, "works")
