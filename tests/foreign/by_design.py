"""Tests of scikit-learn that fail against coupledict by design: the reason, how they fail, and their names.

In a name, ``*`` stands for anything. How a test fails is part of the list: a test that needs an algorithm which is not
offered must fail by that, not by a wrong number before.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from sklearn_names import NotOfferedError

#: The version whose tests the list is about, and digests of these tests.
SCIKIT_LEARN = "1.9.1"
DIGESTS = {
    "sklearn.linear_model.tests.test_omp": "646d37753c722469",
    "sklearn.decomposition.tests.test_dict_learning": "801866d415190a02",
}

NO_RAISE = pytest.fail.Exception  # what pytest.raises and pytest.warns raise if nothing came


@dataclass(frozen=True)
class Failure:
    """Tests that fail for one reason, by one kind of exception whose message has a match for `match`."""

    reason: str
    raises: type[BaseException]
    match: str
    tests: tuple[str, ...]


FAILURES = (
    Failure(
        "Least angle regression and thresholding are not offered: OMP, OLS and the lasso are.",
        NotOfferedError,
        "algorithm='(lars|threshold)'",
        (
            "test_sparse_encode_shapes_omp",
            "test_sparse_encode_shapes",
            "test_sparse_encode_input",
            "test_sparse_encode_positivity[*-threshold]",
            "test_sparse_encode_unavailable_positivity[lars]",
            "test_sparse_encode_dtype_match[*-lars]",
            "test_sparse_encode_dtype_match[*-threshold]",
            "test_sparse_encode_numerical_consistency[lars]",
            "test_sparse_encode_numerical_consistency[threshold]",
            "test_sparse_coder_dtype_match[*-lars]",
            "test_sparse_coder_dtype_match[*-threshold]",
            "test_dict_learning_positivity[*-threshold]",
            "test_dict_learning_lars_code_positivity",
            "test_dict_learning_nonzero_coefs",
            "test_dictionary_learning_dtype_match[*-lars-lars]",
            "test_dictionary_learning_dtype_match[*-lars-cd]",
            "test_dictionary_learning_dtype_match[*-threshold-*]",
            "test_minibatch_dictionary_learning_positivity[*-threshold]",
            "test_minibatch_dictionary_learning_dtype_match[*-lars-lars]",
            "test_minibatch_dictionary_learning_dtype_match[*-lars-cd]",
            "test_minibatch_dictionary_learning_dtype_match[*-threshold-*]",
        ),
    ),
    Failure(
        "Codes are not split by sign; the test codes by thresholding first.",
        NotOfferedError,
        "algorithm='threshold'",
        ("test_dict_learning_split",),
    ),
    Failure(
        "Regression that chooses the number of columns by cross-validation is not what this library is for.",
        NotOfferedError,
        "OrthogonalMatchingPursuitCV",
        ("test_omp_cv",),
    ),
    Failure(
        "A private function of scikit-learn; tests/learning/test_updates.py compares ours with its twin.",
        NotOfferedError,
        "_update_dict",
        ("test_update_dict",),
    ),
    Failure(
        "Private sums of scikit-learn; the number types of atoms and codes were found right before.",
        AttributeError,
        "no attribute '_A'",
        (
            "test_minibatch_dictionary_learning_dtype_match[*-lasso_lars-*]",
            "test_minibatch_dictionary_learning_dtype_match[*-lasso_cd-*]",
            "test_minibatch_dictionary_learning_dtype_match[*-omp-*]",
        ),
    ),
    Failure(
        "More nonzeros than atoms are no error: n_nonzero_coefs is an upper limit, and is clipped.",
        NO_RAISE,
        "DID NOT RAISE",
        ("test_bad_input[*]",),
    ),
    Failure(
        "A code that has no use for more atoms is complete: only a tol that is not reached gives a warning, a"
        " ConvergenceWarning.",
        NO_RAISE,
        "DID NOT WARN",
        ("test_unreachable_accuracy", "test_identical_regressors"),
    ),
    Failure(
        "The lasso is solved exactly, whatever the number of iterations.",
        NO_RAISE,
        "DID NOT WARN",
        ("test_max_iter",),
    ),
    Failure(
        "Codes that are not negative are offered with every algorithm, not refused with some.",
        NO_RAISE,
        "DID NOT RAISE",
        (
            "test_sparse_encode_unavailable_positivity[omp]",
            "test_dict_learning_lars_positive_parameter",
            "test_dict_learning_online_lars_positive_parameter",
        ),
    ),
    Failure(
        "A fit makes at least one pass.",
        ValueError,
        "Expected max_iter to be at least 1, got 0",
        ("test_dict_learning_online_initialization",),
    ),
    Failure(
        "The error is a ValueError too, in words of our own.",
        AssertionError,
        "Regex pattern did not match",
        ("test_dict_learning_reconstruction", "test_sparse_encoder_feature_number_error"),
    ),
    Failure(
        "Names of features begin with the name of the class, which is OnlineDictionaryLearning here.",
        AssertionError,
        "onlinedictionarylearning0",
        ("test_get_feature_names_out[MiniBatchDictionaryLearning]",),
    ),
)
