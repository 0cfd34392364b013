"""What is made of functions is made once."""

import pytest

from secant.core.memo import kept


def test_the_same_functions_give_the_same_thing():
    make = kept(lambda f, g=None: object())
    assert make(len) is make(len)
    assert make(len) is not make(max)
    assert make(len, max) is make(len, max)


def test_what_has_no_hash_is_made_anew():
    make = kept(lambda f: [f])
    assert make([1]) == [[1]]
    assert make([1]) is not make([1])


def test_an_error_of_the_maker_is_its_own():
    def broken(f):
        raise TypeError("mine")

    with pytest.raises(TypeError, match="mine"):
        kept(broken)(len)
