"""Keys of findings are short and all different."""

import re

from hypothesis import given
from hypothesis import strategies as st

from secant.lab.verdicts.keys import keys_of


@given(st.lists(st.text(max_size=30), max_size=20))
def test_every_name_has_a_key_of_its_own(names):
    keys = keys_of(names)
    assert len(set(keys)) == len(keys) == len(names)
    assert all(re.fullmatch(r"[a-z0-9.-]+", key) for key in keys)


def test_a_key_has_as_many_words_as_it_takes():
    names = ["loss of the network at the edge: peak", "loss of the network at the edge: end", "loss", "loss"]
    assert keys_of(names) == ["loss-network-edge-peak", "loss-network-edge-end", "loss-1", "loss-2"]


def test_a_key_does_not_hang_on_what_comes_after_it():
    assert keys_of(["a rise", "a fall"])[0] == keys_of(["a rise"])[0] == "rise"
