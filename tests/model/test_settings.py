"""The settings of a model are declared once, and the estimators' arguments are held to that."""

import inspect
from dataclasses import fields

import pytest

from jointplda import PLDA, InputError, JointPLDA, JointPLDACV
from jointplda.model.setting_checks import checked_settings, per_condition
from jointplda.model.settings import RULES, ModelSettings
from worlds.automatic import quietly, small_world

NOT_OF_THE_MODEL = {"warm_start", "callback"}
DEFAULTS = {field.name: field.default for field in fields(ModelSettings)}


def arguments(cls):
    return {name: one.default for name, one in inspect.signature(cls).parameters.items()}


def test_joint_plda_has_every_setting_with_its_default():
    found = arguments(JointPLDA)
    assert {name: found[name] for name in DEFAULTS} == DEFAULTS
    assert set(found) - set(DEFAULTS) == NOT_OF_THE_MODEL


def test_other_models_take_some_of_them():
    plain = arguments(PLDA)
    assert set(plain) - set(DEFAULTS) == NOT_OF_THE_MODEL
    own = {"channel_rank", "noise"}  # of each sample, and full where there is none
    assert {name: plain[name] for name in plain if name in DEFAULTS and name not in own} == {
        name: DEFAULTS[name] for name in plain if name in DEFAULTS and name not in own
    }
    search = {"front_end", "cv", "calibrate", "budget", "n_jobs", "callback", "random_state"}
    assert set(arguments(JointPLDACV)) - set(DEFAULTS) == search


@pytest.mark.parametrize("cls", [PLDA, JointPLDA, JointPLDACV])
def test_settings_are_given_by_name(cls):
    kinds = {one.kind for one in inspect.signature(cls).parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if not (rule.rank or rule.per_condition)])
def test_a_setting_out_of_its_range_is_refused_by_name(name):
    for value in (-1.0, "nonsense", float("nan"), None):
        with pytest.raises(InputError, match=f"{name}: expected"):
            checked_settings({name: value})


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.most < 1e300])
def test_the_largest_value_is_taken_and_no_larger(name):
    rule = RULES[name]

    def check(value):
        return per_condition(name, [0.0, value], 2) if rule.per_condition else checked_settings({name: value})

    check(rule.most)
    with pytest.raises(InputError, match=f"{name}: expected"):
        check(1.001 * rule.most)


def test_lists_become_tuples_and_settings_can_be_keys():
    settings = ModelSettings(channel_rank=[2, 1], channel_share=[0.5, 1.0])
    assert (settings.channel_rank, settings.channel_share) == ((2, 1), (0.5, 1.0))
    assert {settings: 1}[ModelSettings(channel_rank=(2, 1), channel_share=(0.5, 1.0))] == 1


@pytest.mark.parametrize(
    ("settings", "penalised"),
    [
        ({}, False),
        ({"noise_prior": 1.0}, True),
        ({"interaction": "proportional"}, True),
        ({"interaction": "proportional", "interaction_prior": (0.4, 0.0)}, False),
        ({"interaction": "full"}, True),
        ({"interaction": "full", "interaction_rank": 2}, False),  # G G' of low rank has no prior
        ({"channel_prior": 1.0}, False),  # applied after EM
    ],
)
def test_the_trace_of_em_says_whether_it_includes_a_prior(settings, penalised):
    X, speakers, channels = small_world()
    model = JointPLDA(max_iter=3, **settings)
    assert quietly(model, X, speakers, channels).fitted_.trace.penalised is penalised
