"""What links the coupled levels: samples that carry two of them, and eliminated levels that meet both."""

from dataclasses import dataclass

from scipy.sparse import csr_array

from jointplda._typing import Array, IntArray


@dataclass(frozen=True)
class PatternArrays:
    """Sums over the samples with one missing-label pattern, as arrays over all levels.

    Attributes
    ----------
    observed : tuple of bool
        For each factor, whether these samples have a label of it. The latents of the other factors belong to one
        sample each, and are absorbed into the noise.
    cell_size : float
        n, where these are means of n samples of a cell; else 1.
    count, total, scatter : float, (d,), (d, d)
        N, sum of (m_i - shift) and sum of (m_i - shift)(m_i - shift)'.
    level_sums, level_counts : dict of (levels, d), (levels,)
        g_b and n_b of every observed coupled factor.
    links : dict of sparse (levels_k, levels_l)
        e_bb' for every pair k < l of observed coupled factors.
    """

    observed: tuple[bool, ...]
    cell_size: float
    count: float
    total: Array
    scatter: Array
    level_sums: dict[int, Array]
    level_counts: dict[int, Array]
    links: dict[tuple[int, int], csr_array]

    def noise_scale(self, kappa: float) -> float:
        """1 / n + kappa: the noise of the mean of n samples of a cell, and what they share, relative to C."""
        return 1.0 / self.cell_size + kappa


@dataclass(frozen=True)
class CoupledLinks:
    """How often the levels of the coupled factors meet.

    Attributes
    ----------
    factors : tuple of int
        The coupled factors: those with shared levels other than the eliminated one.
    sizes : tuple of int
        Number of levels of each.
    parts : tuple of PatternArrays
        One for each missing-label pattern p.
    eliminated_parts : tuple of int
        Positions in ``parts`` of those whose samples have a label of the eliminated factor; P in number.
    slots : sparse (K, P * coupled levels)
        h_ob, the number of samples that eliminated level o and coupled level b share in each part. The eliminated
        levels are sorted by group.
    group : (K,)
        Group of every eliminated level: those of a group have equal counts.
    group_counts : (G, P)
        n_gp, the number of samples that each eliminated level of group g has in part p.
    """

    factors: tuple[int, ...]
    sizes: tuple[int, ...]
    parts: tuple[PatternArrays, ...]
    eliminated_parts: tuple[int, ...]
    slots: csr_array
    group: IntArray
    group_counts: Array

    def slot_range(self, eliminated_part: int, k: int) -> slice:
        """Columns of ``slots`` that hold coupled factor k in one of the ``eliminated_parts``."""
        at = self.factors.index(k)
        start = eliminated_part * sum(self.sizes) + sum(self.sizes[:at])
        return slice(start, start + self.sizes[at])
