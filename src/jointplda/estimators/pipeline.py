"""A scikit-learn Pipeline that ends in a model, takes channels, and is stored in one file."""

from os import PathLike
from typing import Any, Self

from sklearn import get_config
from sklearn.pipeline import Pipeline as _SklearnPipeline
from sklearn.pipeline import _name_estimators
from sklearn.utils.validation import check_is_fitted

from jointplda.calibration.affine import AffineCalibration
from jointplda.errors import FileError, InputError
from jointplda.estimators import model_file
from jointplda.estimators.automatic import JointPLDACV
from jointplda.estimators.base import ModelEstimator
from jointplda.estimators.joint import JointPLDA
from jointplda.estimators.model_methods import ModelMethods
from jointplda.estimators.plain import PLDA
from jointplda.preprocessing import STEPS, Center, LengthNorm, Reduce
from jointplda.scoring.scorer import Scorer

MODELS: dict[str, type[ModelEstimator]] = {cls.__name__: cls for cls in (PLDA, JointPLDA, JointPLDACV)}


class Pipeline(ModelMethods, _SklearnPipeline):  # type: ignore[misc]
    """Preprocessing and a model as one estimator, saved as one file.

    This is scikit-learn's ``Pipeline`` with three additions: ``channels`` reaches the model under that name, with and
    without metadata routing; the methods of the model take embeddings that are not preprocessed; and ``save`` writes
    every step, so that training and scoring preprocess alike.

    Examples
    --------
    >>> from jointplda import JointPLDA, make_pipeline
    >>> from jointplda.preprocessing import PCA, Center, LengthNorm
    >>> pipe = make_pipeline(Center(), LengthNorm(), PCA(60), JointPLDA(speaker_rank=40))
    >>> [name for name, _ in pipe.steps]
    ['center', 'lengthnorm', 'pca', 'jointplda']
    """

    def fit(self, X: Any, y: Any = None, channels: Any = None, **params: Any) -> Self:
        """Fit every step; only the model gets ``channels``."""
        if channels is not None:
            routed = get_config()["enable_metadata_routing"]
            params = {**params, "channels" if routed else f"{self.steps[-1][0]}__channels": channels}
        super().fit(X, y, **params)
        return self

    def with_calibration(self, calibration: AffineCalibration | None) -> Self:
        """A pipeline of the same fitted steps whose model has another calibration of its scores, or none."""
        return type(self)([*self.steps[:-1], (self.steps[-1][0], self._model().with_calibration(calibration))])

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted steps and the model to one safetensors file."""
        model = self._model()
        steps = []
        for name, step in self.steps[:-1]:
            if step is None or step == "passthrough":
                continue
            if type(step) not in STEPS.values():
                storable = ", ".join(f"jointplda.preprocessing.{transformer}" for transformer in STEPS)
                raise FileError(f"Step {name!r} ({type(step).__name__}) cannot be stored; these can: {storable}.")
            check_is_fitted(step)
            attributes = {key: value for key, value in vars(step).items() if key.endswith("_")}
            attributes.pop("feature_names_in_", None)
            settings = step.get_params(deep=False)
            steps.append(model_file.StepDescription(name, type(step).__name__, settings, attributes))
        model_file.write_model(path, model._description(step=self.steps[-1][0], steps=tuple(steps)))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a fitted model as a pipeline, with its preprocessing if it has any."""
        return cls.from_description(model_file.read_model(path), path)

    @classmethod
    def from_description(cls, description: model_file.ModelDescription, path: Any) -> Self:
        """The pipeline that a model file holds; ``path`` is for messages."""
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


def make_pipeline(*steps: Any) -> Pipeline:
    """Make a ``Pipeline`` whose steps have the names of their classes in lower case."""
    return Pipeline(_name_estimators(steps))


def automatic_pipeline(**settings: Any) -> Pipeline:
    """The model to try first: centring, length normalisation, PCA to 150 dimensions if the data support it, and
    ``JointPLDACV``, which chooses its settings and calibrates its scores.

    Parameters
    ----------
    **settings
        Settings of ``JointPLDACV``.

    Examples
    --------
    >>> from jointplda import automatic_pipeline
    >>> [name for name, _ in automatic_pipeline().steps]
    ['center', 'lengthnorm', 'reduce', 'jointpldacv']
    """
    return make_pipeline(Center(), LengthNorm(), Reduce(), JointPLDACV(**settings))


def _restored(stored: model_file.StepDescription, path: Any) -> Any:
    if stored.transformer not in STEPS:
        raise FileError(f"{path}: holds a step {stored.transformer!r}, which this release does not know.")
    step = STEPS[stored.transformer](**stored.settings)
    for name, value in stored.attributes.items():
        setattr(step, name, value)
    return step
