"""The paper's EM iteration typed in as printed, with its slips mended as noted. Shares no code with the package.

One loop per speaker, dense H, explicit inverses, no grouping. Samples are centred on a given mean, which the
paper leaves out: the mean is the loading of one more latent that is always 1 (z = [x, y, 1]).
"""

import numpy as np


class Data:
    """Sums over samples that no parameter changes: f_s, g_c, n_sc, S, and the dense matrix H."""

    def __init__(self, M, s, c, Rx):
        self.N, self.S = len(M), M.T @ M
        speakers, channels = s.max() + 1, c.max() + 1
        self.n_sc = np.zeros((speakers, channels))  # how often channel c occurs for speaker s
        np.add.at(self.n_sc, (s, c), 1)
        self.n_s, self.n_c = self.n_sc.sum(axis=1), self.n_sc.sum(axis=0)
        self.f, self.g = np.zeros((speakers, M.shape[1])), np.zeros((channels, M.shape[1]))
        np.add.at(self.f, s, M)
        np.add.at(self.g, c, M)
        self.H = np.kron(self.n_sc, np.eye(Rx))


def posterior(data, V, U, D):
    """Sigma, X-hat, J, and for every speaker L_s^-1 and y-tilde."""
    S, C, Rx = len(data.f), len(data.g), U.shape[1]
    J = U.T @ D @ V
    L_inverse = [np.linalg.inv(n * V.T @ D @ V + np.eye(V.shape[1])) for n in data.n_s]
    y_tilde = np.stack([L_inverse[k] @ V.T @ D @ data.f[k] for k in range(S)])
    y_bar = data.n_sc.T @ y_tilde
    precision = np.zeros((C * Rx, C * Rx))
    for j in range(C):
        block = slice(j * Rx, (j + 1) * Rx)
        precision[block, block] = data.n_c[j] * U.T @ D @ U + np.eye(Rx)
    for k in range(S):
        H_s = data.H[k * Rx : (k + 1) * Rx]
        precision -= H_s.T @ (J @ L_inverse[k] @ J.T) @ H_s
    Phi = np.concatenate([U.T @ D @ data.g[j] - J @ y_bar[j] for j in range(C)])
    Sigma = np.linalg.inv(precision)
    return Sigma, Sigma @ Phi, J, L_inverse, y_tilde


def log_likelihood(data, V, U, D):
    """The paper's objective, with the constant it drops."""
    Sigma, X, _, L_inverse, y_tilde = posterior(data, V, U, D)
    N, d = data.N, len(D)
    total = -0.5 * np.trace(data.S @ D) + 0.5 * N * np.linalg.slogdet(D)[1] - 0.5 * N * d * np.log(2 * np.pi)
    for L, y in zip(L_inverse, y_tilde):
        total -= -0.5 * y @ np.linalg.inv(L) @ y - 0.5 * np.linalg.slogdet(L)[1]
    return total + 0.5 * X @ np.linalg.inv(Sigma) @ X + 0.5 * np.linalg.slogdet(Sigma)[1]


def e_step(data, V, U, D):
    """R and T for z = [x, y, 1], and the first and second moments of x and y averaged over their levels."""
    Sigma, X, J, L_inverse, _ = posterior(data, V, U, D)
    S, C, Rx, Ry = len(data.f), len(data.g), U.shape[1], V.shape[1]
    x = X.reshape(C, Rx)
    T_x = sum(np.outer(x[j], data.g[j]) for j in range(C))
    xx_c = [Sigma[j * Rx : (j + 1) * Rx, j * Rx : (j + 1) * Rx] + np.outer(x[j], x[j]) for j in range(C)]
    R_xx = sum(data.n_c[j] * xx_c[j] for j in range(C))
    T_y, R_yx, R_yy = np.zeros((Ry, len(D))), np.zeros((Ry, Rx)), np.zeros((Ry, Ry))
    y_sum, y_first, y_second = np.zeros(Ry), np.zeros(Ry), np.zeros((Ry, Ry))
    second = Sigma + np.outer(X, X)
    for k in range(S):
        L, f, H_s = L_inverse[k], data.f[k], data.H[k * Rx : (k + 1) * Rx]
        VDf, xbar = V.T @ D @ f, H_s @ X
        xx = H_s @ second @ H_s.T  # the double sum over the speaker's samples
        T_y += np.outer(L @ VDf, f) - np.outer(L @ J.T @ xbar, f)
        R_yx += L @ (np.outer(VDf, xbar) - J.T @ xx)
        # erratum 1: the third term has J', printed with J
        yy = np.outer(VDf, VDf) - np.outer(VDf, xbar) @ J - J.T @ np.outer(xbar, VDf) + J.T @ xx @ J
        yy = L + L @ yy @ L
        y = L @ (VDf - J.T @ xbar)
        R_yy += data.n_s[k] * yy
        y_sum += data.n_s[k] * y
        y_first += y / S
        y_second += yy / S
    x_sum = data.n_c @ x
    R = np.block(
        [
            [R_xx, R_yx.T, x_sum[:, None]],
            [R_yx, R_yy, y_sum[:, None]],
            [x_sum[None], y_sum[None], np.array([[data.N]])],
        ]
    )
    T = np.concatenate([T_x, T_y, data.f.sum(axis=0)[None]])
    return R, T, (x.mean(axis=0), sum(xx_c) / C), (y_first, y_second)


def em_step(data, V, U, D):
    """One iteration: W' = R^-1 T, D^-1 = (S - W T) / N; loadings before minimum divergence, mean from zero."""
    R, T, x_moments, y_moments = e_step(data, V, U, D)
    W = np.linalg.inv(R) @ T
    noise = (data.S - W.T @ T) / data.N
    Rx = U.shape[1]
    return W[:Rx].T, W[Rx:-1].T, W[-1], noise, x_moments, y_moments


def score_single(mE, mT, V, U, D, P_SS, P_SD):
    """Section 4.1: LLR_o + LLR_i with the Q terms, for centred samples; priors of the same channel."""
    J = U.T @ D @ V
    I_x, I_y = np.eye(U.shape[1]), np.eye(V.shape[1])
    UDU, VDV = U.T @ D @ U, V.T @ D @ V
    # erratum 6: K_1, L_1 are those of one channel or speaker with two samples, K_2, L_2 of two with one each
    L_D, L_S, K_D = VDV + I_y, 2 * VDV + I_y, UDU + I_x
    tE, tT, hE, hT = V.T @ D @ mE, V.T @ D @ mT, U.T @ D @ mE, U.T @ D @ mT
    LSi, LDi = np.linalg.inv(L_S), np.linalg.inv(L_D)
    zero, II = np.zeros_like(UDU), np.vstack([I_x, I_x])
    precisions = {
        "SC,SS": 2 * UDU + I_x - 4 * J @ LSi @ J.T,
        "SC,DS": 2 * UDU + I_x - 2 * J @ LDi @ J.T,
        "DC,SS": np.block([[K_D, zero], [zero, K_D]]) - II @ (J @ LSi @ J.T) @ II.T,
        "DC,DS": np.block([[K_D, zero], [zero, K_D]]) - np.kron(np.eye(2), J @ LDi @ J.T),
    }
    Phi = {
        "SC,SS": (hE + hT) - 2 * J @ LSi @ (tE + tT),
        "SC,DS": (hE + hT) - J @ LDi @ (tE + tT),
        "DC,SS": np.concatenate([hE - J @ LSi @ (tE + tT), hT - J @ LSi @ (tE + tT)]),
        "DC,DS": np.concatenate([hE - J @ LDi @ tE, hT - J @ LDi @ tT]),
    }
    Q = {
        h: -0.5 * np.linalg.slogdet(precisions[h])[1] + 0.5 * Phi[h] @ np.linalg.inv(precisions[h]) @ Phi[h]
        for h in precisions
    }
    outer = np.linalg.slogdet(L_D)[1] - 0.5 * np.linalg.slogdet(L_S)[1]
    outer += 0.5 * tE @ (LSi - LDi) @ tE + 0.5 * tT @ (LSi - LDi) @ tT + tT @ LSi @ tE
    top = np.logaddexp(np.log(P_SS) + Q["SC,SS"], np.log(1 - P_SS) + Q["DC,SS"])
    return outer + top - np.logaddexp(np.log(P_SD) + Q["SC,DS"], np.log(1 - P_SD) + Q["DC,DS"])


def score_unseen(enrollment, channels, mT, V, U, D):
    """Last section: centred enrollment samples of known channels, a test sample of another channel."""
    J, C, n_E = U.T @ D @ V, channels.max() + 1, len(enrollment)
    I_x, I_y = np.eye(U.shape[1]), np.eye(V.shape[1])
    n = np.array([np.sum(channels == c) for c in range(C)])
    g = [enrollment[channels == c].sum(axis=0) for c in range(C)]
    f = enrollment.sum(axis=0)
    VDV, UDU = V.T @ D @ V, U.T @ D @ U
    L_D, L_S, L = n_E * VDV + I_y, (n_E + 1) * VDV + I_y, VDV + I_y
    fE, tT = V.T @ D @ f, V.T @ D @ mT
    inv = np.linalg.inv
    M2 = np.kron(np.diag([*n, 1]), UDU) + np.eye((C + 1) * U.shape[1])
    G = np.concatenate([*(U.T @ D @ one for one in g), U.T @ D @ mT])
    Q = {}
    for same in (True, False):
        H = np.kron(np.array([[*n, 1]]) if same else np.array([[*n, 0], [0] * C + [1]]), I_x)
        blocks = [J @ inv(L_S) @ J.T] if same else [J @ inv(L_D) @ J.T, J @ inv(L) @ J.T]
        M4 = np.zeros((len(blocks) * len(J), len(blocks) * len(J)))
        for b, block in enumerate(blocks):
            M4[b * len(J) : (b + 1) * len(J), b * len(J) : (b + 1) * len(J)] = block
        y = inv(L_S) @ (fE + tT) if same else inv(L_D) @ fE
        Y = [*(y * count for count in n), y if same else inv(L) @ tT]
        Phi = G - np.concatenate([J @ one for one in Y])
        precision = M2 - H.T @ M4 @ H
        Q[same] = -0.5 * np.linalg.slogdet(precision)[1] + 0.5 * Phi @ inv(precision) @ Phi
    logdet = [np.linalg.slogdet(one)[1] for one in (L_D, L, L_S)]
    # erratum 2: a plus is missing between the first two terms
    outer = 0.5 * logdet[0] + 0.5 * logdet[1] - 0.5 * logdet[2]
    outer += 0.5 * fE @ (inv(L_S) - inv(L_D)) @ fE + 0.5 * tT @ (inv(L_S) - inv(L)) @ tT + tT @ inv(L_S) @ fE
    return outer + Q[True] - Q[False]
