"""
Recognise digits by a few atoms
===============================

Which atoms support which decision? Pictures and labels are two views of a sample that
share one sparse code. A picture is coded over the picture halves of the atoms alone;
their label halves, refitted, predict the digit. By default other parts take part in the
decision, which is more often right but depends on more than a few atoms. A ridge
classifier on the pixels is the rival.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifierCV
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

from coupledict.classification import CoupledClassifier, SparseRepresentationClassifier

# %%
# Four classifiers
# ----------------

X, y = load_digits(return_X_y=True)
train, test, y_train, y_test = train_test_split(
    X, y, test_size=0.3, stratify=y, random_state=0
)
classifiers = {
    "ridge on pixels": RidgeClassifierCV(np.logspace(-2, 4, 7)),
    "coupled dictionaries": CoupledClassifier(
        n_nonzero_coefs=4, head="codes+features", n_jobs=2, random_state=0
    ),
    "the same, with other parts": CoupledClassifier(n_jobs=2, random_state=0),
    "all training samples as atoms": SparseRepresentationClassifier(n_jobs=2),
}
for name, classifier in classifiers.items():
    began = time.perf_counter()
    classifier.fit(train, y_train)
    seconds = time.perf_counter() - began
    right = 100 * classifier.score(test, y_test)
    print(f"{name}: {right:.1f} % right, fitted in {1e3 * seconds:.0f} ms")
shares = classifiers["the same, with other parts"].head_shares_
print(
    "shares of the parts:",
    ", ".join(f"{part} {100 * share:.0f} %" for part, share in shares.items()),
)

# %%
# What a decision depends on
# --------------------------
# Test pictures, and the atoms of the first dictionary that explain them, the largest
# first. The last two were misclassified: their atoms show why.

N_SHOWN, N_ATOMS = 5, 4

model = classifiers["coupled dictionaries"]
wrong = np.flatnonzero(model.predict(test) != y_test)
shown = np.concatenate([np.arange(N_SHOWN - 2), wrong[:2]])
atoms, labels = model.learners_[0].components_
codes = model.encode(test[shown]).toarray()
said, sure = model.predict(test[shown]), model.predict_proba(test[shown]).max(axis=1)

figure, axes = plt.subplots(
    N_SHOWN, 1 + N_ATOMS, figsize=(7.5, 8.4), layout="constrained"
)
for row, sample in zip(range(N_SHOWN), shown, strict=True):
    right = said[row] == y_test[sample]
    titles = [
        (
            f"a {y_test[sample]}, read as {said[row]}\n({100 * sure[row]:.0f} % sure)",
            "black" if right else "crimson",
        )
    ]
    pictures = [test[sample]]
    for atom in np.argsort(-np.abs(codes[row]))[:N_ATOMS]:
        pictures.append(atoms[atom, :-1])  # without the constant coordinate
        titles.append(
            (f"{codes[row, atom]:+.2f} x\natom of a {labels[atom].argmax()}", "dimgray")
        )
    for axis, picture, (title, colour) in zip(axes[row], pictures, titles, strict=True):
        axis.imshow(picture.reshape(8, 8), cmap="gray_r")
        axis.set_title(title, fontsize=9, color=colour)
        axis.set(xticks=[], yticks=[])

# %%
# Confusion matrix
# ----------------

counts = confusion_matrix(y_test, model.predict(test))
figure, axis = plt.subplots(figsize=(5.6, 5.6), layout="constrained")
axis.imshow(np.where(np.eye(10, dtype=bool), 0, counts), cmap="Reds", vmin=0, vmax=8)
for truth, guess in np.argwhere(counts):
    axis.text(guess, truth, counts[truth, guess], ha="center", va="center")
axis.set(xlabel="recognised as", ylabel="truth", xticks=range(10), yticks=range(10))
axis.set_title(f"{100 * model.score(test, y_test):.1f} % of {len(test)} pictures right")
plt.show()
