"""Running commands as the shell would, and the options that name the files of the test world."""

import click
from click.testing import CliRunner

from jointplda.commands import app, main

TRAIN = ["--center", "--length-norm", "--pca", "8", "--speaker-rank", "4", "--channel-rank", "2", "--max-iter", "30"]


def run(*arguments, code=0):
    """Run the real entry point, check its exit code, and return what it wrote to both streams."""
    result = CliRunner().invoke(_entry, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


class _Entry:
    """A command for CliRunner that goes through ``main``, so that errors and exit codes are the real ones."""

    name = "jointplda"

    def main(self, args, prog_name, **rest):
        main(list(args))


_entry = _Entry()


def all_commands(group=app, path=()):
    """Every command and group below ``jointplda``, with the words that call it."""
    context, found = click.Context(group), []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        found.append(((*path, name), command))
        if isinstance(command, click.Group):
            found += all_commands(command, (*path, name))
    return found


def options_of(*path):
    """Long options of a command, with their values' parameters."""
    command = dict(all_commands())[path]
    return {name: each for each in command.params for name in (*each.opts, *each.secondary_opts)}


def train_arguments(folder, kind):
    if kind == "tsv":
        return [folder / "train.npy", "--labels", folder / "train.tsv", "--speaker", "speaker", "--channel", "language"]
    data = folder / "kaldi-train"
    return [data / "xvector.scp", "--speaker", data / "utt2spk", "--channel", data / "utt2lang"]


def score_arguments(folder, kind):
    if kind == "tsv":
        return ["--enroll", folder / "test.npy", "--labels", folder / "test.tsv"]
    return ["--enroll", folder / "kaldi-test"]
