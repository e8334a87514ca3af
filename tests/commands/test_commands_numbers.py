"""Numbers that the commands give, against the Python API, in every order and with parts missing."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from jointplda import InputError, Pipeline
from jointplda.calibration import fit_affine, load_calibration
from jointplda.commands.data_input import LabelColumn, SampleReader
from jointplda.commands.messages import Messages
from jointplda.commands.options import LabelledFile
from jointplda.evaluation.evaluate import EvaluationSettings, TrialSides, evaluate
from jointplda.formats import read_scores
from worlds.command_line import run, score_arguments
from worlds.files_on_disk import as_rows, write_tables
from worlds.small_blocks import blocks_of


@pytest.mark.parametrize("known", [False, True])
def test_models_are_scored_in_any_order_and_in_pieces(known, files, tmp_path, monkeypatch):
    blocks_of(monkeypatch, 3)
    folder, _, test, _, model = files
    rng = np.random.default_rng(0)
    rows = {"m2": [5, 1, 40], "m0": [7], "m1": [20, 33]}
    (tmp_path / "spk2utt").write_text("".join(f"{m} {' '.join(test.ids[r])}\n" for m, r in rows.items()))
    pairs = [(m, i) for m in ("m1", "m2") for i in rng.permutation(len(test.ids))[:11]]
    pairs = [pairs[i] for i in rng.permutation(len(pairs))]
    (tmp_path / "t").write_text("".join(f"{m} {test.ids[i]}\n" for m, i in pairs))
    how = ["--channel", "language"] if known else ["--same-channel", 0.2]
    run("score", folder / "api.safetensors", *score_arguments(folder, "tsv"), "--models",
        tmp_path / "spk2utt", "--trials", tmp_path / "t", "--out", tmp_path / "s", *how)  # fmt: skip
    expected = []
    for name, i in pairs:
        own = model.enroll(test.X[rows[name]], [name] * len(rows[name]), test.language[rows[name]] if known else None)
        with_what = {"test_channels": test.language[[i]]} if known else {"same_channel": 0.2}
        expected.append(model.score_enrollment(own, test.X[[i]], **with_what).item())
    found = read_scores(tmp_path / "s")
    assert as_rows(found.trials) == [(m, str(test.ids[i])) for m, i in pairs]
    assert_allclose(found.values, expected, rtol=1e-8, atol=1e-8)


def test_models_with_missing_samples(files, tmp_path):
    folder, _, test, _, model = files
    (tmp_path / "spk2utt").write_text(f"m {test.ids[3]} absent {test.ids[9]}\n")
    (tmp_path / "t").write_text(f"m {test.ids[50]}\nm nobody\n")
    run("score", folder / "api.safetensors", *score_arguments(folder, "tsv"), "--models",
        tmp_path / "spk2utt", "--trials", tmp_path / "t", "--out", tmp_path / "s", "--allow-missing")  # fmt: skip
    expected = model.score_enrollment(model.enroll(test.X[[3, 9]], ["m", "m"]), test.X[[50]])
    assert_allclose(read_scores(tmp_path / "s").values, expected[0], rtol=1e-8)


def test_truth_follows_its_trials_when_some_are_left_out(files, tmp_path):
    folder, _, test, _, model = files
    a, b, c = test.ids[[0, 1, 9]]
    (tmp_path / "t").write_text(f"{a} nobody target\n{a} {c} nontarget\n{a} {b} target\n")
    run("score", folder / "api.safetensors", *score_arguments(folder, "tsv"), "--trials",
        tmp_path / "t", "--allow-missing", "--format", "wespeaker", "--out", tmp_path / "s")  # fmt: skip
    found = read_scores(tmp_path / "s")
    assert_array_equal(found.trials.target, [0, 1])
    assert_allclose(found.values, model.score_matrix(test.X[[0]], test.X[[9, 1]])[0], rtol=1e-8)


def test_all_pairs_of_two_files_leave_out_the_same_ids(files, tmp_path):
    folder, _, test, _, model = files
    part = test.take(np.arange(20)[::-1])
    write_tables(tmp_path, "part", part)
    ids = tmp_path / "both.tsv"
    ids.write_text((folder / "test.tsv").read_text())
    np.savez(tmp_path / "part.npz", embeddings=part.X, ids=part.ids)
    np.savez(tmp_path / "test.npz", embeddings=test.X, ids=test.ids)
    sides = ["--enroll", tmp_path / "part.npz", "--test", tmp_path / "test.npz"]
    run("score", folder / "api.safetensors", *sides, "--all", "--out", tmp_path / "s")
    found = read_scores(tmp_path / "s")
    assert not any(a == b for a, b in as_rows(found.trials))
    matrix = model.score_matrix(part.X, test.X)[part.ids[:, None] != test.ids]
    assert_allclose(found.values, matrix, rtol=1e-6, atol=1e-6)


def random_scores(folder, test, n=600, seed=0):
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, len(test.ids), (2, n))
    first, second = np.unique(np.stack((first, second), axis=1)[first != second], axis=0).T
    order = rng.permutation(len(first))
    first, second = first[order], second[order]
    target = test.speaker[first] == test.speaker[second]
    scores = np.round(rng.normal(size=len(first)) + 2 * target, 3)
    words = np.where(target, "target", "nontarget")
    lines = [f"{test.ids[a]} {test.ids[b]} {s} {w}\n" for a, b, s, w in zip(first, second, scores, words)]
    (folder / "s").write_text("".join(lines))
    return scores, target, first, second


def test_intervals_and_cells_of_the_command_are_those_of_the_speakers(files, tmp_path):
    test = files[2]
    scores, target, first, second = random_scores(tmp_path, test)
    language = test.language.copy()
    language[::5] = ""
    rows = zip(test.ids, test.speaker, language)
    (tmp_path / "l.tsv").write_text("id\tspeaker\tlanguage\n" + "".join("\t".join(row) + "\n" for row in rows))
    done = run("evaluate", tmp_path / "s", "--labels", tmp_path / "l.tsv", "--speaker", "speaker", "--channel",
               "language", "--draws", 40, "--seed", 7, "--json")  # fmt: skip
    found = json.loads(done.stdout)
    known = (language[first] != "") & (language[second] != "")
    same = np.where(known, language[first] == language[second], -1)
    codes = np.unique(test.speaker, return_inverse=True)[1]
    expected = evaluate(scores, target, TrialSides(codes[first], codes[second], same), EvaluationSettings(40, seed=7))
    assert found["speakers"] == expected.speakers == 14
    assert f"{(~known).sum():,} trials lack a channel" in done.stderr
    for name, part in expected.parts.items():
        figures = found["parts"][name]
        assert (figures["targets"], figures["nontargets"]) == (part.targets, part.nontargets)
        assert_allclose(figures["EER"], part.measures.eer)
        for measure, ends in part.intervals.items():
            assert_allclose(figures["intervals"][measure], ends)
    bare = json.loads(run("evaluate", tmp_path / "s", "--not-llr", "--draws", 0, "--json").stdout)["parts"]["pooled"]
    assert not any(name.startswith(("Cllr", "actDCF")) for name in bare)


def test_calibration_takes_its_prior(files, tmp_path):
    scores, target, *_ = random_scores(tmp_path, files[2])
    done = run("calibrate", "train", tmp_path / "s", "--prior", 0.03, "--out", tmp_path / "c", "--json")
    expected = fit_affine(scores, target, prior=0.03)
    found = json.loads(done.stdout)
    assert_allclose([found["scale"], found["offset"]], [expected.scale, expected.offset], rtol=1e-8)
    assert load_calibration(tmp_path / "c").prior == 0.03


def test_samples_without_labels_are_left_out_or_stay_unlabelled(capsys):
    from jointplda.embedding_table import EmbeddingTable

    columns = {"speaker": np.array(["", "s", "t"]), "room": np.array(["x", "", "z"])}
    table = EmbeddingTable(np.array(["a", "b", "c"]), columns, X=np.arange(6.0).reshape(3, 2))
    source = LabelledFile(data=None, labels=None, speaker="speaker", channels=("room",), allow_missing=True)
    reader = SampleReader(source, Messages())
    kept = reader.labelled(table)
    reader.say()
    assert (kept.ids.tolist(), kept.speakers.tolist()) == (["b", "c"], ["s", "t"])
    assert (kept.channels.names, kept.channels.values[0].tolist()) == (("room",), ["", "z"])
    assert_array_equal(kept.X, [[2, 3], [4, 5]])
    said = capsys.readouterr().err
    assert "1 samples without a speaker" in said
    assert "1 samples have no room" in said


def test_labels_from_a_file_that_lacks_some(tmp_path):
    from jointplda.embedding_table import LabelTable

    (tmp_path / "utt2room").write_text("b hall\na cell\n")
    rooms = LabelColumn(str(tmp_path / "utt2room"), "--channel")
    assert rooms.values(LabelTable(np.array(["a", "x", "b"]), {})).tolist() == ["cell", "", "hall"]
    others = LabelTable(np.array(["y", "z"]), {})
    assert rooms.values(others, is_part=True).tolist() == ["", ""]
    with pytest.raises(InputError, match="none of its ids is among the samples"):
        rooms.values(others)


def test_compare_trains_on_train_and_tests_on_test(files, tmp_path):
    folder, train, *_ = files
    rows = zip(train.ids, train.speaker, train.language, np.where(train.speaker < "s30", "train", "test"))
    text = "id\tspeaker\tlanguage\tsplit\n" + "".join("\t".join(row) + "\n" for row in rows)
    (tmp_path / "l.tsv").write_text(text)
    done = run("compare", folder / "train.npy", "--labels", tmp_path / "l.tsv", "--speaker", "speaker", "--channel",
               "language", "--split", "split", "--system", "cosine", "--draws", 0, "--json")  # fmt: skip
    pooled = json.loads(done.stdout)["systems"]["cosine"]["parts"]["pooled"]
    assert (pooled["targets"], pooled["targets"] + pooled["nontargets"]) == (10 * 6, 40 * 39 // 2)
    done = run("compare", folder / "train.npy", "--labels", folder / "train.tsv", "--speaker", "speaker", "--channel",
               "language", "--test-share", 0.25, "--system", "cosine", "--draws", 0, "--json")  # fmt: skip
    assert json.loads(done.stdout)["systems"]["cosine"]["parts"]["pooled"]["targets"] == 10 * 6


def test_resume_keeps_the_preprocessing_on_other_data(files, tmp_path):
    folder, _, test, *_ = files
    labels = ["--speaker", "speaker", "--channel", "language"]
    run("train", folder / "train.npy", "--labels", folder / "train.tsv", *labels, "--center", "--length-norm", "--pca",
        6, "--speaker-rank", 3, "--channel-rank", 2, "--max-iter", 3, "--out", tmp_path / "a")  # fmt: skip
    run("train", folder / "test.npy", "--labels", folder / "test.tsv", *labels, "--resume", tmp_path / "a",
        "--max-iter", 2, "--out", tmp_path / "b")  # fmt: skip
    first, second = Pipeline.load(tmp_path / "a"), Pipeline.load(tmp_path / "b")
    assert_array_equal(first[:-1].transform(test.X), second[:-1].transform(test.X))
    assert (first[-1].V_ != second[-1].V_).any()


def test_scores_without_a_label_are_no_nontargets(tmp_path):
    text = "modelid\tsegmentid\tLLR\ttargettype\na\tb\t3\ttarget\nc\td\t-3\tnontarget\na\td\t9\t\nc\tb\t8\t\n"
    (tmp_path / "s.tsv").write_text(text)
    found = json.loads(run("evaluate", tmp_path / "s.tsv", "--json", "--draws", 0).stdout)["parts"]["pooled"]
    assert (found["targets"], found["nontargets"]) == (1, 1)


def test_a_sample_without_a_speaker_counts_as_one(tmp_path):
    (tmp_path / "s").write_text("a b 3 target\nb c -1 nontarget\nc a -2 nontarget\nb a 1 target\nd c 0 nontarget\n")
    (tmp_path / "utt2spk").write_text("d sd\n")
    done = run("evaluate", tmp_path / "s", "--speaker", tmp_path / "utt2spk", "--allow-missing", "--json", "--draws", 9)
    assert json.loads(done.stdout)["speakers"] == 4


def test_models_are_not_the_samples_of_the_same_name(tmp_path):
    (tmp_path / "models").write_text("1 e1\n2 e2\n")
    (tmp_path / "s").write_text("1 2 3 target\n2 1 2 target\n1 1 -1 nontarget\n2 2 -2 nontarget\n")
    done = run("evaluate", tmp_path / "s", "--models", tmp_path / "models", "--json", "--draws", 10)
    assert json.loads(done.stdout)["speakers"] == 2
    (tmp_path / "utt2spk").write_text("x sx\n")
    (tmp_path / "t").write_text("1 1 -1 nontarget\n1 x 2 target\n")
    done = run("evaluate", tmp_path / "t", "--models", tmp_path / "models", "--speaker", tmp_path / "utt2spk",
               "--allow-missing", "--json", "--draws", 10)  # fmt: skip
    assert json.loads(done.stdout)["speakers"] == 3
