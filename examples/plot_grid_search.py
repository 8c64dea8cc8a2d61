"""
Grid search over views
======================

How many atoms, and how many per sample? To scikit-learn a list of two views is a list
of two samples. :class:`coupledict.views.Views` wraps the list so that its length is the
number of samples, and ``train_test_split``, ``GridSearchCV`` and ``Pipeline`` split the
rows of all views at once.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from coupledict import CoupledDictionaryLearning
from coupledict.views import EachView, Views

# %%
# Views, split as one
# -------------------
# Two instruments observe the same samples: three of 20 sources in each, which leave a
# trace in both spectra. The second has other units and an offset. The search does not
# know the sources.

rng = np.random.default_rng(0)
n_samples, n_sources, n_active = 1500, 20, 3
active = rng.random((n_samples, n_sources)).argsort(axis=1) < n_active
sources = active * rng.uniform(0.5, 2, (n_samples, n_sources))
grid_points = np.linspace(0, 1, 40)


def spectra(n_lines):
    """Return the spectrum of each source: a few lines of random height."""
    centres, heights = rng.random((2, n_sources, n_lines))
    return np.einsum(
        "sl,slp->sp",
        heights,
        np.exp(-((grid_points - centres[..., None]) ** 2) / 0.001),
    )


first = sources @ spectra(3) + 0.05 * rng.standard_normal((n_samples, 40))
second = 100 + 1000 * (
    sources @ spectra(5) + 0.05 * rng.standard_normal((n_samples, 40))
)
views = Views([first, second])
train, test = train_test_split(views, test_size=0.3, random_state=0)
print(train, test, sep="\n")

# %%
# A pipeline, a custom score, a search
# ------------------------------------
# The score of a learner is the share of the energy that it explains. Here we want
# another one: how well the second view is predicted from the first.
# :class:`coupledict.views.EachView` gives each view its own scaler.


def predict_second(model, given):
    """Return the second view as the first predicts it, in its own units."""
    scaled = model.predict([given, None], view=1)
    return model[0].transformers_[1].inverse_transform(scaled)


def predicts_second(model, both, y=None):
    """Return the share of the variance of the second view that the first predicts."""
    given, wanted = both
    return 1 - np.sum((predict_second(model, given) - wanted) ** 2) / np.sum(
        (wanted - wanted.mean(axis=0)) ** 2
    )


model = make_pipeline(
    EachView(StandardScaler(with_mean=False)),
    CoupledDictionaryLearning(max_iter=20, random_state=0),
)
grid = {
    "coupleddictionarylearning__n_components": [10, 20, 40, 80],
    "coupleddictionarylearning__n_nonzero_coefs": [1, 2, 3, 4, 6],
}
search = GridSearchCV(model, grid, scoring=predicts_second, cv=3).fit(train)
best = {name.split("__")[1]: value for name, value in search.best_params_.items()}
print(f"best: {best}; held-out samples: {search.score(test):.3f}")

# %%
# What was found
# --------------
# The samples have 20 sources, three in each. The best parameters are close to these
# numbers.

sizes, limits = grid.values()
scores = search.cv_results_["mean_test_score"].reshape(len(sizes), len(limits))
figure, axis = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
shown = axis.imshow(scores, cmap="viridis", aspect="auto")
for (i, j), score in np.ndenumerate(scores):
    dark = score < (scores.min() + scores.max()) / 2
    axis.text(
        j,
        i,
        f"{score:.2f}",
        ha="center",
        va="center",
        color="white" if dark else "black",
    )
axis.set_xticks(range(len(limits)), limits)
axis.set_yticks(range(len(sizes)), sizes)
axis.set(xlabel="atoms per sample (T)", ylabel="atoms in the dictionary (K)")
figure.colorbar(
    shown, label="variance of the second view predicted\n(mean of three folds)"
)

# %%
# Held-out samples
# ----------------

given, wanted = test
found = predict_second(search.best_estimator_, given)
figure, axes = plt.subplots(
    2, 3, figsize=(12, 4.6), layout="constrained", sharex=True, sharey="row"
)
for sample, (above, below) in enumerate(axes.T):
    above.plot(grid_points, given[sample], color="0.5")
    below.plot(grid_points, wanted[sample], color="0.5", label="measured")
    below.plot(grid_points, found[sample], "--", color="C3", label="predicted")
    above.set_title(f"sample {sample + 1}")
axes[0, 0].set_ylabel("first view, given")
axes[1, 0].set_ylabel("second view")
axes[1, 0].legend(frameon=False)
plt.show()
