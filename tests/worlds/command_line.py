"""Running commands as the shell would, and the options that name the files of the test world."""

from click.testing import CliRunner

from jointplda.commands import main

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


def train_arguments(folder, kind):
    if kind == "tsv":
        return [folder / "train.npy", "--labels", folder / "train.tsv", "--speaker", "speaker", "--channel", "language"]
    data = folder / "kaldi-train"
    return [data / "xvector.scp", "--speaker", data / "utt2spk", "--channel", data / "utt2lang"]


def score_arguments(folder, kind):
    if kind == "tsv":
        return ["--enroll", folder / "test.npy", "--labels", folder / "test.tsv"]
    return ["--enroll", folder / "kaldi-test"]
