"""Files of speaker recognition: embeddings, labels, enrollments, trials, scores and the models of others.

Readers go by content and by the names in headers, never by the name of the file; text may be gzipped. What cannot be
read is a FileError that names the file, the line, what was expected and what came. Writers write whole files or none.
"""

from jointplda._identifiers import match_ids
from jointplda.formats.embedding_files import read_embeddings, write_embeddings
from jointplda.formats.embedding_stream import EmbeddingStream, open_embeddings, read_label_table
from jointplda.formats.enrollment_lists import read_enrollment, write_enrollment
from jointplda.formats.foreign_plda import (
    KaldiPlda,
    read_kaldi_plda,
    read_pyannote_plda,
    write_kaldi_plda,
    write_pyannote_plda,
)
from jointplda.formats.label_reader import read_labels
from jointplda.formats.score_files import read_scores, write_scores
from jointplda.formats.trial_files import read_trials, write_trials

__all__ = [
    "EmbeddingStream",
    "KaldiPlda",
    "match_ids",
    "open_embeddings",
    "read_embeddings",
    "read_enrollment",
    "read_kaldi_plda",
    "read_label_table",
    "read_labels",
    "read_pyannote_plda",
    "read_scores",
    "read_trials",
    "write_embeddings",
    "write_enrollment",
    "write_kaldi_plda",
    "write_pyannote_plda",
    "write_scores",
    "write_trials",
]
