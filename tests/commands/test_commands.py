"""The command line from files to a report, against the Python API."""

import json
import os
import shutil

import numpy as np
import pytest
from numpy.testing import assert_allclose

from jointplda import PLDA, InputError, JointPLDA, JointPLDACV, formats, make_pipeline, metrics
from jointplda.calibration import fit_affine
from jointplda.commands import plan_output
from jointplda.commands.demo_run import EXPORTED_TRIALS
from jointplda.commands.plan_output import planned_dimension
from jointplda.evaluation.protocol import LabelledSamples
from jointplda.formats import read_scores
from jointplda.preprocessing import LDA, PCA, Center, LengthNorm, Reduce
from worlds.command_line import TRAIN, run, score_arguments, train_arguments
from worlds.files_on_disk import as_rows


@pytest.mark.parametrize("kind", ["tsv", "kaldi"])
def test_from_files_to_a_report(kind, files, tmp_path):
    folder, _, test, pairs, model = files
    run("train", *train_arguments(folder, kind), *TRAIN, "--out", tmp_path / "m")
    run("score", tmp_path / "m", *score_arguments(folder, kind), "--trials", folder / "trials", "--out", tmp_path / "s")
    expected = model.score_trials(test.X, test.X, pairs)
    found = read_scores(tmp_path / "s")
    assert_allclose(found.values, expected, rtol=1e-5, atol=1e-5)
    target = test.speaker[pairs[:, 0]] == test.speaker[pairs[:, 1]]

    trained = run("calibrate", "train", tmp_path / "s", "--key", folder / "trials", "--out", tmp_path / "c", "--json")
    calibration = fit_affine(expected, target)
    fitted = json.loads(trained.stdout)
    assert_allclose(fitted["scale"], calibration.scale, rtol=1e-4)
    assert_allclose(fitted["cllr_before"], metrics.cllr(expected, target), rtol=1e-4)
    assert_allclose(fitted["cllr_after"], metrics.cllr(calibration.apply(expected), target), rtol=1e-4)
    run("calibrate", "apply", tmp_path / "c", tmp_path / "s", "--out", tmp_path / "t")
    calibrated = calibration.apply(expected)
    assert_allclose(read_scores(tmp_path / "t").values, calibrated, rtol=1e-4, atol=1e-4)

    labels = ["--labels", folder / "test.tsv", "--speaker", "speaker", "--channel", "language"]
    if kind == "kaldi":
        data = folder / "kaldi-test"
        labels = ["--speaker", data / "utt2spk", "--channel", data / "utt2lang"]
    page = ["--report", tmp_path / "r.html", "--model", tmp_path / "m"]
    result = run("evaluate", tmp_path / "t", "--key", folder / "trials", *labels, *page, "--draws", 100, "--json")
    parts = json.loads(result.stdout)["parts"]
    expected = metrics.measure(calibrated, target)
    assert_allclose(parts["pooled"]["EER"], expected.eer, rtol=1e-3)
    assert_allclose(parts["pooled"]["Cllr"], expected.cllr, rtol=1e-3)
    same = test.language[pairs[:, 0]] == test.language[pairs[:, 1]]
    parted = metrics.type_pairs(target, same)
    for name in metrics.TYPE_PAIRS:
        assert_allclose(parts[name]["EER"], metrics.eer(calibrated[parted[name]], target[parted[name]]), rtol=1e-3)
        low, high = parts[name]["intervals"]["EER"]
        assert low <= high
    text = (tmp_path / "r.html").read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "cross" in text


def test_models_of_several_samples(files, tmp_path):
    folder, _, test, _, model = files
    enrolled = {f"m{s}": test.ids[(test.speaker == s)][:3].tolist() for s in ("t00", "t01", "t02")}
    (tmp_path / "spk2utt").write_text("".join(f"{m} {' '.join(ids)}\n" for m, ids in enrolled.items()))
    tests = test.ids[-40:]
    (tmp_path / "trials").write_text("".join(f"{m} {t}\n" for m in ("mt02", "mt00") for t in tests))
    run("score", folder / "api.safetensors", *score_arguments(folder, "tsv"), "--models", tmp_path / "spk2utt",
        "--trials", tmp_path / "trials", "--out", tmp_path / "s")  # fmt: skip
    rows = [i for m in ("mt02", "mt00") for i in np.flatnonzero(np.isin(test.ids, enrolled[m]))]
    enrollment = model.enroll(test.X[rows], ["mt02"] * 3 + ["mt00"] * 3)
    expected = model.score_enrollment(enrollment, test.X[-40:], models=["mt02", "mt00"])
    found = read_scores(tmp_path / "s")
    assert_allclose(found.values.reshape(2, -1), expected, rtol=1e-5, atol=1e-5)
    run("score", folder / "api.safetensors", *score_arguments(folder, "tsv"), "--models", tmp_path / "spk2utt",
        "--all", "--channel", "language", "--out", tmp_path / "k")  # fmt: skip
    kept = read_scores(tmp_path / "k")
    assert len(kept.values) == 3 * (len(test.ids) - 3)
    assert not any(b in enrolled[a] for a, b in as_rows(kept.trials))


def test_known_channels_and_all_pairs(files, tmp_path):
    folder, _, test, _, model = files
    base = ["score", folder / "api.safetensors", *score_arguments(folder, "tsv"), "--all"]
    run(*base, "--channel", "language", "--out", tmp_path / "s.npy")
    known = {"enroll_channels": test.language, "test_channels": test.language}
    assert_allclose(np.load(tmp_path / "s.npy"), model.score_matrix(test.X, test.X, **known), rtol=1e-4, atol=1e-4)
    run(*base, "--same-channel", "0.2", "--out", tmp_path / "s.txt")
    found = read_scores(tmp_path / "s.txt")
    assert len(found.values) == len(test.ids) * (len(test.ids) - 1)
    matrix = model.score_matrix(test.X, test.X, 0.2)
    off_diagonal = matrix[~np.eye(len(matrix), dtype=bool)]
    assert_allclose(found.values, off_diagonal, rtol=1e-4, atol=1e-4)


def test_calibrated_in_one_step(files, tmp_path):
    folder, *_ = files
    common = ["score", folder / "api.safetensors", *score_arguments(folder, "tsv"), "--trials", folder / "trials"]
    run(*common, "--out", tmp_path / "s")
    run("calibrate", "train", tmp_path / "s", "--key", folder / "trials", "--method", "pav", "--out", tmp_path / "c")
    run(*common, "--calibration", tmp_path / "c", "--out", tmp_path / "one")
    run("calibrate", "apply", tmp_path / "c", tmp_path / "s", "--out", tmp_path / "two")
    assert_allclose(read_scores(tmp_path / "one").values, read_scores(tmp_path / "two").values, rtol=1e-9)
    assert "PAV" in run("info", tmp_path / "c").stdout


def test_plan_writes_nothing(files, tmp_path):
    folder, *_ = files
    result = run("train", *train_arguments(folder, "tsv"), *TRAIN, "--plan", "--json", "--out", tmp_path / "m")
    plan = json.loads(result.stdout)
    assert plan["factors"] == ["speaker", "language"]
    assert plan["levels"] == [40, 4]
    assert plan["ranks"] == [4, 2]
    assert plan["dimensions"] == 8
    assert plan["max_iterations"] == 30
    assert os.listdir(tmp_path) == []
    assert "30 iterations at most" in run("train", *train_arguments(folder, "tsv"), *TRAIN, "--plan").stdout


@pytest.mark.parametrize("n_components", [4, 11, 12])
@pytest.mark.parametrize("least_speakers", [40, 41])
def test_the_planned_dimension_is_that_of_the_fit(n_components, least_speakers, files):
    _, train, *_ = files
    samples = LabelledSamples(train.ids, train.X, train.speaker)
    for steps in ([Reduce(n_components, least_speakers=least_speakers)], [Center(), PCA(9), LDA(n_components - 3)],
                  [PCA()], [LDA()], [LengthNorm(), Reduce(5, least_speakers=least_speakers), Center()]):  # fmt: skip
        pipe = make_pipeline(*steps, PLDA())
        planned = planned_dimension(pipe, samples)
        assert planned == pipe[:-1].fit(train.X, train.speaker).transform(train.X).shape[1]


def test_a_plan_keeps_all_dimensions_of_few_samples(files):
    _, train, *_ = files
    few = LabelledSamples(train.ids[:8], train.X[:8], train.ids[:8])
    for n_components, dimension in ((5, 12), (4, 4)):
        step = Reduce(n_components, least_speakers=8)
        assert planned_dimension(make_pipeline(step, PLDA()), few) == dimension
        assert step.fit_transform(few.X, few.speakers).shape[1] == dimension


def test_a_plan_counts_the_whole_training(files, monkeypatch):
    folder, *_ = files
    monkeypatch.setattr(plan_output, "measured_flops", lambda: 1e9)
    found = json.loads(run("train", *train_arguments(folder, "tsv"), *TRAIN, "--plan", "--json").stdout)
    _, train, *_ = files
    X = np.zeros((len(train.ids), 8))
    plan = JointPLDA(speaker_rank=4, channel_rank=2, max_iter=30).plan(X, train.speaker, train.language)
    assert found["seconds_per_iteration"] == plan.work / 1e9
    assert found["seconds"] == plan.total_work / 1e9
    assert plan.total_work == 30 * plan.work + 14.0 * X.size * 8


def test_a_plan_of_a_search_counts_all_its_fits(files):
    _, train, *_ = files
    model = JointPLDACV(cv=3, front_end="none", max_iter=5)
    plan = model.plan(train.X, train.speaker, train.language)
    assert plan.iterations == 17 * 3 * 5 + 5
    assert plan.ranks[1] == 3
    assert plan.beside > 4 * 14.0 * train.X.size * train.X.shape[1]
    assert model.set_params(budget=1.0).plan(train.X, train.speaker, train.language).ranks[1] == 3  # cost little more
    with pytest.raises(InputError, match="at least 4 speakers"):
        model.plan(train.X[:6], [0, 0, 1, 1, 2, 2])


def test_a_plan_fits_no_preprocessing(files, monkeypatch):
    folder, *_ = files
    monkeypatch.setattr(PCA, "fit", lambda *_: pytest.fail("fitted"))
    run("train", *train_arguments(folder, "tsv"), *TRAIN, "--plan")


def test_steps_follow_the_command_line(files, tmp_path):
    folder, *_ = files
    run("train", *train_arguments(folder, "tsv"), "--pca", 6, "--center", "--length-norm", "--max-iter", 3, "--out",
        tmp_path / "m")  # fmt: skip
    steps = json.loads(run("info", tmp_path / "m", "--json").stdout)["preprocessing"]
    assert [step.split("(")[0] for step in steps] == ["PCA", "Center", "LengthNorm"]


def test_resume_goes_on(files, tmp_path):
    folder, *_ = files
    arguments = train_arguments(folder, "tsv")
    first = json.loads(run("train", *arguments, *TRAIN[:-1], 5, "--out", tmp_path / "a", "--json").stdout)
    again = ["--resume", tmp_path / "a", "--max-iter", 5, "--out", tmp_path / "b", "--json"]
    second = json.loads(run("train", *arguments, *again).stdout)
    whole = json.loads(run("train", *arguments, *TRAIN[:-1], 10, "--out", tmp_path / "c", "--json").stdout)
    done = run("train", *arguments, "--resume", tmp_path / "a", "--pca", 3, "--out", tmp_path / "d", code=2).stderr
    assert "--pca" in done
    assert first["log_likelihood_per_sample"] < second["log_likelihood_per_sample"]
    assert_allclose(second["log_likelihood_per_sample"], whole["log_likelihood_per_sample"], rtol=1e-6)


def test_without_channels_it_is_plda(files, tmp_path):
    folder, *_ = files
    run("train", *train_arguments(folder, "tsv")[:-2], "--no-auto", "--max-iter", 5, "--out", tmp_path / "m")
    assert json.loads(run("info", tmp_path / "m", "--json").stdout)["holds"] == "PLDA"
    run("train", *train_arguments(folder, "tsv")[:-2], "--out", tmp_path / "a")
    info = json.loads(run("info", tmp_path / "a", "--json").stdout)
    assert info["holds"] == "JointPLDACV"
    assert info["channel ranks"] == {}


def test_two_conditions_and_missing_labels(files, tmp_path):
    folder, train, *_ = files
    room = np.where(np.arange(len(train.ids)) % 3 == 0, "", np.where(np.arange(len(train.ids)) % 2, "hall", "cell"))
    (tmp_path / "utt2room").write_text("".join(f"{i} {r}\n" for i, r in zip(train.ids, room) if r))
    done = run("train", *train_arguments(folder, "tsv"), "--channel", tmp_path / "utt2room", "--channel-rank", 2,
               "--channel-rank", 1, "--max-iter", 5, "--out", tmp_path / "m")  # fmt: skip
    assert "have no room" in done.stderr
    info = json.loads(run("info", tmp_path / "m", "--json").stdout)
    assert info["channel ranks"] == {"language": 2, "room": 1}


def test_evaluate_speakers_from_targets_and_conditions(files, tmp_path):
    folder, _, test, pairs, _ = files
    run("score", folder / "api.safetensors", *score_arguments(folder, "tsv"), "--trials", folder / "trials", "--out",
        tmp_path / "s.txt", "--format", "wespeaker")  # fmt: skip
    result = json.loads(run("evaluate", tmp_path / "s.txt", "--labels", folder / "test.tsv", "--by", "language",
                            "--draws", 50, "--json").stdout)  # fmt: skip
    assert 14 <= result["speakers"] <= 20  # samples without any target trial count as speakers of their own
    both_english = (test.language[pairs] == "en").all(axis=1)
    part = result["parts"]["language = en"]
    assert part["targets"] + part["nontargets"] == both_english.sum()
    assert "language = de / en" in result["parts"]
    shutil.copy(tmp_path / "s.txt", tmp_path / "t.txt")
    plain = run("evaluate", tmp_path / "s.txt", tmp_path / "t.txt", "--draws", 0).stdout
    assert plain.count("EER") == 1
    assert "given twice" in run("evaluate", tmp_path / "s.txt", tmp_path / "s.txt", code=2).stderr


def test_compare(files, tmp_path):
    folder, *_ = files
    both = ["--labels", folder / "train.tsv", "--speaker", "speaker", "--channel", "language", "--pca", 8]
    result = run("compare", folder / "train.npy", *both, "--draws", 20, "--max-iter", 10, "--report",
                 tmp_path / "r.html", "--json", "--test-share", 0.4)  # fmt: skip
    systems = json.loads(result.stdout)["systems"]
    assert list(systems) == [
        "cosine", "cosine, channel means removed", "LDA + PLDA", "LDA + PLDA, channel means removed", "PLDA",
        "PLDA, channel means removed", "Joint PLDA", "PLDA, automatic", "Joint PLDA, automatic",
    ]  # fmt: skip
    assert (tmp_path / "r.html").stat().st_size > 50_000
    run("compare", folder / "train.npy", *both, "--test", folder / "train.npy", code=1)
    done = run("compare", folder / "train.npy", *both, "--draws", 0, "--system", "cosine", "-v").stderr
    assert "cosine ..." in done
    assert "cosine: trained and scored" in done


def test_the_training_in_a_report_is_of_the_last_system(files, tmp_path, monkeypatch):
    folder, *_ = files
    lines = [line.split() for line in (folder / "trials").read_text().splitlines()]
    for name in ("first", "last"):
        (tmp_path / name).write_text("".join(f"{a} {b} {k % 7}\n" for k, (a, b, _) in enumerate(lines)))
    written = []
    monkeypatch.setattr("jointplda.commands.evaluate_run.write_report", lambda *rest: written.append(rest))
    run("evaluate", tmp_path / "first", tmp_path / "last", "--key", folder / "trials", "--draws", 0, "--model",
        folder / "api.safetensors", "--report", tmp_path / "r.html")  # fmt: skip
    [(_, title, systems, *_)] = written
    assert title == "2 systems on the same trials"
    assert [(each.name, each.training is None) for each in systems] == [("first", True), ("last", False)]


def test_the_exported_voices(tmp_path):
    run("demo", "--export", tmp_path / "voices")
    tables = {name: formats.read_embeddings(tmp_path / "voices" / f"{name}.npz") for name in ("calibration", "test")}
    voices = {name: set(table.columns["voice"].tolist()) for name, table in tables.items()}
    assert not voices["calibration"] & voices["test"]
    assert min(voices["calibration"] | voices["test"]) in voices["calibration"]
    for name, table in tables.items():
        trials = formats.read_trials(tmp_path / "voices" / f"{name}.trials")
        rows = table.rows(trials.models)[trials.enroll], table.rows(trials.samples)[trials.test]
        assert len(trials) == EXPORTED_TRIALS
        assert (rows[0] < rows[1]).all()
        voice = table.columns["voice"]
        assert ((voice[rows[0]] == voice[rows[1]]) == (trials.target == 1)).all()
    assert "exists already" in run("demo", "--export", tmp_path / "voices", code=1).stderr


def test_info_names_the_channels_of_each_condition(files, tmp_path):
    folder, train, *_ = files
    (tmp_path / "utt2site").write_text("".join(f"{i} here\n" for i in train.ids))
    for order in (0, 1):
        channels = [["--channel", tmp_path / "utt2site"], ["--channel", "language"]][:: 1 - 2 * order]
        run("train", *train_arguments(folder, "tsv")[:-2], *channels[0], *channels[1], "--no-auto", "--pca", 6,
            "--channel-prior", 0.5, "--max-iter", 3, "--out", tmp_path / "m", "--force")  # fmt: skip
        info = json.loads(run("info", tmp_path / "m", "--json").stdout)
        assert info["channel ranks"] == {"site": 0, "language": 3}
        assert info["channels"] == {"language": ["de", "en", "fr", "sv"]}
