"""Expectations of quadratic statistics without drawing."""

import numpy as np


def columns_of_the_root(mean, covariances, codes):
    """Data sets (n, d) whose outer products add up to E[vec X vec X'] under the model.

    Quadratic statistics of these add up to their expectation, so no drawing is needed.
    """
    n = len(codes)
    Sigma = np.outer(np.tile(mean, n), np.tile(mean, n)) + np.kron(np.eye(n), covariances[-1])
    for k, B in enumerate(covariances[:-1]):
        same = codes[:, k, None] == codes[None, :, k]
        same &= (codes[:, k] >= 0)[:, None] | np.eye(n, dtype=bool)
        Sigma += np.kron(same, B)
    values, vectors = np.linalg.eigh(Sigma)
    return [(np.sqrt(max(v, 0.0)) * w).reshape(n, len(mean)) for v, w in zip(values, vectors.T)]
