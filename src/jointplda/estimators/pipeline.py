"""A scikit-learn Pipeline that ends in a model, takes channels, and is stored in one file."""

from importlib import import_module
from os import PathLike
from typing import Any, Self

from sklearn import get_config
from sklearn.pipeline import Pipeline as _SklearnPipeline
from sklearn.pipeline import _name_estimators
from sklearn.utils.validation import check_is_fitted

from jointplda.calibration.affine import AffineCalibration
from jointplda.errors import FileError, InputError
from jointplda.estimators import model_file
from jointplda.estimators.base import ModelEstimator
from jointplda.estimators.model_methods import ModelMethods
from jointplda.preprocessing.front_ends import learns_from_speakers
from jointplda.scoring.scorer import Scorer

MODELS = {
    "PLDA": "jointplda.estimators.plain",
    "JointPLDA": "jointplda.estimators.joint",
    "JointPLDACV": "jointplda.estimators.automatic",
}
"""Classes that a model file can hold, and their modules, which are imported when such a file is read."""


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
        model = self.steps[-1][1]
        for name, step in self.steps[:-1] if isinstance(model, ModelEstimator) and model.holds_out_speakers else ():
            if learns_from_speakers(step):
                raise InputError(
                    f"Step {name!r} ({type(step).__name__}) learns from the speakers, and {type(model).__name__} then "
                    f"holds out speakers that it has seen. Give it as {type(model).__name__}(front_end=[...]), which "
                    "fits it without them."
                )
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
        steps = model_file.described_steps(self.steps[:-1])
        model_file.write_model(path, self._model()._description(step=self.steps[-1][0], steps=steps))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a fitted model as a pipeline, with its preprocessing if it has any."""
        return cls.from_description(model_file.read_model(path), path)

    @classmethod
    def from_description(cls, description: model_file.ModelDescription, path: Any) -> Self:
        """The pipeline that a model file holds; ``path`` is for messages."""
        name = description.estimator
        if name not in MODELS:
            raise FileError(f"{path}: holds a {name}, which this release does not know.")
        try:
            steps = model_file.restored_steps(description.steps)
            model = getattr(import_module(MODELS[name]), name)._from_description(description)
        except FileError as error:
            raise FileError(f"{path}: {error}") from None
        return cls([*steps, (description.step or name.lower(), model)])

    def _model(self) -> Any:
        model = self.steps[-1][1]
        if not isinstance(model, ModelEstimator):
            raise InputError(f"The last step must be a PLDA, JointPLDA or JointPLDACV, got {type(model).__name__}.")
        check_is_fitted(model)
        return model

    def _scorer(self) -> Scorer:
        scorer: Scorer = self._model()._scorer()
        return scorer

    def _preprocessing(self) -> list[Any]:
        return [*(step for _, _, step in self._iter(with_final=False)), *self._model()._preprocessing()]

    def _transformed(self, X: Any) -> Any:
        for _, _, step in self._iter(with_final=False):
            X = step.transform(X)
        return self.steps[-1][1]._transformed(X)


def make_pipeline(*steps: Any) -> Pipeline:
    """Make a ``Pipeline`` whose steps have the names of their classes in lower case."""
    return Pipeline(_name_estimators(steps))
