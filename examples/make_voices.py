"""Make the data set that ``jointplda.datasets.load_voices`` loads: synthetic voices through eight transmissions.

Every voice is a voice of espeak-ng with a pitch and a speed of its own; no person is recorded. It reads out short
sentences, ffmpeg (or a synthetic room, or noise) transmits them, and the speaker encoder of resemblyzer turns each clip
into an embedding of 256 numbers. Voices to train on are heard in one transmission, some in two; voices to test with
are heard in all of them. Some variants are one voice under two names: one of each such pair is left out. Every draw
is seeded. Clips and embeddings are kept in a work folder: a run that was stopped goes on where it was.

Needs the programs espeak-ng and ffmpeg (Debian: ``apt-get install espeak-ng ffmpeg``), and in an environment
of its own:

    pip install torch librosa soundfile
    pip install --no-deps resemblyzer
    python examples/make_voices.py WORK_FOLDER voices.npz
"""

import argparse
import hashlib
import io
import subprocess
import sys
import types
import zipfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Sound = NDArray[np.float32]

SEED = 2024
RATE = 16_000
RAW = f"-f f32le -ar {RATE} -ac 1"  # how sounds go into ffmpeg, and come out
TRAIN_SHARE = 0.7  # of the variants: voices of one variant are all in the same split
TWO_TRANSMISSIONS, TWO_LANGUAGES = 0.2, 0.5  # shares of the training voices
TRAIN_CLIPS = 12  # per training voice
TEST_LANGUAGES = 4  # per test voice, each in every transmission
PITCHES = {"low": (15.0, 40.0), "high": (60.0, 90.0)}  # the two voices made of each variant
SPEEDS = (130.0, 190.0)  # words per minute
PITCH_JITTER, SPEED_JITTER = 6.0, 20.0  # from clip to clip, at most
SECONDS = 2.0  # of each clip, cut anywhere from what is read
SAME_ERROR, SAME_COSINE = 0.33, 0.70  # from which two voices are one: within a transmission, and across

VARIANTS = """Alex Alicia Andrea Andy Annie AnxiousAndy Demonic Denis Diogo Gene Gene2 Henrique Hugo Jacky Lee Marco
Mario Michael Mike Nguyen RicishayMax RicishayMax2 RicishayMax3 Storm Tweaky UniRobot adam anika anikaRobot announcer
antonio aunty belinda benjamin boris croak david ed edward edward2 f1 f2 f3 f4 f5 fast grandma grandpa gustave
iven iven2 iven3 iven4 john kaukovalta klatt klatt2 klatt3 klatt4 klatt5 klatt6 linda m1 m2 m3 m4 m5 m6 m7 m8 marcelo
max michel miguel norbert pablo paul pedro quincy rob robert robosoft robosoft2 robosoft3 robosoft4 robosoft5 robosoft6
robosoft7 robosoft8 sandro shelby steph steph2 steph3 travis victor zac"""

SENTENCES = {
    "en": """The shop on the corner opens at half past eight.|One, two, three, four, five, six, seven.
        My sister keeps three brown hens behind the house.|On Monday and Thursday we cook rice with beans.
        It rained all night, and now the cellar is wet.|Please leave the blue box next to the stairs.
        Nobody found the key under the old green mat.|The last bus to the harbour is never on time.""",
    "de": """Der Laden an der Ecke macht um halb neun auf.|Eins, zwei, drei, vier, fünf, sechs, sieben.
        Meine Schwester hat drei braune Hühner hinter dem Haus.|Montags und donnerstags kochen wir Reis mit Bohnen.
        Es hat die ganze Nacht geregnet, der Keller ist nass.|Bitte stell die blaue Kiste neben die Treppe.
        Niemand fand den Schlüssel unter der alten Matte.|Der letzte Bus zum Hafen kommt nie pünktlich.""",
    "fr": """Le magasin du coin ouvre à huit heures et demie.|Un, deux, trois, quatre, cinq, six, sept.
        Ma sœur a trois poules brunes derrière la maison.|Le lundi et le jeudi, nous faisons du riz aux haricots.
        Il a plu toute la nuit, et la cave est mouillée.|Laissez la boîte bleue à côté de l'escalier.
        Personne n'a trouvé la clé sous le vieux tapis vert.|Le dernier bus pour le port est toujours en retard.""",
    "es": """La tienda de la esquina abre a las ocho y media.|Uno, dos, tres, cuatro, cinco, seis, siete.
        Mi hermana tiene tres gallinas detrás de la casa.|Los lunes y los jueves cocinamos arroz con frijoles.
        Llovió toda la noche y el sótano está mojado.|Deja la caja azul al lado de la escalera.
        Nadie encontró la llave debajo de la alfombra verde.|El último autobús al puerto nunca llega a tiempo.""",
    "it": """Il negozio all'angolo apre alle otto e mezza.|Uno, due, tre, quattro, cinque, sei, sette.
        Mia sorella ha tre galline marroni dietro la casa.|Il lunedì e il giovedì cuciniamo riso e fagioli.
        Ha piovuto tutta la notte e la cantina è bagnata.|Lascia la scatola blu accanto alle scale.
        Nessuno ha trovato la chiave sotto il tappeto verde.|L'ultimo autobus per il porto è sempre in ritardo.""",
    "pl": """Sklep na rogu otwiera się o wpół do dziewiątej.|Jeden, dwa, trzy, cztery, pięć, sześć, siedem.
        Moja siostra ma trzy brązowe kury za domem.|W poniedziałek i czwartek gotujemy ryż z fasolą.
        Padało całą noc i teraz piwnica jest mokra.|Zostaw niebieskie pudełko obok schodów.
        Nikt nie znalazł klucza pod starą zieloną matą.|Ostatni autobus do portu zawsze się spóźnia.""",
    "fi": """Kulman kauppa aukeaa puoli yhdeksältä.|Yksi, kaksi, kolme, neljä, viisi, kuusi, seitsemän.
        Siskollani on kolme ruskeaa kanaa talon takana.|Maanantaina ja torstaina keitämme riisiä ja papuja.
        Satoi koko yön, ja nyt kellari on märkä.|Jätä sininen laatikko portaiden viereen.
        Kukaan ei löytänyt avainta vanhan maton alta.|Viimeinen bussi satamaan on aina myöhässä.""",
    "tr": """Köşedeki dükkan saat sekiz buçukta açılıyor.|Bir, iki, üç, dört, beş, altı, yedi.
        Kız kardeşimin evin arkasında üç tavuğu var.|Pazartesi ve perşembe fasulyeli pilav yaparız.
        Bütün gece yağmur yağdı, şimdi bodrum ıslak.|Mavi kutuyu merdivenin yanına bırak.
        Kimse eski yeşil paspasın altında anahtarı bulamadı.|Limana giden son otobüs hep geç kalır.""",
}

# How ffmpeg writes what is sent, and how it is told to read what arrives.
CODECS = {
    "telephone": ("-af highpass=f=300,lowpass=f=3400 -ar 8000 -c:a pcm_mulaw -f mulaw", "-f mulaw -ar 8000 -ac 1"),
    "gsm": ("-ar 8000 -c:a libgsm -f gsm", "-f gsm"),
    "codec2": ("-ar 8000 -c:a libcodec2 -mode 2400 -f codec2", "-f codec2"),
    "opus": ("-c:a libopus -b:a 6k -f ogg", "-f ogg"),
    "mp3": ("-ar 8000 -c:a libmp3lame -b:a 8k -f mp3", "-f mp3"),
}
TRANSMISSIONS = ("clean", *CODECS, "room", "noise")
REVERBERATION = (0.4, 1.0)  # of a room: seconds to lose 60 dB
DIRECT = 0.4  # share of the energy in a room that comes without echo
NOISE_DB = (3.0, 15.0)  # speech over pink noise


@dataclass(frozen=True)
class Clip:
    """One clip: who reads what, and how it is transmitted."""

    name: str
    voice: str
    language: str
    transmission: str
    split: str
    variant: str
    pitch: int
    speed: int
    text: str

    def file(self, folder: Path, suffix: str) -> Path:
        """Where the clip, or its embedding, is kept: another name as soon as anything about it is changed."""
        settings = repr((SEED, astuple(self), SECONDS, CODECS.get(self.transmission), REVERBERATION, DIRECT, NOISE_DB))
        return folder / f"{hashlib.sha256(settings.encode()).hexdigest()[:24]}{suffix}"

    def rng(self, what: str = "") -> np.random.Generator:
        """Draws of this clip's own for one purpose, whatever else is drawn."""
        return np.random.default_rng([SEED, *hashlib.sha256((self.name + what).encode()).digest()])


def sentences(language: str) -> list[str]:
    """The sentences of a language."""
    return [text.strip() for line in SENTENCES[language].splitlines() for text in line.split("|")]


def design() -> list[Clip]:
    """Draw every voice, and the clips it is heard in."""
    rng = np.random.default_rng(SEED)
    variants = rng.permutation(VARIANTS.split())
    n_train = round(TRAIN_SHARE * len(variants))
    clips = []
    for kind, (lowest, highest) in PITCHES.items():
        turns = rng.permutation(np.resize(TRANSMISSIONS, n_train))
        for i, variant in enumerate(variants):
            pitch, speed = rng.uniform(lowest, highest), rng.uniform(*SPEEDS)
            if i < n_train:
                split, cells = "train", cells_to_train(rng, turns[i])
            else:
                split, cells = "test", cells_to_test(rng)
            texts = {
                language: iter(rng.permutation(list(permutations(sentences(language), 2)))) for language in SENTENCES
            }
            for number, (language, transmission) in enumerate(cells):
                voice = f"{variant}-{kind}"
                name = f"{voice}-{number:02d}-{language}-{transmission}"
                clip_pitch = round(pitch + PITCH_JITTER * rng.uniform(-1, 1))
                clip_speed = round(speed + SPEED_JITTER * rng.uniform(-1, 1))
                text = " ".join(next(texts[language]))
                clips.append(
                    Clip(name, voice, language, transmission, split, str(variant), clip_pitch, clip_speed, text)
                )
    return sorted(clips, key=lambda clip: (clip.split != "train", clip.name))


def cells_to_train(rng: np.random.Generator, transmission: str) -> list[tuple[str, str]]:
    """Language and transmission of each clip of a training voice: one of each, or two."""
    others = [other for other in TRANSMISSIONS if other != transmission]
    transmissions = [transmission, *rng.choice(others, int(rng.random() < TWO_TRANSMISSIONS))]
    languages = rng.choice(list(SENTENCES), 1 + int(rng.random() < TWO_LANGUAGES), replace=False)
    cells = [(str(language), str(sent)) for language in languages for sent in transmissions]
    return [cells[i % len(cells)] for i in range(TRAIN_CLIPS)]


def cells_to_test(rng: np.random.Generator) -> list[tuple[str, str]]:
    """Language and transmission of each clip of a test voice: some languages, every transmission."""
    languages = rng.choice(list(SENTENCES), TEST_LANGUAGES, replace=False)
    return [(str(language), sent) for language in languages for sent in TRANSMISSIONS]


def ffmpeg(given: bytes, source: str, result: str) -> bytes:
    """Pass audio through ffmpeg; both sides described by its options."""
    command = ["ffmpeg", "-v", "error", *source.split(), "-i", "pipe:0", "-bitexact", *result.split(), "pipe:1"]
    return subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True).stdout


def speak(clip: Clip) -> Sound:
    """Let espeak-ng read the clip's text, leave out the pauses, and cut a piece from it."""
    voice = f"{clip.language}+{clip.variant}"
    command = ["espeak-ng", "-v", voice, "-p", str(clip.pitch), "-s", str(clip.speed), "--stdout", clip.text]
    wave = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    sound = np.frombuffer(ffmpeg(wave, "-f wav", RAW), np.float32)
    frames = sound[: len(sound) // 320 * 320].reshape(-1, 320)
    power = np.mean(frames**2, axis=1)
    loud = np.convolve(power > 1e-4 * power.max(), np.ones(5), mode="same") > 0
    sound = frames[loud].ravel()
    start = clip.rng().integers(max(1, len(sound) - int(SECONDS * RATE)))
    return levelled(sound[start : start + int(SECONDS * RATE)])


def levelled(sound: Sound) -> Sound:
    """The same sound at a loudness of -26 dB."""
    return np.float32(0.05 / np.sqrt(np.mean(sound**2))) * sound


def transmit(sound: Sound, clip: Clip) -> Sound:
    """What arrives of a sound, at the same loudness."""
    if clip.transmission in CODECS:
        sent, received = CODECS[clip.transmission]
        sound = np.frombuffer(ffmpeg(ffmpeg(sound.tobytes(), RAW, sent), received, RAW), np.float32)
    elif clip.transmission == "room":
        sound = in_room(sound, clip.rng("room"))
    elif clip.transmission == "noise":
        sound = in_noise(sound, clip.rng("noise"))
    return levelled(sound)


def in_room(sound: Sound, rng: np.random.Generator) -> Sound:
    """Reverberation: the direct sound, and noise that decays exponentially. Another room for every clip."""
    seconds = rng.uniform(*REVERBERATION)
    times = np.arange(int(seconds * RATE)) / RATE
    echo = rng.normal(size=len(times)) * 10 ** (-3 * times / seconds)
    response = np.sqrt(1 - DIRECT) * echo / np.linalg.norm(echo)
    response[0] += np.sqrt(DIRECT)
    size = len(sound) + len(response)
    return np.fft.irfft(np.fft.rfft(sound, size) * np.fft.rfft(response, size), size).astype(np.float32)


def in_noise(sound: Sound, rng: np.random.Generator) -> Sound:
    """Pink noise, of equal power in every octave, added to a levelled sound."""
    level = np.float32(10 ** (-rng.uniform(*NOISE_DB) / 20))
    spectrum = np.fft.rfft(rng.normal(size=len(sound)))
    noise = np.fft.irfft(spectrum / np.sqrt(np.arange(len(spectrum)) + 1.0), len(sound))
    return sound + level * levelled(noise.astype(np.float32))


def make_clip(clip: Clip, folder: Path) -> None:
    """Write the clip as 16-bit samples, unless it is there."""
    path = clip.file(folder, ".raw")
    if not path.exists():
        samples = np.clip(np.rint(32767 * transmit(speak(clip), clip)), -32768, 32767).astype("<i2")
        write(path, samples.tobytes())


def make_embedding(clip: Clip, folder: Path, encoder: Any) -> NDArray[np.float32]:
    """Embed the clip, or read the embedding kept."""
    path = clip.file(folder, ".npy")
    if not path.exists():
        sound = np.fromfile(clip.file(folder, ".raw"), "<i2").astype(np.float32) / 32767
        sound = np.resize(sound, max(len(sound), int(1.6 * RATE)))  # the encoder hears 1.6 s at a time: repeat, not pad
        buffer = io.BytesIO()
        np.save(buffer, encoder.embed_utterance(sound).astype(np.float32))
        write(path, buffer.getvalue())
    return np.asarray(np.load(path), dtype=np.float32)


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.rename(path)


def one_voice(a: NDArray[Any], b: NDArray[Any], sent_a: NDArray[Any], sent_b: NDArray[Any]) -> bool:
    """Whether two voices are hard to tell apart: embeddings of unit length, and the transmission of each.

    Within transmissions that they share, cosines of a voice with itself are compared with those of one with the other:
    an equal error rate of 33 % is too much. Where they share none, the cosine of their means across transmissions may
    not reach 0.70 (embeddings have the mean of their transmission removed), which one voice rarely has with itself.
    """
    shared = sorted(set(sent_a) & set(sent_b))
    if not shared:
        means = [[x[sent == name].mean(axis=0) for name in sorted(set(sent))] for x, sent in ((a, sent_a), (b, sent_b))]
        cosines = [p @ q / np.linalg.norm(p) / np.linalg.norm(q) for p in means[0] for q in means[1]]
        return bool(np.mean(cosines) >= SAME_COSINE)
    same, other = [], []
    for name in shared:
        p, q = a[sent_a == name], b[sent_b == name]
        same += [(x @ x.T)[np.triu_indices(len(x), 1)] for x in (p, q)]
        other.append((p @ q.T).ravel())
    targets, others = np.sort(np.concatenate(same)), np.sort(np.concatenate(other))
    if not len(targets):
        return False
    thresholds = np.concatenate([targets, others])
    miss = np.searchsorted(targets, thresholds) / len(targets)
    accept = 1 - np.searchsorted(others, thresholds) / len(others)
    return bool(np.min(np.maximum(miss, accept)) >= SAME_ERROR)


def doubles(X: NDArray[Any], voice: NDArray[Any], transmission: NDArray[Any], split: NDArray[Any]) -> set[str]:
    """Voices to leave out, so that no two voices of one split are the same: those with most doubles first."""
    X = X.astype(np.float64)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    centred = X.copy()
    for one in np.unique(split):
        for name in np.unique(transmission):
            rows = (split == one) & (transmission == name)
            centred[rows] -= centred[rows].mean(axis=0)
    found: dict[str, set[str]] = {}
    for one in np.unique(split):
        names = np.unique(voice[split == one])
        rows = {str(name): np.flatnonzero((voice == name) & (split == one)) for name in names}
        for i, a in enumerate(rows):
            for b in list(rows)[i + 1 :]:
                sent = transmission[rows[a]], transmission[rows[b]]
                space = X if set(sent[0]) & set(sent[1]) else centred
                if one_voice(space[rows[a]], space[rows[b]], *sent):
                    found.setdefault(a, set()).add(b)
                    found.setdefault(b, set()).add(a)
    out: set[str] = set()
    while any(found.values()):
        most = max(sorted(found), key=lambda name: (len(found[name]), name))
        out.add(most)
        for other in found.pop(most):
            found[other].discard(most)
    return out


def load_encoder() -> Any:
    """The encoder of resemblyzer, whose own voice activity detection is not used."""
    sys.modules.setdefault("webrtcvad", types.ModuleType("webrtcvad"))
    from resemblyzer import VoiceEncoder

    return VoiceEncoder("cpu", verbose=False)


def progress(steps: Iterable[Any], n: int, what: str) -> list[Any]:
    """Every step done, counted on stderr."""
    done = []
    for step in steps:
        done.append(step)
        if len(done) % 50 == 0 or len(done) == n:
            print(f"\r{what}: {len(done)} of {n} ", end="\n" if len(done) == n else "", file=sys.stderr, flush=True)
    return done


def write_archive(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    """As ``np.savez_compressed``, with the same bytes for the same arrays at any time."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            archive.writestr(entry, buffer.getvalue(), zipfile.ZIP_DEFLATED, compresslevel=9)


def main() -> None:
    """Make the clips, embed them, and write the data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path, help="folder that keeps clips and embeddings")
    parser.add_argument("output", type=Path, help="the .npz file to write")
    parser.add_argument("--workers", type=int, default=2, help="clips made at the same time")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    clips = design()
    with ThreadPoolExecutor(given.workers) as pool:
        progress(pool.map(lambda clip: make_clip(clip, given.work), clips), len(clips), "clips")
    encoder = load_encoder()
    embeddings = progress((make_embedding(clip, given.work, encoder) for clip in clips), len(clips), "embeddings")
    columns = ("name", "voice", "language", "transmission", "split")
    labels = {column: np.array([getattr(clip, column) for clip in clips]) for column in columns}
    labels = {"embeddings": np.array(embeddings, dtype=np.float16), "ids": labels.pop("name"), **labels}
    out = doubles(labels["embeddings"], labels["voice"], labels["transmission"], labels["split"])
    kept = ~np.isin(labels["voice"], sorted(out))
    write_archive(given.output, {name: column[kept] for name, column in labels.items()})
    print(f"left out, since another voice is the same: {', '.join(sorted(out))}")
    checksum = hashlib.sha256(given.output.read_bytes()).hexdigest()
    print(f"{given.output}: {np.count_nonzero(kept)} samples, sha256 {checksum}")


if __name__ == "__main__":
    main()
