"""A scikit-learn Pipeline that ends in a model, passes channels on, and lives in one file."""

from os import PathLike
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline as _SklearnPipeline
from sklearn.pipeline import _name_estimators
from sklearn.utils.validation import check_is_fitted

from jointplda import preprocessing
from jointplda._typing import AnyArray
from jointplda.errors import FileError, InputError
from jointplda.estimators import model_file
from jointplda.estimators.arguments import checked_sets
from jointplda.estimators.automatic import JointPLDACV
from jointplda.estimators.base import Model
from jointplda.estimators.joint import JointPLDA
from jointplda.estimators.plain import PLDA
from jointplda.model.posterior import Posterior
from jointplda.scoring.enrollment import Enrollment
from jointplda.scoring.pairs import PreparedSide

STEPS: dict[str, type[BaseEstimator]] = {
    cls.__name__: cls
    for cls in (
        preprocessing.Center,
        preprocessing.LengthNorm,
        preprocessing.PCA,
        preprocessing.Reduce,
        preprocessing.LDA,
    )
}
MODELS: dict[str, type[Model]] = {"PLDA": PLDA, "JointPLDA": JointPLDA, "JointPLDACV": JointPLDACV}


class Pipeline(_SklearnPipeline):  # type: ignore[misc]
    """Preprocessing and a model as one estimator, saved as one file.

    scikit-learn's ``Pipeline``, and three things more: ``channels`` goes to the model by its plain name,
    with and without metadata routing; the model's methods can be called on raw embeddings; and ``save``
    writes every step, so that training and scoring cannot disagree.

    Examples
    --------
    >>> from jointplda import JointPLDA, make_pipeline
    >>> from jointplda.preprocessing import PCA, Center, LengthNorm
    >>> pipe = make_pipeline(Center(), LengthNorm(), PCA(60), JointPLDA(speaker_rank=40))
    >>> [name for name, _ in pipe.steps]
    ['center', 'lengthnorm', 'pca', 'jointplda']
    """

    def fit(self, X: Any, y: Any = None, channels: Any = None, **params: Any) -> Self:
        """Fit every step; ``channels`` is for the model."""
        super().fit(X, y, **self._with_channels(channels, params))
        return self

    def log_likelihood(self, X: Any, y: Any, channels: Any = None) -> float:
        """Exact log p of labelled samples after preprocessing, in nats."""
        return float(self._model().log_likelihood(self._transformed(X), y, **_given(channels)))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, *, channels: Any = None, **params: Any) -> float:
        """Mean log-likelihood per sample."""
        model, transformed = self._model(), self._transformed(X)
        return float(model.score(transformed, y, sample_weight=sample_weight, **_given(channels), **params))

    def posterior(self, X: Any, y: Any, channels: Any = None) -> Posterior:
        """Posterior means and covariances of every latent; see the model's own method."""
        result: Posterior = self._model().posterior(self._transformed(X), y, **_given(channels))
        return result

    def prepare(self, X: Any, dtype: Any = None) -> PreparedSide:
        """Prepare raw samples once, to be scored many times."""
        side: PreparedSide = self._model().prepare(self._transformed(X), dtype)
        return side

    def score_matrix(self, enroll: Any, test: Any, *args: Any, **kwargs: Any) -> AnyArray:
        """LLRs of raw samples; see the model's own method."""
        scores: AnyArray = self._model().score_matrix(*self._both(enroll, test), *args, **kwargs)
        return scores

    def score_trials(self, enroll: Any, test: Any, pairs: Any, *args: Any, **kwargs: Any) -> AnyArray:
        """LLRs of listed trials of raw samples; see the model's own method."""
        scores: AnyArray = self._model().score_trials(*self._both(enroll, test), pairs, *args, **kwargs)
        return scores

    def enroll(self, X: Any, models: Any, channels: Any = None, **kwargs: Any) -> Enrollment:
        """Make models of raw samples; see the model's own method."""
        enrollment: Enrollment = self._model().enroll(self._transformed(X), models, channels, **kwargs)
        return enrollment

    def score_enrollment(self, enrollment: Enrollment, test: Any, **kwargs: Any) -> AnyArray:
        """LLRs of models against raw samples; see the model's own method."""
        scores: AnyArray = self._model().score_enrollment(enrollment, self._transformed(test), **kwargs)
        return scores

    def score_sets(self, sets_a: Any, sets_b: Any, **kwargs: Any) -> AnyArray:
        """LLRs of sets of raw samples; see the model's own method."""
        given = checked_sets(sets_a, "sets_a"), checked_sets(sets_b, "sets_b")
        sides = [[self._transformed(X) for X in sets] for sets in given]
        scores: AnyArray = self._model().score_sets(*sides, **kwargs)
        return scores

    def predict(self, X: Any, channels: Any = None) -> AnyArray:
        """The most probable training speaker of each raw sample."""
        speakers: AnyArray = self._model().predict(self._transformed(X), channels)
        return speakers

    def predict_proba(self, X: Any, channels: Any = None) -> AnyArray:
        """Posterior of every training speaker for raw samples."""
        chances: AnyArray = self._model().predict_proba(self._transformed(X), channels)
        return chances

    def channel_posterior(self, X: Any, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], AnyArray]:
        """Which training channel raw samples are from, or a new one; see the model's own method."""
        found: tuple[tuple[Any, ...], AnyArray] = self._model().channel_posterior(self._transformed(X), *args, **kwargs)
        return found

    def _both(self, enroll: Any, test: Any) -> tuple[Any, Any]:
        first, second = (side if isinstance(side, PreparedSide) else self._transformed(side) for side in (enroll, test))
        return first, second

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted steps and the model to one safetensors file."""
        model = self._model()
        steps = []
        for name, step in self.steps[:-1]:
            if step is None or step == "passthrough":
                continue
            if type(step) not in STEPS.values():
                raise FileError(
                    f"Step {name!r} ({type(step).__name__}) cannot be stored in a model file; these can: "
                    f"{', '.join(f'jointplda.preprocessing.{known}' for known in STEPS)}."
                )
            check_is_fitted(step)
            attributes = {key: value for key, value in vars(step).items() if key.endswith("_")}
            attributes.pop("feature_names_in_", None)
            steps.append(model_file.StoredStep(name, type(step).__name__, step.get_params(deep=False), attributes))
        model_file.write(path, model_file.describe_model(model), steps, self.steps[-1][0])

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model, with the steps before it if there are any, as a fitted pipeline."""
        stored, stored_steps = model_file.read(path)
        steps = [(one.step, _restored(one, path)) for one in stored_steps]
        if stored.name not in MODELS:
            raise FileError(f"{path}: holds a {stored.name}, which this release does not know.")
        model = MODELS[stored.name]._from_stored(stored, path)
        return cls([*steps, (stored.step or stored.name.lower(), model)])

    def _model(self) -> Any:
        model = self.steps[-1][1]
        if not isinstance(model, Model):
            raise InputError(f"The last step must be a PLDA, JointPLDA or JointPLDACV, got {type(model).__name__}.")
        check_is_fitted(model)
        return model

    def _transformed(self, X: Any) -> Any:
        for _, _, step in self._iter(with_final=False):
            X = step.transform(X)
        return X

    def _with_channels(self, channels: Any, params: dict[str, Any]) -> dict[str, Any]:
        if channels is None:
            return params
        from sklearn import get_config

        routed = get_config()["enable_metadata_routing"]
        name = "channels" if routed else f"{self.steps[-1][0]}__channels"
        return {**params, name: channels}


def make_pipeline(*steps: Any) -> Pipeline:
    """Make a ``Pipeline`` whose steps are named after their classes, in lower case."""
    return Pipeline(_name_estimators(steps))


def automatic_pipeline(**settings: Any) -> Pipeline:
    """What to try first: centring, length normalisation, PCA to 150 dimensions where the data support it, and
    ``JointPLDACV``, which chooses its settings and calibrates its scores.

    Parameters
    ----------
    **settings
        Of ``JointPLDACV``.

    Examples
    --------
    >>> from jointplda import automatic_pipeline
    >>> [name for name, _ in automatic_pipeline().steps]
    ['center', 'lengthnorm', 'reduce', 'jointpldacv']
    """
    return make_pipeline(
        preprocessing.Center(), preprocessing.LengthNorm(), preprocessing.Reduce(), JointPLDACV(**settings)
    )


def _given(channels: Any) -> dict[str, Any]:
    return {} if channels is None else {"channels": channels}


def _restored(stored: model_file.StoredStep, path: Any) -> Any:
    if stored.name not in STEPS:
        raise FileError(f"{path}: holds a step {stored.name!r}, which this release does not know.")
    step = STEPS[stored.name](**stored.settings)
    for name, value in stored.attributes.items():
        setattr(step, name, value)
    return step
