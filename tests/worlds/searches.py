"""Searches for settings on small worlds, with results that are computed or told."""

import numpy as np

from jointplda import JointPLDA
from jointplda.model.settings import ModelSettings
from jointplda.preprocessing.front_ends import NONE
from jointplda.selection.candidates import CandidateResult
from jointplda.selection.design import design_of
from jointplda.selection.folds import Recipe, make_folds
from jointplda.selection.search import Search


def searching(X, s, c, kind=Search, callback=None, design=None, **settings):
    rng, model = np.random.default_rng(0), JointPLDA(max_iter=25, tol=1e-3)
    folds = make_folds(X, s, c, 4, rng)
    design = design or design_of(folds.whole(NONE[0]).statistics, rng)
    return kind(folds, NONE, design, model._settings(), rng, callback, **settings)


def candidate(noise_prior, speaker_prior, channel_rank, channel_share, channel_prior, interaction=0.0, cell_share=1.0):
    settings = dict(locals())
    return ModelSettings(max_iter=25, tol=1e-3, **settings)


class Told(Search):
    """A search whose results are told beforehand, one number per fold."""

    def attempt(self, front_end, candidate):
        recipe = Recipe(front_end, candidate)
        if recipe not in self.tried:
            told = tuple(self.table(candidate))
            self.tried[recipe] = CandidateResult(candidate, told, (1.0,) * 4, 0.0, front_end=front_end.name)
        return self.tried[recipe]
