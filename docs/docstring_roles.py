"""Roles in docstrings of the reference: ``:class:`Name``` and others become code."""

import re
from typing import Any

import griffe

_ROLE = re.compile(r":\w+:`~?([^`]+)`")


def plain_roles(text: str) -> str:
    """Return a docstring with its roles as code."""
    return _ROLE.sub(r"`\1`", text)


class PlainRoles(griffe.Extension):
    """Extension of griffe, which reads the docstrings for mkdocstrings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Replace the roles of one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = plain_roles(obj.docstring.value)
