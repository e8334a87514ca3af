"""The command line from files to a report, against the Python API."""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

from files_on_disk import api_model, as_rows, make_world, trial_lines, trials_among, write_kaldi, write_tables
from jointplda import PLDA, Pipeline, metrics
from jointplda.calibration import fit_affine
from jointplda.commands import main
from jointplda.commands.app import COMMANDS, app
from jointplda.formats import read_scores

TRAIN = ["--center", "--length-norm", "--pca", "8", "--speaker-rank", "4", "--channel-rank", "2", "--max-iter", "30"]


def run(*arguments, code=0):
    """Run the real entry point and return what it printed and said."""
    result = CliRunner().invoke(_entry, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


class _Entry:
    """What CliRunner needs of a command, going through ``main`` so that errors and exit codes are the real ones."""

    name = "jointplda"

    def main(self, args, prog_name, **rest):
        main(list(args))


_entry = _Entry()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    world, is_train = make_world()
    train, test = world.take(is_train), world.take(~is_train)
    for name, part in (("train", train), ("test", test)):
        write_tables(folder, name, part)
        write_kaldi(folder, f"kaldi-{name}", part)
    np.save(folder / "bare.npy", train.X)
    pairs = trials_among(test)
    (folder / "trials").write_text(trial_lines(test, pairs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = api_model(train)
    model.save(folder / "api.safetensors")
    return folder, train, test, pairs, model


def train_arguments(folder, kind):
    if kind == "tsv":
        return [folder / "train.npy", "--labels", folder / "train.tsv", "--speaker", "speaker", "--channel", "language"]
    data = folder / "kaldi-train"
    return [data / "xvector.scp", "--speaker", data / "utt2spk", "--channel", data / "utt2lang"]


def score_arguments(folder, kind):
    if kind == "tsv":
        return ["--enroll", folder / "test.npy", "--labels", folder / "test.tsv"]
    return ["--enroll", folder / "kaldi-test"]


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
    assert_allclose(json.loads(trained.stdout)["scale"], calibration.scale, rtol=1e-4)
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
    cells = metrics.cell_parts(target, same)
    for name in metrics.CELL_PARTS:
        assert_allclose(parts[name]["EER"], metrics.eer(calibrated[cells[name]], target[cells[name]]), rtol=1e-3)
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
    enrolment = model.enroll(test.X[rows], ["mt02"] * 3 + ["mt00"] * 3)
    expected = model.score_enrolment(enrolment, test.X[-40:], models=["mt02", "mt00"])
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
    assert os.listdir(tmp_path) == []
    assert "an iteration" in run("train", *train_arguments(folder, "tsv"), *TRAIN, "--plan").stdout


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
    told = run("train", *arguments, "--resume", tmp_path / "a", "--pca", 3, "--out", tmp_path / "d", code=2).stderr
    assert "--pca" in told
    assert first["log_likelihood_per_sample"] < second["log_likelihood_per_sample"]
    assert_allclose(second["log_likelihood_per_sample"], whole["log_likelihood_per_sample"], rtol=1e-6)


def test_without_channels_it_is_plda(files, tmp_path):
    folder, *_ = files
    run("train", *train_arguments(folder, "tsv")[:-2], "--max-iter", 5, "--out", tmp_path / "m")
    assert json.loads(run("info", tmp_path / "m", "--json").stdout)["holds"] == "PLDA"


def test_two_conditions_and_missing_labels(files, tmp_path):
    folder, train, *_ = files
    room = np.where(np.arange(len(train.ids)) % 3 == 0, "", np.where(np.arange(len(train.ids)) % 2, "hall", "cell"))
    (tmp_path / "utt2room").write_text("".join(f"{i} {r}\n" for i, r in zip(train.ids, room) if r))
    told = run("train", *train_arguments(folder, "tsv"), "--channel", tmp_path / "utt2room", "--channel-rank", 2,
               "--channel-rank", 1, "--max-iter", 5, "--out", tmp_path / "m")  # fmt: skip
    assert "have no room" in told.stderr
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
    plain = run("evaluate", tmp_path / "s.txt", tmp_path / "s.txt", "--draws", 0).stdout
    assert plain.count("EER") == 1


def test_compare(files, tmp_path):
    folder, *_ = files
    both = ["--labels", folder / "train.tsv", "--speaker", "speaker", "--channel", "language", "--pca", 8]
    result = run("compare", folder / "train.npy", *both, "--draws", 20, "--max-iter", 10, "--report",
                 tmp_path / "r.html", "--json", "--test-share", 0.4)  # fmt: skip
    systems = json.loads(result.stdout)["systems"]
    assert list(systems) == [
        "cosine", "cosine, channel means removed", "LDA + PLDA", "LDA + PLDA, channel means removed", "PLDA",
        "PLDA, channel means removed", "Joint PLDA",
    ]  # fmt: skip
    assert (tmp_path / "r.html").stat().st_size > 50_000
    run("compare", folder / "train.npy", *both, "--test", folder / "train.npy", code=1)


def test_config_file(files, tmp_path):
    folder, *_ = files
    (tmp_path / "c.toml").write_text(
        f'speaker = "speaker"\n[train]\nlabels = "{folder / "train.tsv"}"\nchannel = ["language"]\nmax-iter = 7\n'
        f'channel-rank = [2]\nout = "{tmp_path / "m"}"\n'
    )
    result = run("train", folder / "train.npy", "--config", tmp_path / "c.toml", "--json", "--tol", 0)
    assert json.loads(result.stdout)["iterations"] == 7
    assert json.loads(result.stdout)["channel_ranks"] == [2]
    again = run("train", folder / "train.npy", "--config", tmp_path / "c.toml", "--json", "--max-iter", 4, "--force",
                "--tol", 0)  # fmt: skip
    assert json.loads(again.stdout)["iterations"] == 4
    (tmp_path / "bad.toml").write_text("[train]\nspeeker = 1\n")
    assert "no option 'speeker'" in run("train", folder / "train.npy", "--config", tmp_path / "bad.toml", code=1).stderr
    (tmp_path / "typo.toml").write_text("pcaa = 3\n")
    assert "no option 'pcaa'" in run("train", folder / "train.npy", "--config", tmp_path / "typo.toml", code=1).stderr
    (tmp_path / "table.toml").write_text("[trian]\npca = 3\n")
    assert "[trian]" in run("train", folder / "train.npy", "--config", tmp_path / "table.toml", code=1).stderr
    (tmp_path / "worse.toml").write_text("= 3")
    assert "not a TOML file" in run("train", folder / "train.npy", "--config", tmp_path / "worse.toml", code=1).stderr


def test_nothing_is_overwritten(files, tmp_path):
    folder, *_ = files
    (tmp_path / "m").write_text("mine")
    told = run("train", *train_arguments(folder, "tsv"), "--out", tmp_path / "m", code=1)
    assert "--force" in told.stderr
    assert (tmp_path / "m").read_text() == "mine"
    run("train", *train_arguments(folder, "tsv"), "--out", tmp_path / "m", "--force", "--max-iter", 2)
    assert (tmp_path / "m").read_bytes()[8:9] == b"{"
    assert "does not exist" in run("info", tmp_path / "absent", code=2).stderr


def test_nothing_beside_is_overwritten_either(files, tmp_path):
    folder, *_ = files
    source = folder / "kaldi-test"
    for ending, target in ((".tsv", "e.npy"), (".ark", "e.scp"), (".utt2lang", "e.scp")):
        (tmp_path / f"e{ending}").write_text("mine")
        assert f"e{ending}: is there already" in run("convert", "embeddings", source, tmp_path / target, code=1).stderr
        assert os.listdir(tmp_path) == [f"e{ending}"]
        (tmp_path / f"e{ending}").unlink()
    (tmp_path / "s.rows").write_text("mine")
    scoring = ["score", folder / "api.safetensors", *score_arguments(folder, "tsv"), "--all"]
    assert "s.rows" in run(*scoring, "--out", tmp_path / "s.npy", code=1).stderr
    run(*scoring, "--out", tmp_path / "s.npy", "--force")
    assert (tmp_path / "s.rows").read_text() != "mine"


BAD = [
    (["train", "train.npy", "--out", "m"], 2, "--speaker"),
    (["train", "bare.npy", "--speaker", "speaker", "--out", "m"], 1, "--labels"),
    (["train", "train.npy", "--labels", "train.tsv", "--speaker", "talker", "--out", "m"], 1, "'speaker'"),
    (["train", "train.npy", "--labels", "train.tsv", "--speaker", "speaker", "--out", "no/m"], 1, "does not exist"),
    (["train", "train.npy", "--labels", "train.tsv", "--speaker", "speaker"], 2, "--out"),
    (["train", "train.npy", "--labels", "test.tsv", "--speaker", "speaker", "--out", "m"], 1, "160"),
    (["score", "api.safetensors", "--enroll", "test.npy", "--out", "s"], 2, "--trials or --all"),
    (["score", "train.tsv", "--enroll", "test.npy", "--all", "--out", "s"], 1, "not a safetensors"),
    (["score", "api.safetensors", "--enroll", "train.npy", "--labels", "train.tsv", "--trials", "trials", "--out", "s"],
     1, "check that both name the same"),
    (["evaluate", "trials"], 1, "line 1"),
    (["info", "train.tsv"], 1, "not a safetensors"),
    (["convert", "scores", "trials", "s"], 1, "line 1"),
    (["convert", "trials", "trials", "s", "--to", "word"], 2, "voxceleb"),
    (["compare", "train.npy", "--labels", "train.tsv", "--speaker", "speaker"], 2, "--channel"),
    (["calibrate", "train", "trials", "--out", "c"], 1, "line 1"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "message"), BAD)
def test_one_clear_error(arguments, code, message, files, tmp_path, monkeypatch):
    folder, *_ = files
    monkeypatch.chdir(folder)
    before = sorted(os.listdir(folder))
    result = run(*arguments, code=code)
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert sorted(os.listdir(folder)) == before


def test_keys_that_do_not_fit(tmp_path):
    (tmp_path / "s").write_text("a b 1.0\nc d -1.0\na d inf\nc b -inf\n")
    (tmp_path / "one").write_text("a b target\nc d target\na d target\nc b target\n")
    assert "no non-targets" in run("evaluate", tmp_path / "s", "--key", tmp_path / "one", code=1).stderr
    (tmp_path / "more").write_text("a b target\nc d nontarget\na d nontarget\nc b target\nx y target\n")
    told = run("evaluate", tmp_path / "s", "--key", tmp_path / "more", code=1).stderr
    assert "1 of 5 trials of the key have no score: 'x y'" in told
    kept = json.loads(run("evaluate", tmp_path / "s", "--key", tmp_path / "more", "--allow-missing", "--json").stdout)
    assert kept["parts"]["pooled"]["targets"] == 2
    assert kept["parts"]["pooled"]["Cllr"] == "inf"
    (tmp_path / "foreign").write_text("p q target\nr s nontarget\n")
    assert (
        "no trial of the key has a score"
        in run("evaluate", tmp_path / "s", "--key", tmp_path / "foreign", code=1).stderr
    )
    (tmp_path / "nan").write_text("a b nan\n")
    assert "line 1" in run("evaluate", tmp_path / "nan", "--key", tmp_path / "more", code=1).stderr


def test_repeated_trials_and_full_matrices(files, tmp_path):
    folder, *_ = files
    lines = (folder / "trials").read_text().splitlines(keepends=True)
    (tmp_path / "trials").write_text("".join(lines + lines[:5]))
    model, arguments = folder / "api.safetensors", score_arguments(folder, "tsv")
    run("score", model, *arguments, "--trials", tmp_path / "trials", "--out", tmp_path / "s")
    told = run("evaluate", tmp_path / "s", "--key", tmp_path / "trials", "--draws", 0, "--json")
    part = json.loads(told.stdout)["parts"]["pooled"]
    assert part["targets"] + part["nontargets"] == len(lines)
    assert "5 trials of the key are repeated" in told.stderr
    run("score", model, *arguments, "--all", "--out", tmp_path / "all.npy")
    again = run("evaluate", tmp_path / "all.npy", "--key", folder / "trials", "--allow-missing", "--draws", 0, "--json")
    assert_allclose(json.loads(again.stdout)["parts"]["pooled"]["EER"], part["EER"], rtol=1e-9)


def test_labels_from_an_embeddings_file_and_unseen_channels(files, tmp_path):
    folder, _, test, *_ = files
    np.savez(tmp_path / "t.npz", embeddings=test.X, ids=test.ids, language=test.language, voice=test.speaker)
    base = ["score", folder / "api.safetensors", "--enroll", tmp_path / "t.npz", "--trials", folder / "trials"]
    told = run(*base, "--channel", "voice", "--out", tmp_path / "s").stderr
    assert "was seen in training" in told
    result = run("evaluate", tmp_path / "s", "--key", folder / "trials", "--labels", tmp_path / "t.npz", "--channel",
                 "language", "--speaker", "voice", "--draws", 10, "--json")  # fmt: skip
    assert json.loads(result.stdout)["speakers"] == 14


def test_narrow_terminals_lose_columns_not_names(monkeypatch):
    from jointplda.commands import output

    monkeypatch.setattr(output, "width", lambda: 30)
    header, rows = output.without_columns(["trials", "EER", "minDCF"], [["cross / same", "1.00 %", "0.1"]], ["minDCF"])
    assert header == ["trials", "EER"]
    assert rows == [["cross / same", "1.00 %"]]


def test_convert(files, tmp_path):
    folder, *_ = files
    run("convert", "embeddings", folder / "kaldi-test", tmp_path / "e.npz")
    run("convert", "embeddings", tmp_path / "e.npz", tmp_path / "e.h5")
    run("convert", "embeddings", tmp_path / "e.h5", tmp_path / "e.parquet")
    run("convert", "trials", folder / "trials", tmp_path / "t.h5", "--to", "bosaris")
    run("convert", "trials", tmp_path / "t.h5", tmp_path / "t.tsv", "--to", "nist")
    run("score", folder / "api.safetensors", "--enroll", tmp_path / "e.parquet", "--trials", tmp_path / "t.tsv",
        "--out", tmp_path / "one")  # fmt: skip
    run("score", folder / "api.safetensors", *score_arguments(folder, "kaldi"), "--trials", folder / "trials", "--out",
        tmp_path / "two")  # fmt: skip
    one, two = read_scores(tmp_path / "one"), read_scores(tmp_path / "two")
    assert_allclose(np.sort(one.values), np.sort(two.values), rtol=1e-6)


def test_foreign_models(files, tmp_path):
    folder, _, test, *_ = files
    run("train", *train_arguments(folder, "tsv")[:-2], "--center", "--max-iter", 20, "--out", tmp_path / "m")
    run("convert", "model", tmp_path / "m", tmp_path / "plda", "--to", "kaldi")
    run("convert", "model", tmp_path / "plda", tmp_path / "plda.npz")
    run("convert", "model", tmp_path / "plda.npz", tmp_path / "back.safetensors")
    base = [*score_arguments(folder, "tsv"), "--all"]
    run("score", tmp_path / "back.safetensors", *base, "--out", tmp_path / "b.npy")
    pipe = Pipeline.load(tmp_path / "m")
    centred = pipe[0].transform(test.X)
    expected = pipe[-1].score_matrix(centred, centred)
    back = PLDA.load(tmp_path / "back.safetensors").score_matrix(centred, centred)
    assert_allclose(back, expected, rtol=1e-5, atol=1e-5)
    told = run("convert", "model", folder / "api.safetensors", tmp_path / "k.plda", code=1).stderr
    assert "--absorb-channel" in told
    assert "--to" in run("convert", "model", tmp_path / "plda", tmp_path / "k", code=2).stderr
    run("convert", "model", folder / "api.safetensors", tmp_path / "k.plda", "--absorb-channel")


def test_help_of_every_command_and_completion():
    for name in COMMANDS:
        assert run(name, "--help").stdout.startswith("Usage: jointplda")
    assert "_JOINTPLDA_COMPLETE" in run("completion", "bash").stdout
    assert app.get_command(None, "nothing") is None
    assert "No such command" in run("nothing", code=2).stderr


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom jointplda.commands import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('numpy', 'scipy', 'sklearn', 'rich', 'safetensors') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_installed_command_and_debug(tmp_path):
    (tmp_path / "x").write_text("")
    command = [sys.executable, "-m", "jointplda", "info", str(tmp_path / "x")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    done = subprocess.run([*command, "--debug"], capture_output=True, text=True, check=False)
    assert "Traceback" in done.stderr


def test_quiet_and_verbose(files, tmp_path):
    folder, *_ = files
    arguments = ["train", *train_arguments(folder, "tsv"), "--max-iter", 3, "--force", "--out", tmp_path / "m"]
    assert run(*arguments, "--quiet").stderr == ""
    assert "iteration 2" in run(*arguments, "-v").stderr
    assert "without converging" in run(*arguments).stderr
