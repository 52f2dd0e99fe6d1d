"""Warnings name the line of the user, however many functions of l5kit lie between."""

import sys
import threading

import pytest

from l5kit._warning import warn_caller

OF_PACKAGE = """
def directly(*category):
    warn_caller("careful", *category)

def deeper():
    directly()

def in_comprehension():
    return [[deeper() for _ in range(1)] for _ in range(1)]

def in_generator():
    return list(deeper() for _ in range(1))

def call(function):
    return function()

class Made:
    def __init__(self):
        deeper()
"""


def functions_of(module):
    """Functions as if a module of this name had them."""
    functions = {"__name__": module, "warn_caller": warn_caller}
    exec(OF_PACKAGE, functions)
    return functions


def run_in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def source_of(warning):
    return warning.filename, warning.lineno


@pytest.mark.parametrize("name", ["directly", "deeper", "in_comprehension", "in_generator", "Made"])
@pytest.mark.parametrize("module", ["l5kit", "l5kit.package.module"])
def test_the_line_that_called_the_package_is_named(module, name):
    function = functions_of(module)[name]
    with pytest.warns(RuntimeWarning, match="careful") as caught:
        line = (sys._getframe().f_lineno, function())[0]
    assert [source_of(warning) for warning in caught] == [(__file__, line)]


def test_code_of_the_user_that_the_package_calls_is_nearer_than_who_called_it():
    functions = functions_of("l5kit.module")

    def of_user():
        functions["deeper"]()

    with pytest.warns(RuntimeWarning) as caught:
        functions["call"](of_user)
    assert source_of(caught[0]) == (__file__, of_user.__code__.co_firstlineno + 1)


def test_a_package_whose_name_begins_alike_is_one_of_the_user():
    with pytest.warns(RuntimeWarning) as caught:
        functions_of("l5kit_extras.module")["directly"]()
    assert source_of(caught[0]) == ("<string>", 3)


@pytest.mark.parametrize(("target", "file"), [("directly", threading.__file__), ("by_user", __file__)])
def test_in_a_thread_the_line_that_began_the_work_is_named(target, file):
    functions = functions_of("l5kit.module")
    functions["by_user"] = lambda: functions["deeper"]()
    with pytest.warns(RuntimeWarning, match="careful") as caught:
        run_in_thread(functions[target])
    assert [warning.filename for warning in caught] == [file]


def test_the_category_is_that_of_the_call():
    with pytest.warns(UserWarning, match="careful") as caught:
        functions_of("l5kit.module")["directly"](UserWarning)
    assert [warning.category for warning in caught] == [UserWarning]
