"""A small world of speakers and channels, written in the conventions of the field."""

from dataclasses import dataclass

import numpy as np

from jointplda import JointPLDA, make_pipeline
from jointplda.preprocessing import PCA, Center, LengthNorm

D, RY, RX = 12, 5, 2


@dataclass
class World:
    ids: np.ndarray
    X: np.ndarray
    speaker: np.ndarray
    language: np.ndarray

    def take(self, rows):
        return World(self.ids[rows], self.X[rows], self.speaker[rows], self.language[rows])


def make_world(seed=0):
    """Training speakers in one language each, test speakers in all."""
    rng = np.random.default_rng(seed)
    truth = JointPLDA.from_parameters(
        rng.normal(size=D), rng.normal(size=(D, RY)), 1.5 * rng.normal(size=(D, RX)), 2.0 * np.eye(D)
    )
    train = [(f"s{i:02d}", lang, k) for i in range(40) for lang in [["en", "fr", "de", "sv"][i % 4]] for k in range(4)]
    test = [(f"t{i:02d}", lang, k) for i in range(14) for lang in ("en", "fr", "de", "sv") for k in range(2)]
    rows = np.array(train + test)
    X = truth.sample(rows[:, 0], channels=rows[:, 1], random_state=seed).astype(np.float32)
    ids = np.array(["-".join(row) for row in rows])
    return World(ids, X, rows[:, 0], rows[:, 1]), np.char.startswith(rows[:, 0], "s")


def trials_among(world, seed=1, share=0.4):
    first, second = np.triu_indices(len(world.ids), 1)
    kept = np.random.default_rng(seed).random(len(first)) < share
    return np.stack((first[kept], second[kept]), axis=1)


def trial_lines(world, pairs):
    names = ["nontarget", "target"]
    same = world.speaker[pairs[:, 0]] == world.speaker[pairs[:, 1]]
    ids = world.ids[pairs]
    return "".join(f"{a} {b} {names[int(t)]}\n" for (a, b), t in zip(ids, same))


def write_tables(folder, name, world):
    """A matrix without ids, and its labels beside it."""
    np.save(folder / f"{name}.npy", world.X)
    rows = zip(world.ids, world.speaker, world.language)
    text = "id\tspeaker\tlanguage\n" + "".join("\t".join(row) + "\n" for row in rows)
    (folder / f"{name}.tsv").write_text(text)


def write_kaldi(folder, name, world):
    """A folder as Kaldi has it: xvector.scp and .ark, utt2spk, utt2lang."""
    import kaldiio

    where = folder / name
    where.mkdir()
    with kaldiio.WriteHelper(f"ark,scp:{where}/xvector.ark,{where}/xvector.scp") as writer:
        for key, x in zip(world.ids, world.X):
            writer(str(key), x)
    (where / "utt2spk").write_text("".join(f"{i} {s}\n" for i, s in zip(world.ids, world.speaker)))
    (where / "utt2lang").write_text("".join(f"{i} {c}\n" for i, c in zip(world.ids, world.language)))


def api_model(world):
    pipe = make_pipeline(Center(), LengthNorm(), PCA(8), JointPLDA(speaker_rank=4, channel_rank=2, max_iter=30))
    return pipe.fit(world.X, world.speaker, channels=world.language)


def as_rows(trials):
    return [(str(trials.models[a]), str(trials.samples[b])) for a, b in zip(trials.enroll, trials.test)]


def scored_world(seed=0, n=400, speakers=9):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, speakers, (2, n))
    target = a == b
    return rng.normal(size=n) + 2 * target, target, a, b, rng.integers(-1, 2, n)
