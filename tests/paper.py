"""The paper's EM iteration typed in as printed, with its slips mended as noted. Shares no code with the package.

One loop per speaker, dense H, explicit inverses, no grouping. Samples are centred on a given mean, which the
paper leaves out: the mean is the loading of one more latent that is always 1 (z = [x, y, 1]).
"""

import numpy as np


def posterior(M, s, c, V, U, D):
    """Sigma, X-hat, and for every speaker L_s^-1, f_s, and its rows of H."""
    S, C = s.max() + 1, c.max() + 1
    Rx = U.shape[1]
    J = U.T @ D @ V
    f = np.stack([M[s == k].sum(axis=0) for k in range(S)])
    g = np.stack([M[c == k].sum(axis=0) for k in range(C)])
    L_inverse = [np.linalg.inv(np.sum(s == k) * V.T @ D @ V + np.eye(V.shape[1])) for k in range(S)]
    H = np.zeros((S * Rx, C * Rx))
    for k in range(S):
        for j in range(C):  # n_sc: how often channel c occurs for speaker s
            n_sc = np.sum((s == k) & (c == j))
            H[k * Rx : (k + 1) * Rx, j * Rx : (j + 1) * Rx] = n_sc * np.eye(Rx)
    y_tilde = np.stack([L_inverse[k] @ V.T @ D @ f[k] for k in range(S)])
    y_bar = np.stack([y_tilde[s[c == j]].sum(axis=0) for j in range(C)])
    M2_minus = np.zeros((C * Rx, C * Rx))
    for j in range(C):
        block = slice(j * Rx, (j + 1) * Rx)
        M2_minus[block, block] = np.sum(c == j) * U.T @ D @ U + np.eye(Rx)
    for k in range(S):
        H_s = H[k * Rx : (k + 1) * Rx]
        M2_minus -= H_s.T @ (J @ L_inverse[k] @ J.T) @ H_s
    Phi = np.concatenate([U.T @ D @ g[j] - J @ y_bar[j] for j in range(C)])
    Sigma = np.linalg.inv(M2_minus)
    return Sigma, Sigma @ Phi, L_inverse, f, g, H, J, y_tilde


def log_likelihood(M, s, c, V, U, D):
    """The paper's objective, with the constant it drops."""
    Sigma, X, L_inverse, f, _, _, _, y_tilde = posterior(M, s, c, V, U, D)
    N, d = M.shape
    total = -0.5 * np.sum((M @ D) * M) + 0.5 * N * np.linalg.slogdet(D)[1] - 0.5 * N * d * np.log(2 * np.pi)
    for k in range(len(f)):
        total -= -0.5 * y_tilde[k] @ np.linalg.inv(L_inverse[k]) @ y_tilde[k]
        total -= -0.5 * np.linalg.slogdet(L_inverse[k])[1]
    return total + 0.5 * X @ np.linalg.inv(Sigma) @ X + 0.5 * np.linalg.slogdet(Sigma)[1]


def e_step(M, s, c, V, U, D):
    """R and T for z = [x, y, 1], and the second moments of x and y averaged over their levels."""
    Sigma, X, L_inverse, f, g, H, J, _ = posterior(M, s, c, V, U, D)
    S, C, Rx, Ry = len(f), len(g), U.shape[1], V.shape[1]
    x = X.reshape(C, Rx)
    T_x = sum(np.outer(x[j], g[j]) for j in range(C))
    n_c, n_s = np.bincount(c), np.bincount(s)
    blocks = [Sigma[j * Rx : (j + 1) * Rx, j * Rx : (j + 1) * Rx] for j in range(C)]
    R_xx = sum(n_c[j] * (blocks[j] + np.outer(x[j], x[j])) for j in range(C))
    T_y, R_yx, R_yy = np.zeros((Ry, M.shape[1])), np.zeros((Ry, Rx)), np.zeros((Ry, Ry))
    x_mean = sum(x[j] * n_c[j] for j in range(C))
    y_mean, y_first, y_second = np.zeros(Ry), np.zeros(Ry), np.zeros((Ry, Ry))
    second = Sigma + np.outer(X, X)
    for k in range(S):
        L, VDf = L_inverse[k], V.T @ D @ f[k]
        H_s = H[k * Rx : (k + 1) * Rx]
        xbar = H_s @ X
        xx = H_s @ second @ H_s.T  # the double sum over the speaker's samples
        y = L @ (VDf - J.T @ xbar)
        T_y += np.outer(L @ VDf, f[k]) - np.outer(L @ J.T @ xbar, f[k])
        R_yx += L @ (np.outer(VDf, xbar) - J.T @ xx)
        # erratum 1: the third term has J', printed with J
        yy = np.outer(VDf, VDf) - np.outer(VDf, xbar) @ J - J.T @ np.outer(xbar, VDf) + J.T @ xx @ J
        yy = L + L @ yy @ L
        R_yy += n_s[k] * yy
        y_second += yy / S
        y_first += y / S
        y_mean += n_s[k] * y
    N = len(M)
    R = np.block(
        [
            [R_xx, R_yx.T, x_mean[:, None]],
            [R_yx, R_yy, y_mean[:, None]],
            [x_mean[None], y_mean[None], np.array([[N]])],
        ]
    )
    T = np.concatenate([T_x, T_y, M.sum(axis=0)[None]])
    x_second = sum(blocks[j] + np.outer(x[j], x[j]) for j in range(C)) / C
    return R, T, (x.mean(axis=0), x_second), (y_first, y_second)


def em_step(samples, s, c, mean, V, U, D):
    """One iteration: W' = R^-1 T, D^-1 = (S - W T) / N, and the loadings before minimum divergence."""
    M = samples - mean
    R, T, x_moments, y_moments = e_step(M, s, c, V, U, D)
    W = np.linalg.inv(R) @ T
    noise = (M.T @ M - W.T @ T) / len(M)
    Rx = U.shape[1]
    return W[:Rx].T, W[Rx:-1].T, mean + W[-1], noise, x_moments, y_moments
