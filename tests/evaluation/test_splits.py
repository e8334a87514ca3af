"""Splits by speaker, which the recipes and the benchmarks share."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from jointplda.evaluation.protocol import LabelledSamples
from jointplda.labels import ConditionColumns

SPEC = importlib.util.spec_from_file_location("splits", Path(__file__).parent.parent.parent / "examples" / "splits.py")
splits = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(splits)
split_by_speaker = splits.split_by_speaker


def crossed_samples():
    speakers, channels = np.divmod(np.arange(20 * 12), 12)
    names = np.array([f"s{i}" for i in speakers])
    ids = np.array([f"id{i}" for i in range(240)])
    rooms = ConditionColumns(("room",), (np.array(["a", "b", "c", "d"])[channels % 4],))
    return LabelledSamples(ids, np.arange(240.0)[:, None], names, rooms)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("channels", "speakers"), [(None, None), (1, None), (2, 5), (None, 7)])
def test_training_and_test_speakers_differ(seed, channels, speakers):
    samples = crossed_samples()
    train, test = split_by_speaker(samples, seed, channels_per_speaker=channels, speakers=speakers)
    assert not set(train.speakers) & set(test.speakers)
    assert len(set(train.speakers)) == (speakers or 13)
    assert len(set(test.speakers)) == 7
    for name in set(train.speakers):
        assert len(set(train.channels.values[0][train.speakers == name])) == (channels or 4)
    for name in set(test.speakers):
        assert_array_equal(
            np.unique(test.channels.values[0][test.speakers == name], return_counts=True)[1], [2, 2, 2, 2]
        )
    for part in (train, test):
        assert_array_equal(samples.ids[part.X[:, 0].astype(int)], part.ids)
        assert_array_equal(samples.speakers[part.X[:, 0].astype(int)], part.speakers)
    whole, same = split_by_speaker(samples, seed, channels_per_speaker=channels)
    assert_array_equal(test.ids, same.ids)
    assert_array_equal(train.ids, whole.ids[np.isin(whole.speakers, train.speakers)])
    fewer, cut = split_by_speaker(samples, seed, train_share=0.25, test_per_cell=1)
    assert len(set(fewer.speakers)) == 5
    assert len(cut.ids) == 15 * 4
