"""A scikit-learn Pipeline that ends in a model, passes channels on, and lives in one file."""

from os import PathLike
from typing import Any, Self

from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline as _SklearnPipeline
from sklearn.pipeline import _name_estimators
from sklearn.utils.validation import check_is_fitted

from jointplda import preprocessing
from jointplda.errors import FileError, InputError
from jointplda.estimators import model_file
from jointplda.estimators.automatic import JointPLDACV
from jointplda.estimators.joint import JointPLDA
from jointplda.estimators.likelihood_methods import LikelihoodMethods
from jointplda.estimators.plain import PLDA
from jointplda.scoring.scorer import Scorer

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
MODELS: dict[str, type[PLDA] | type[JointPLDA] | type[JointPLDACV]] = {
    "PLDA": PLDA,
    "JointPLDA": JointPLDA,
    "JointPLDACV": JointPLDACV,
}


class Pipeline(LikelihoodMethods, _SklearnPipeline):  # type: ignore[misc]
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
            settings = step.get_params(deep=False)
            steps.append(model_file.StepDescription(name, type(step).__name__, settings, attributes))
        model_file.write_model(path, model._description(step=self.steps[-1][0], steps=tuple(steps)))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model, with the steps before it if there are any, as a fitted pipeline."""
        description = model_file.read_model(path)
        if description.estimator not in MODELS:
            raise FileError(f"{path}: holds a {description.estimator}, which this release does not know.")
        steps = [(step.step, _restored(step, path)) for step in description.steps]
        model = MODELS[description.estimator]._from_description(description)
        return cls([*steps, (description.step or description.estimator.lower(), model)])

    def _model(self) -> Any:
        model = self.steps[-1][1]
        if type(model) not in MODELS.values():
            raise InputError(f"The last step must be a PLDA, JointPLDA or JointPLDACV, got {type(model).__name__}.")
        check_is_fitted(model)
        return model

    def _scorer(self) -> Scorer:
        scorer: Scorer = self._model()._scorer()
        return scorer

    def _transformed(self, X: Any) -> Any:
        for _, _, step in self._iter(with_final=False):
            X = step.transform(X)
        return X

    def _with_channels(self, channels: Any, params: dict[str, Any]) -> dict[str, Any]:
        if channels is None:
            return params
        routed = get_config()["enable_metadata_routing"]
        name = "channels" if routed else f"{self.steps[-1][0]}__channels"
        return {**params, name: channels}


def make_pipeline(*steps: Any) -> Pipeline:
    """Make a ``Pipeline`` whose steps are named after their classes, in lower case."""
    return Pipeline(_name_estimators(steps))


def automatic_pipeline(**settings: Any) -> Pipeline:
    """The model to try first: centring, length normalisation, PCA to 150 dimensions where the data support it, and
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


def _restored(stored: model_file.StepDescription, path: Any) -> Any:
    if stored.transformer not in STEPS:
        raise FileError(f"{path}: holds a step {stored.transformer!r}, which this release does not know.")
    step = STEPS[stored.transformer](**stored.settings)
    for name, value in stored.attributes.items():
        setattr(step, name, value)
    return step
