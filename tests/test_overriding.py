"""Overridden methods of objects."""

import types
from collections import OrderedDict

import pytest

from l5kit._overriding import overrides, overrides_package


class Base:
    def draw(self):
        return "base"

    def count(self):
        return 0


class Inherits(Base):
    def another(self):
        return 1


class Draws(Inherits):
    def draw(self):
        return "own"


class InheritsTheOwn(Draws):
    pass


class Unrelated:
    def draw(self):
        return "own"


def with_attribute():
    value = Inherits()
    value.draw = lambda: "attribute"
    return value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(Base(), False, id="the base"),
        pytest.param(Inherits(), False, id="a subclass without"),
        pytest.param(Draws(), True, id="a subclass with"),
        pytest.param(InheritsTheOwn(), True, id="a subclass of one with"),
        pytest.param(with_attribute(), True, id="an attribute of the object"),
        pytest.param(Unrelated(), True, id="another class with"),
        pytest.param(object(), True, id="another class without"),
    ],
)
def test_a_method_of_its_own_is_found(value, expected):
    assert overrides(value, "draw", base=Base) == expected
    assert overrides(value, "count", "draw", base=Base) == expected


def test_other_methods_do_not_count():
    assert not overrides(Draws(), "count", base=Base)
    assert not overrides(Draws(), "draw", base=Draws)


def class_of(module, *bases, **methods):
    return types.new_class("C", bases, exec_body=lambda names: names.update({"__module__": module, **methods}))


def test_the_package_is_that_of_the_class_that_has_the_method():
    inner = class_of("tools.parts.deep", draw=lambda self: 1, count=lambda self: 1)
    beside = class_of("tools.parts_of_others", inner, draw=lambda self: 2)
    user = class_of("script", inner)
    assert not overrides_package(inner(), "draw", "count", package="tools.parts")
    assert not overrides_package(user(), "draw", "count", package="tools.parts")
    assert overrides_package(beside(), "draw", package="tools.parts")
    assert not overrides_package(beside(), "count", package="tools.parts")
    assert overrides_package(OrderedDict(), "get", package="tools")


def test_an_attribute_of_the_object_stands_in_no_package():
    value = class_of("tools.parts", draw=lambda self: 1)()
    value.draw = lambda: 2
    assert overrides_package(value, "draw", package="tools")
