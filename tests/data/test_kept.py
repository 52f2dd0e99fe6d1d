"""Values that are kept for whoever asks for them again."""

import pickle

import pytest

from l5kit.data.kept import Kept
from l5kit.errors import InvalidArgumentError


def test_what_was_asked_for_last_is_kept():
    kept, made = Kept(2), []

    def make(key):
        return kept.get(key, lambda: made.append(key) or key.upper())

    assert [make(key) for key in "abacab"] == list("ABACAB")
    assert made == ["a", "b", "c", "b"]
    assert len(kept) == 2
    assert len(pickle.loads(pickle.dumps(kept))) == 0
    with pytest.raises(InvalidArgumentError, match="keep at least 1"):
        Kept(0)
