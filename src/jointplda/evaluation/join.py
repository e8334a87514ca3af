"""Scores joined with keys and labels: whether a trial is a target, its speakers and its channels."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from jointplda._identifiers import positions
from jointplda._typing import BoolArray, IntArray, Names
from jointplda.errors import Advice, InputError, Remedy, warn
from jointplda.evaluation.evaluate import Coded
from jointplda.trial_list import TARGET, UNKNOWN, ScoreTable, Trials

USE_KEY = Advice("Give a key.", "Use --key.")
LEAVE_OUT = Remedy("allow_missing", True, "leaves them out")


def with_truth(
    scores: ScoreTable,
    key: Trials | None = None,
    *,
    where: str = "scores",
    key_where: str = "key",
    allow_missing: bool = False,
) -> tuple[ScoreTable, BoolArray]:
    """Scored trials whose truth is known, with a mask of the targets: at least one is a target, and one is not.

    The trials are in the order of the key; without a key the scores say which trials are targets. ``where`` and
    ``key_where`` name scores and key in messages. With ``allow_missing``, trials that only one of them has are left out
    instead of raising.
    """
    if key is not None:
        if key.target is None:
            raise InputError(f"{key_where}: a trial list without labels; expected a column target/nontarget.")
        try:
            scores = with_key(scores, key, allow_missing=allow_missing)
        except InputError as error:
            raise InputError(f"{where}, {key_where}: {error.problem}", remedy=error.remedy) from None
    truth = scores.trials.target
    if truth is None:
        raise InputError(f"{where}: does not say which trials are targets.", remedy=USE_KEY)
    stated = np.flatnonzero(truth != UNKNOWN)
    if len(stated) < len(truth):
        warn(f"{where}: {len(truth) - len(stated):,} trials without a label are left out.")
    target = truth[stated] == TARGET
    targets = int(np.count_nonzero(target))
    if targets in (0, len(target)):
        missing = "targets" if not targets else "non-targets"
        of = where if key is None else key_where
        raise InputError(f"{of}: there are no {missing} among {len(target):,} scored trials; error rates need both.")
    return ScoreTable(scores.trials.take(stated), scores.values[stated]), target


def with_key(scores: ScoreTable, key: Trials, *, allow_missing: bool = False) -> ScoreTable:
    """Join scored trials with a key: in its order, with its truth and condition columns, repeated trials once.

    Trials that the key does not label are left out, and with ``allow_missing`` those that only one of scores and key
    has, instead of raising.
    """
    if key.target is None:
        raise InputError("expected a third column target/nontarget; the key has none.", parameter="key")
    key = key.take(key.target != UNKNOWN)
    first = np.unique(key.codes, return_index=True)[1]
    if len(first) < len(key):
        warn(f"{len(key) - len(first):,} repeated trials of the key count once.")
        key = key.take(np.sort(first))
    own = scores.trials.codes
    models, samples = positions(key.models, scores.trials.models), positions(key.samples, scores.trials.samples)
    enroll, test = models[key.enroll], samples[key.test]
    wanted = np.where((enroll < 0) | (test < 0), -1, enroll * len(scores.trials.samples) + test)
    order = np.argsort(own, kind="stable")
    place = np.searchsorted(own, wanted, sorter=order)
    rows = order[np.minimum(place, len(order) - 1)] if len(order) else np.zeros(len(wanted), dtype=np.int64)
    matched = (own[rows] == wanted) if len(order) else np.zeros(len(wanted), dtype=np.bool_)
    _check_matched(scores, key, rows, matched, allow_missing)
    kept = key.take(matched)
    return ScoreTable(kept, scores.values[rows[matched]])


def _check_matched(
    scores: ScoreTable, key: Trials, rows: IntArray, matched: NDArray[np.bool_], allow_missing: bool
) -> None:
    """Raise, or warn, where trials of the key have no score or scores are not in the key."""
    missing = np.flatnonzero(~matched)
    pairs = scores.trials.codes
    extra = np.flatnonzero(~np.isin(pairs, pairs[rows[matched]]))
    if not matched.any():
        wanted, known = (_shown_pairs(each, np.arange(min(len(each), 1))) for each in (key, scores.trials))
        raise InputError(
            f"no trial of the key has a score: the key has {wanted}, the scores have {known}. Check that the ids are "
            "written alike, and that enrollment and test come in the same order."
        )
    if not len(missing) and not len(extra):
        return
    if allow_missing:
        warn(
            f"{len(missing):,} trials without a score and {len(extra):,} scores that are not in the key were left out."
        )
        return
    problem = f"{len(extra):,} of {len(pairs):,} scores are not in the key: {_shown_pairs(scores.trials, extra)}."
    if len(missing):
        problem = f"{len(missing):,} of {len(key):,} trials of the key have no score: {_shown_pairs(key, missing)}."
    raise InputError(problem, remedy=LEAVE_OUT)


def speakers_from_targets(trials: Trials, models: Mapping[str, Sequence[str]] | None = None) -> tuple[Names, Names]:
    """Names for the speakers of a key's models and of its samples, inferred from its target trials.

    Models and samples that a chain of target trials links are one speaker; an impostor sample without any target
    trial is a speaker of its own. A model is linked to its enrollment samples; a name on the enrollment side that is
    not in ``models`` is the sample of that name.
    """
    targets = trials.take(trials.target == 1) if trials.target is not None else trials.take(np.zeros(0, dtype=np.int64))
    n_models, n_samples = len(trials.models), len(trials.samples)
    size = n_models + n_samples
    own = [(models or {}).get(str(name), [str(name)]) for name in trials.models]
    owner = np.repeat(np.arange(n_models), [len(each) for each in own])
    enrolled = positions([sample for each in own for sample in each], trials.samples)
    there = enrolled >= 0
    rows = np.concatenate((targets.enroll, owner[there]))
    columns = np.concatenate((targets.test, enrolled[there])) + n_models
    links = coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(size, size))
    _, component = connected_components(links, directed=False)
    names = component.astype(str)
    return names[:n_models], names[n_models:]


def model_labels(of_samples: Mapping[str, str], models: Mapping[str, Sequence[str]], names: Names) -> list[set[str]]:
    """Labels of the enrollment samples of each model; a name that is not in ``models`` is a sample itself."""
    return [{of_samples.get(s, "") for s in models.get(str(name), [str(name)])} - {""} for name in names]


def same_channel(enroll: Sequence[set[str]], test: Names, trials: Trials) -> NDArray[np.int8]:
    """1 where the test sample's channel is among the model's channels, 0 where not, -1 where either is not known."""
    levels, codes = np.unique(test, return_inverse=True)
    sizes = np.array([len(each) for each in enroll], dtype=np.int64)
    places = positions([label for each in enroll for label in each], levels)
    member = np.zeros((len(enroll), len(levels) + 1), dtype=np.int8)  # the last column: labels that no test has
    member[np.repeat(np.arange(len(enroll)), sizes), places] = 1
    known = (sizes > 0)[trials.enroll] & (test != "")[trials.test]
    return np.where(known, member[trials.enroll, codes[trials.test]], np.int8(-1))


def pair_conditions(enroll: Sequence[set[str]], test: Names, trials: Trials) -> Coded:
    """Labels of both sides as one: ``a`` where they agree, ``a / b`` (in alphabetical order) where they do not."""
    left, first = np.unique(np.array(["+".join(sorted(each)) for each in enroll], dtype=np.str_), return_inverse=True)
    right, second = np.unique(test, return_inverse=True)
    texts = [["" if not a or not b else a if a == b else " / ".join(sorted((a, b))) for b in right] for a in left]
    names = sorted({text for row in texts for text in row if text})
    number = {name: index for index, name in enumerate(names)}
    codes = np.array([[number.get(text, -1) for text in row] for row in texts], dtype=np.int64)
    return Coded(codes[first[trials.enroll], second[trials.test]], names)


def _shown_pairs(trials: Trials, rows: IntArray) -> str:
    """The first few pairs of the given rows."""
    shown = ", ".join(repr(" ".join(trials.pair(int(row)))) for row in rows[:5])
    return shown + (", ..." if len(rows) > 5 else "") or "no trials"
