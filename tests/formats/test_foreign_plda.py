"""PLDA models of Kaldi and pyannote."""

import struct

import numpy as np
import pytest

from jointplda import FileError, InputError
from jointplda.formats import (
    KaldiPlda,
    from_covariances,
    read_kaldi_plda,
    read_pyannote_plda,
    to_covariances,
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


def test_covariances(plda):
    mean, between, within = to_covariances(plda)
    A = np.array(TRANSFORM)
    np.testing.assert_array_equal(mean, MEAN)
    np.testing.assert_allclose(A @ within @ A.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(A @ between @ A.T, np.diag(PSI), atol=1e-12)


def test_covariances_there_and_back():
    rng = np.random.default_rng(2)
    G, H = rng.normal(size=(2, 6, 6))
    between, within = G[:, :3] @ G[:, :3].T, H @ H.T + np.eye(6)
    plda = from_covariances(rng.normal(size=6), between, within)
    assert np.all(np.diff(plda.psi) <= 0)
    np.testing.assert_allclose(plda.psi[3:], 0, atol=1e-12)
    _, again_between, again_within = to_covariances(plda)
    np.testing.assert_allclose(again_between, between, atol=1e-10)
    np.testing.assert_allclose(again_within, within, atol=1e-10)


def test_covariances_that_cannot_be():
    eye = np.eye(2)
    with pytest.raises(InputError, match="within: expected a positive definite"):
        from_covariances(np.zeros(2), eye, np.zeros((2, 2)))
    with pytest.raises(InputError, match="between: expected a positive semidefinite"):
        from_covariances(np.zeros(2), -eye, eye)
    with pytest.raises(InputError, match="between: expected a finite and symmetric"):
        from_covariances(np.zeros(2), np.array([[1.0, 2.0], [0.0, 1.0]]), eye)
    with pytest.raises(InputError, match=r"within: expected shape \(2, 2\), got \(3, 3\)"):
        from_covariances(np.zeros(2), eye, np.eye(3))
    with pytest.raises(InputError, match="has no inverse"):
        to_covariances(KaldiPlda(np.zeros(2), np.zeros((2, 2)), np.ones(2)))


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
