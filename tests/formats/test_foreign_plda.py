"""PLDA models of Kaldi and pyannote."""

import struct

import numpy as np
import pytest

from jointplda import FileError
from jointplda.formats import (
    KaldiPlda,
    read_kaldi_plda,
    read_pyannote_plda,
    write_kaldi_plda,
    write_pyannote_plda,
)

MEAN, TRANSFORM, PSI = [0.5, -1.0], [[2.0, 0.25], [0.0, 4.0]], [3.0, 0.125]
TEXT = "<Plda>  [ 0.5 -1 ]\n [\n  2 0.25 \n  0 4 ]\n [ 3 0.125 ]\n</Plda> "


def binary(letter, code):
    size = struct.pack("<Bi", 4, 2)

    def vector(values):
        return letter + b"V " + size + struct.pack(f"<2{code}", *values)

    matrix = letter + b"M " + size + size + struct.pack(f"<4{code}", 2.0, 0.25, 0.0, 4.0)
    return b"\0B<Plda> " + vector(MEAN) + matrix + vector(PSI) + b"</Plda> "


def is_expected(plda):
    for found, expected in ((plda.mean, MEAN), (plda.transform, TRANSFORM), (plda.psi, PSI)):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.float64
    return True


@pytest.fixture
def plda():
    return KaldiPlda(np.array(MEAN), np.array(TRANSFORM), np.array(PSI))


@pytest.mark.parametrize(
    "content", [TEXT.encode(), binary(b"D", "d"), binary(b"F", "f")], ids=["text", "double", "float"]
)
def test_kaldi_written_by_hand(tmp_path, content):
    (tmp_path / "plda").write_bytes(content)
    assert is_expected(read_kaldi_plda(tmp_path / "plda"))


def test_kaldi_binary_is_written_byte_for_byte(tmp_path, plda):
    write_kaldi_plda(plda, tmp_path / "plda")
    assert (tmp_path / "plda").read_bytes() == binary(b"D", "d")


def test_pyannote(tmp_path, plda):
    np.savez(tmp_path / "p.npz", mu=MEAN, tr=TRANSFORM, psi=PSI)
    assert is_expected(read_pyannote_plda(tmp_path / "p.npz"))
    write_pyannote_plda(plda, tmp_path / "q.npz")
    with np.load(tmp_path / "q.npz") as stored:
        assert sorted(stored.files) == ["mu", "psi", "tr"]
        np.testing.assert_array_equal(stored["tr"], TRANSFORM)


@pytest.mark.parametrize(
    "content, message",
    [
        (TEXT[:40].encode(), "before </Plda>; got"),
        (TEXT.replace("3 0.125", "3").encode(), "got the shapes"),
        (TEXT.replace("0.125", "-1").encode(), "psi should hold variances"),
        (TEXT.replace("0.125", "nan").encode(), "psi holds NaN"),
        (TEXT.replace("0.125", "x").encode(), "expected numbers"),
        (b"<Nnet> 3", "expected a Kaldi PLDA model"),
        (b"\0B<Nnet3> " + bytes(20), "expected a Kaldi PLDA model"),
        (binary(b"D", "d")[:-8], "expected </Plda>"),
        (binary(b"D", "d")[:60], "transform: the file ends too early"),
    ],
)
def test_damaged_kaldi_models(tmp_path, content, message):
    (tmp_path / "plda").write_bytes(content)
    with pytest.raises(FileError, match=rf"plda.*{message}"):
        read_kaldi_plda(tmp_path / "plda")


def test_damaged_pyannote_models(tmp_path):
    path = tmp_path / "p.npz"
    path.write_text(TEXT)
    with pytest.raises(FileError, match=r"p\.npz: expected an \.npz file"):
        read_pyannote_plda(path)
    np.savez(path, mu=MEAN, tr=TRANSFORM)
    with pytest.raises(FileError, match=r"p\.npz: expected the arrays mu, tr, psi, got mu, tr"):
        read_pyannote_plda(path)
    np.savez(path, mu=MEAN, tr=TRANSFORM, psi=np.array(PSI) * 1j)
    with pytest.raises(FileError, match=r"p\.npz: psi should hold real numbers"):
        read_pyannote_plda(path)
