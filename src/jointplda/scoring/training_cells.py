"""A sample in a cell of training: its speaker was heard in its channel before."""

from dataclasses import dataclass

import numpy as np

from jointplda._typing import Array, IntArray
from jointplda.linalg import inverse, symmetric
from jointplda.model.parameters import Factor, Parameters
from jointplda.model.training_posterior import CellMeans
from jointplda.scoring.projection import Gaussian


@dataclass(frozen=True)
class TrainingCells:
    """Cells of training, whose samples share G w with a new sample of the same speaker and channel.

    Given y and x, the mean mbar of the n training samples of a cell and a new sample m of it have

        E[m | mbar] = mean + W z + B (mbar - mean - W z),     B = s G G' (G G' + C / n)^-1,     W z = V y + U x
        Cov[m | mbar] = C + G G' - B s G G'

    where s is the share of G G' that scoring counts on.

    Attributes
    ----------
    parameters : Parameters
    interaction : Factor
        The cell of the parameters, whose loading is G.
    share : float
    cells : CellMeans
    """

    parameters: Parameters
    interaction: Factor
    share: float
    cells: CellMeans

    def of_channels(self, channels: IntArray) -> dict[int, int]:
        """Position of the cell of each speaker who has one with these channels (conditions,)."""
        codes = self.cells.codes
        rows = np.flatnonzero((codes[:, 1:] == channels).all(axis=1))
        return dict(zip(codes[rows, 0].tolist(), rows.tolist(), strict=True))

    def log_likelihoods(self, X: Array, latents: Gaussian, cells: IntArray) -> Array:
        """Log p(m | cell) without its 2 pi, of samples X (n, d) and cells (M,), (n, M).

        ``latents`` are the posteriors of z = [y, x] with one mean for each cell.
        """
        mean, C, G = self.parameters.mean, self.parameters.noise, self.interaction.loading
        W = np.concatenate(self.parameters.without_cell().loadings, axis=1)
        GG, centred, out = G @ G.T, X - mean, np.empty((len(X), len(cells)))
        sizes = self.cells.counts[cells]
        for n in np.unique(sizes):
            own = np.flatnonzero(sizes == n)
            B = self.share * GG @ inverse(GG + C / n)[0]
            rest = W - B @ W
            spread = C + GG - B @ (self.share * GG) + rest @ latents.covariance @ rest.T
            precision, log_det = inverse(symmetric(spread))
            centres = (self.cells.means[cells[own]] - mean) @ B.T + latents.means[own] @ rest.T
            squares = np.sum((centred @ precision) * centred, axis=1)[:, None]
            squares = squares - 2.0 * centred @ precision @ centres.T + np.sum((centres @ precision) * centres, axis=1)
            out[:, own] = -0.5 * squares - 0.5 * log_det
        return out
