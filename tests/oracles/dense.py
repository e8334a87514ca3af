"""Brute force: one dense Gaussian over all samples and all latents. Shares no code with the package."""

import numpy as np


def levels_of(column):
    """(codes, names) of one column of labels; None is a level of its own for its sample."""
    names, codes = [], []
    for i, label in enumerate(column):
        key = ("alone", i) if label is None else ("shared", label)
        if key not in names:
            names.append(key)
        codes.append(names.index(key))
    return np.array(codes), names


class DenseModel:
    """The joint Gaussian of samples M (n d) and latents Z, built with Kronecker products."""

    def __init__(self, mean, loadings, noise, columns):
        n, d = len(columns[0]), len(mean)
        self.mean, self.n, self.d = mean, n, d
        self.names, design = [], []
        self.spans, start = [], 0
        for W, column in zip(loadings, columns):
            codes, names = levels_of(column)
            indicator = np.zeros((n, len(names)))
            indicator[np.arange(n), codes] = 1.0
            design.append(np.kron(indicator, W))
            self.names.append(names)
            self.spans.append([slice(start + j * W.shape[1], start + (j + 1) * W.shape[1]) for j in range(len(names))])
            start += len(names) * W.shape[1]
        self.G = np.concatenate(design, axis=1)
        self.noise = np.kron(np.eye(n), noise)
        self.covariance = self.G @ self.G.T + self.noise

    def log_likelihood(self, X):
        r = (X - self.mean).reshape(-1)
        sign, logdet = np.linalg.slogdet(self.covariance)
        assert sign > 0
        return -0.5 * (r @ np.linalg.solve(self.covariance, r) + logdet + len(r) * np.log(2 * np.pi))

    def posterior(self, X):
        """Mean and covariance of all latents."""
        r = (X - self.mean).reshape(-1)
        gain = np.linalg.solve(self.covariance, self.G).T
        return gain @ r, np.eye(self.G.shape[1]) - gain @ self.G

    def moments(self, X):
        """R = sum_i <z_i z_i'>, T = sum_i <z_i> m_i' with z_i = [z^0, z^1, ..., 1]."""
        z, cov = self.posterior(X)
        widths = [spans[0].stop - spans[0].start for spans in self.spans]
        R, T = np.zeros((sum(widths) + 1,) * 2), np.zeros((sum(widths) + 1, self.d))
        for i in range(self.n):
            rows = np.concatenate([self._rows(k, i) for k in range(len(self.spans))])
            mean = np.append(z[rows], 1.0)
            R += np.outer(mean, mean)
            R[:-1, :-1] += cov[np.ix_(rows, rows)]
            T += np.outer(mean, X[i])
        return R, T

    def _rows(self, k, i):
        """Latent rows of factor k that sample i carries, read off the design matrix."""
        block = self.G[i * self.d : (i + 1) * self.d]
        for span in self.spans[k]:
            if np.any(block[:, span]):
                return np.arange(span.start, span.stop)
        raise AssertionError
