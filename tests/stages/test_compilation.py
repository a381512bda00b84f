"""Decorators for the compiler change nothing if nothing is compiled."""

from stages.compilation import mypyc_attr


def test_an_attribute_for_the_compiler_leaves_a_class_as_it_is():
    class Plain:
        pass

    assert mypyc_attr(native_class=False)(Plain) is Plain
