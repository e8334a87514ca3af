"""The search for settings on the command line: tune, train by default, and the scores of their models."""

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jointplda import JointPLDA, JointPLDACV, Pipeline, make_pipeline
from jointplda.calibration import AffineCalibration, save_calibration
from jointplda.formats import read_scores
from jointplda.report.gather import training_of
from jointplda.report.training_plots import MOST_ATTEMPTS, attempts_plot
from worlds.command_line import run, score_arguments, train_arguments


@pytest.fixture(scope="module")
def automatic(files, tmp_path_factory):
    """The world's training files through ``train``, and through the API."""
    folder, train, *_ = files
    path = tmp_path_factory.mktemp("automatic") / "m"
    done = run("train", *train_arguments(folder, "tsv"), "--out", path)
    pipe = make_pipeline(JointPLDACV(random_state=0)).fit(train.X, train.speaker, channels=train.language)
    return path, done, pipe


def test_train_is_the_automatic_model(automatic, files):
    path, done, pipe = automatic
    stored = Pipeline.load(path)
    assert [name for name, _ in stored.steps] == ["jointpldacv"]
    assert [name for name, _ in stored[-1].best_estimator_.steps] == ["center", "jointplda"]
    found, expected = stored[-1].best_estimator_[-1], pipe[-1].best_estimator_[-1]
    for name in ("mean_", "V_", "U_", "D_"):
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6, atol=1e-9)
    assert stored[-1].best_params_ == pipe[-1].best_params_
    assert_allclose(found.calibration_.scale, expected.calibration_.scale, rtol=1e-6)
    assert "No speaker was heard in two channels" in done.stderr
    assert "held-out Cllr" in done.stdout
    assert f"{pipe[-1].held_out_cllr_.raw_cllr:.3f} bits raw" in done.stdout


def test_scores_are_calibrated_unless_raw_ones_are_wanted(automatic, files, tmp_path):
    path, _, pipe = automatic
    folder, _, test, pairs, _ = files
    asked = ["score", path, *score_arguments(folder, "tsv"), "--trials", folder / "trials", "--out"]
    run(*asked, tmp_path / "s")
    run(*asked, tmp_path / "raw", "--raw")
    raw = pipe.score_trials(test.X, test.X, pairs, calibrated=False)
    kept = pipe[-1].best_estimator_[-1].calibration_
    assert_allclose(read_scores(tmp_path / "raw").values, raw, rtol=1e-5, atol=1e-5)
    assert_allclose(read_scores(tmp_path / "s").values, kept.scale * raw + kept.offset, rtol=1e-5, atol=1e-5)
    models = tmp_path / "models"
    models.write_text("".join(f"model{i} {one}\n" for i, one in enumerate(test.ids[:3])))
    each = ["--models", models, "--all", "--out"]
    found = []
    for name, more in (("c.txt", []), ("r.txt", ["--raw"])):
        run("score", path, *score_arguments(folder, "tsv"), *each, tmp_path / name, *more)
        found.append(read_scores(tmp_path / name).values)
    assert_allclose(found[0], kept.scale * found[1] + kept.offset, rtol=1e-5, atol=1e-5)


def test_tune_shows_what_was_tried(automatic, files, tmp_path):
    folder, *_ = files
    path, _, pipe = automatic
    given = [*train_arguments(folder, "tsv")]
    shown = run("tune", *given, "--plot", tmp_path / "p.svg", "--out", tmp_path / "m")
    assert shown.stdout.count("chosen") == 2  # in the table, and among how many
    criteria = [float(each) for each in re.findall(r"([\d.]+) ±", shown.stdout)]
    assert criteria == sorted(round(result.criterion, 4) for result in pipe[-1].candidates_)
    assert_array_equal(
        Pipeline.load(tmp_path / "m")[-1].best_estimator_[-1].V_, Pipeline.load(path)[-1].best_estimator_[-1].V_
    )
    picture = ElementTree.parse(tmp_path / "p.svg").getroot()
    assert len(picture.findall(".//{http://www.w3.org/2000/svg}circle")) == len(pipe[-1].candidates_)
    done = json.loads(run("tune", *given, "--json").stdout)
    assert done["chosen"] == {"front_end": "no length norm", **pipe[-1].best_params_}
    assert [one["criterion"] for one in done["candidates"]] == pytest.approx(
        [one.criterion for one in pipe[-1].candidates_]
    )
    assert done["held_out"]["raw_cllr"] == pytest.approx(pipe[-1].held_out_cllr_.raw_cllr, rel=1e-6)
    assert done["design"]["crossed"] == [0]
    assert "exists already" in run("tune", *given, "--plot", tmp_path / "p.svg", code=1).stderr


def test_steps_of_ones_own_take_the_place_of_the_usual_ones(files, tmp_path):
    folder, *_ = files
    run("train", *train_arguments(folder, "tsv"), "--center", "--pca", 5, "--tol", 1e-2, "--out", tmp_path / "m")
    pipe = Pipeline.load(tmp_path / "m")
    assert [name for name, _ in pipe.steps] == ["jointpldacv"]
    assert [name for name, _ in pipe[-1].best_estimator_.steps] == ["center", "pca", "jointplda"]
    assert pipe[-1].best_estimator_["pca"].n_components == 5
    assert pipe[-1].tol == 1e-2
    assert pipe[-1].max_iter == 25


@pytest.mark.parametrize(("options", "kinds"), [
    (["--lda", 4], ["center", "lda", "lengthnorm"]),
    (["--pca", 5], ["center", "lengthnorm", "pca"]),
    (["--whiten", "--pca", 5], ["center", "whiten", "lengthnorm", "pca"]),
    (["--no-length-norm", "--pca", 5], ["center", "pca"]),
    (["--no-length-norm"], ["center-1", "center-2"]),
    (["--pca", 5, "--length-norm"], ["pca", "lengthnorm"]),
])  # fmt: skip
def test_centring_and_length_norm_stay_around_steps_that_do_not_say_where(options, kinds, files, tmp_path):
    folder, *_ = files
    run("train", *train_arguments(folder, "tsv"), *options, "--max-iter", 2, "--out", tmp_path / "m")
    best = Pipeline.load(tmp_path / "m")[-1].best_estimator_
    assert [name for name, _ in best.steps[:-1]] == kinds


def test_best_params_and_auto_do_not_mix(files, tmp_path):
    folder, *_ = files
    base = ["train", *train_arguments(folder, "tsv"), "--out", tmp_path / "m"]
    assert "--noise-prior, --speaker-prior" in run(
        *base, "--auto", "--noise-prior", 1, "--speaker-prior", 1, code=2
    ).stderr  # fmt: skip
    planned = run(*base, "--plan").stdout
    assert "whole command" in planned
    assert "solver" in planned
    assert "12 dimensions after preprocessing" in planned
    assert not (tmp_path / "m").exists()
    run(*base, "--noise-prior", 1)
    assert type(Pipeline.load(tmp_path / "m")[-1]) is JointPLDA
    run(*base, "--no-auto", "--force")
    assert Pipeline.load(tmp_path / "m")[-1].noise_prior == 0


@pytest.mark.parametrize(("keep", "advised"), [("two speakers", True), ("one sample each", False)])
def test_no_auto_is_advised_only_where_it_helps(keep, advised, files, tmp_path):
    folder, train, *_ = files
    two = np.isin(train.speaker, train.speaker[[0, -1]])
    first = np.isin(np.arange(len(train.ids)), np.unique(train.speaker, return_index=True)[1])
    kept = two if keep == "two speakers" else first
    (tmp_path / "utt2spk").write_text("".join(f"{i} {s}\n" for i, s in zip(train.ids[kept], train.speaker[kept])))
    base = ["train", folder / "train.npy", "--labels", folder / "train.tsv", "--speaker", tmp_path / "utt2spk",
            "--allow-missing", "--out", tmp_path / "m"]  # fmt: skip
    error = run(*base, code=1).stderr
    assert "at least 4 speakers" in error
    assert ("--no-auto" in error) == advised
    assert not (tmp_path / "m").exists()
    run(*base, "--no-auto", code=0 if advised else 1)


def test_resuming_drops_the_calibration_and_says_so(automatic, files, tmp_path):
    path, *_ = automatic
    folder, *_ = files
    done = run("train", *train_arguments(folder, "tsv"), "--resume", path, "--max-iter", 3, "--out", tmp_path / "m")
    assert "and the new one is not" in done.stderr
    assert Pipeline.load(tmp_path / "m")[-1].calibration_ is None


def test_resuming_needs_the_same_channels(automatic, files, tmp_path):
    path, *_ = automatic
    folder, *_ = files
    asked = [each if each != "language" else "speaker" for each in train_arguments(folder, "tsv")]
    done = run("train", *asked, "--resume", path, "--out", tmp_path / "m", code=1).stderr
    assert "was trained with --channel language, not speaker" in done


def test_two_calibrations_are_said(automatic, files, tmp_path):
    path, *_ = automatic
    folder, *_ = files
    save_calibration(AffineCalibration(2.0, 1.0), tmp_path / "c")
    asked = ["score", path, *score_arguments(folder, "tsv"), "--trials", folder / "trials", "--calibration",
             tmp_path / "c", "--out"]  # fmt: skip
    assert "--raw leaves it out" in run(*asked, tmp_path / "both").stderr
    assert "--raw" not in run(*asked, tmp_path / "one", "--raw").stderr
    asked[1] = folder / "api.safetensors"  # has no calibration
    assert "--raw" not in run(*asked, tmp_path / "other").stderr


def test_info_of_an_automatic_model(automatic):
    path, _, pipe = automatic
    done = json.loads(run("info", path, "--json").stdout)
    assert done["chosen"] == {"front_end": "no length norm", **pipe[-1].best_params_}
    assert done["preprocessing"] == ["Center()"]
    assert done["calibration"]["scale"] == pytest.approx(pipe[-1].best_estimator_[-1].calibration_.scale, rel=1e-6)
    assert done["candidates"] == len(pipe[-1].candidates_)


def test_converting_says_that_the_calibration_stays_behind(automatic, tmp_path):
    path, *_ = automatic
    done = run("convert", "model", path, tmp_path / "k.plda", "--absorb-channel").stderr
    assert "hold no calibration" in done


def test_many_attempts_are_cut_to_the_best(automatic):
    training = training_of(automatic[2])
    first = automatic[2][-1].candidates_[0]
    many = [
        replace(first, candidate=replace(first.candidate, noise_prior=100 + i), min_cllrs=(1 - i / 100, 0.99 - i / 100),
                chosen=i == 29)
        for i in range(30)
    ]  # fmt: skip
    drawing = attempts_plot(type(training)(**{**vars(training), "attempts": many}))
    assert drawing.note == f"The {30 - MOST_ATTEMPTS} worst are left out."
    assert ">129 / " in drawing.body
    assert ">100 / " not in drawing.body


def test_what_was_chosen_can_be_given_by_hand_and_goes_on(automatic, files, tmp_path):
    path, _, pipe = automatic
    folder, train, *_ = files
    chosen, given = pipe[-1].best_params_, [*train_arguments(folder, "tsv"), "--center"]
    options = {
        "--noise-prior": chosen["noise_prior"], "--speaker-prior": chosen["speaker_prior"],
        "--channel-rank": chosen["channel_rank"][0], "--channel-prior": chosen["channel_prior"][0],
        "--channel-share": chosen["channel_share"][0], "--interaction": chosen["interaction"],
        "--cell-share": chosen["cell_share"], "--max-iter": 25, "--tol": 1e-3,
    }  # fmt: skip
    each = [text for option in options.items() for text in option]
    done = run("train", *given, *each, "--out", tmp_path / "m")
    assert f"U of rank {chosen['channel_rank'][0]} (language)" in done.stdout
    found, X = Pipeline.load(tmp_path / "m"), pipe[-1].best_estimator_[:1].transform(train.X)
    expected = JointPLDA(max_iter=25, tol=1e-3, **chosen).fit(X, train.speaker, channels=train.language)
    for name in ("V_", "U_", "D_"):
        assert_allclose(getattr(found[-1], name), getattr(expected, name), rtol=1e-6, atol=1e-8)
    run("train", *train_arguments(folder, "tsv"), "--resume", path, "--max-iter", 2, "--out", tmp_path / "on")
    on, before = Pipeline.load(tmp_path / "on")[-1], pipe[-1].best_estimator_[-1].log_likelihoods_[-1]
    assert before < on.log_likelihoods_[0] < before + 0.1
    assert on.channel_ranks_ == (len(on.mean_),)


@pytest.mark.parametrize("name", [
    "center", "length_norm", "pca", "lda", "speaker_rank", "channel_rank", "noise", "noise_prior", "speaker_prior",
    "channel_prior", "channel_share", "interaction", "cell_share", "seed",
])  # fmt: skip
def test_what_the_model_stores_is_not_given_again(name, files, tmp_path):
    folder, *_ = files
    option = f"--{name.replace('_', '-')}"
    values = {"center": [], "length_norm": [], "noise": ["full"]}.get(name, [1])
    resumed = ["--resume", folder / "api.safetensors", "--out", tmp_path / "m"]
    done = run("train", *train_arguments(folder, "tsv"), *resumed, option, *values, code=2).stderr
    assert f"{option}: stored in the resumed model" in done


@pytest.mark.parametrize("option", [["--cell-share", 0.5], ["--interaction-rank", 2], ["--interaction-prior", 0.3, 5]])
def test_settings_of_the_interaction_need_one(option, files, tmp_path):
    folder, *_ = files
    given = ["train", *train_arguments(folder, "tsv"), "--max-iter", 2, *option]
    out = ["--out", tmp_path / "m"]
    assert f"{option[0]} needs an --interaction" in run(*given, *out, code=2).stderr
    run(*given, *out, "--interaction", "full")
    model = Pipeline.load(tmp_path / "m")[-1]
    assert model.get_params()[option[0][2:].replace("-", "_")] in (0.5, 2, (0.3, 5.0))


def test_options_per_channel(files, tmp_path):
    folder, *_ = files
    data = [folder / "train.npy", "--labels", folder / "train.tsv", "--speaker", "speaker", "--out", tmp_path / "m"]
    for option in ("--channel-prior", "--channel-share", "--channel-rank"):
        assert f"{option} needs a --channel" in run("train", *data, option, 1, code=2).stderr
        done = run("train", *data, "--channel", "language", option, 1, option, 1, code=2).stderr
        assert f"{option}: give one value, or one for every --channel" in done
        if option != "--channel-prior":
            done = run("train", *data, "--channel", "language", "--auto", option, 1, code=2).stderr
            assert f"{option}: chosen by --auto" in done


def test_a_prior_for_u_beside_what_is_chosen(files, tmp_path):
    folder, *_ = files
    run("train", *train_arguments(folder, "tsv"), "--channel-prior", 0, "--out", tmp_path / "m")
    model = Pipeline.load(tmp_path / "m")[-1]
    assert model.best_estimator_[-1].calibration_ is not None
    assert model.best_params_["channel_prior"] == [0.0]
    assert model.best_estimator_[-1].channel_ranks_ == tuple(model.best_params_["channel_rank"])
    info = json.loads(run("info", tmp_path / "m", "--json").stdout)
    assert info["channel ranks"] == {"language": model.best_params_["channel_rank"][0]}


def test_conditions_are_resumed_by_their_names(files, tmp_path):
    folder, train, *_ = files
    (tmp_path / "utt2room").write_text("".join(f"{i} room{k % 3}\n" for k, i in enumerate(train.ids)))
    data = [folder / "train.npy", "--labels", folder / "train.tsv", "--speaker", "speaker"]
    both = ["--channel", "language", "--channel", tmp_path / "utt2room"]
    run("train", *data, *both, "--channel-rank", 2, "--channel-rank", 1, "--channel-prior", 0.1, "--channel-prior", 3,
        "--max-iter", 5, "--out", tmp_path / "m")  # fmt: skip
    found = []
    for order in (both, [*both[2:], *both[:2]]):
        run("train", *data, *order, "--resume", tmp_path / "m", "--max-iter", 2, "--out", tmp_path / "on", "--force")
        found.append(Pipeline.load(tmp_path / "on")[-1])
    assert_array_equal(found[0].log_likelihoods_, found[1].log_likelihoods_)
    assert_array_equal(found[0].U_, found[1].U_)
    assert found[1].training_["conditions"] == ["language", "room"]


def test_a_resumed_model_is_not_searched_and_its_plan_has_the_new_iterations(automatic, files, tmp_path):
    path, *_ = automatic
    folder, *_ = files
    resumed = ["train", *train_arguments(folder, "tsv"), "--resume", path]
    assert "leave out --auto, or --resume" in run(*resumed, "--auto", "--out", tmp_path / "m", code=2).stderr
    assert json.loads(run(*resumed, "--max-iter", 7, "--plan", "--json").stdout)["max_iterations"] == 7
