"""Text of XML files that l5kit writes."""

import re
from typing import Final
from xml.sax.saxutils import quoteattr

from l5kit.errors import UnsupportedValueError

_PLAIN: Final = re.compile(r"[\w .,:;/()+=-]*", re.ASCII)
_NOT_IN_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def quoted(text: str) -> str:
    """Return text as the value of an attribute, with its quotes.

    Raises:
        UnsupportedValueError: It has a character that no XML file can hold.
    """
    if _PLAIN.fullmatch(text):  # as nearly all is
        return f"'{text}'"
    unwritable = _NOT_IN_XML.search(text)
    if unwritable:
        raise UnsupportedValueError(
            f"the text {text!r} has the character {unwritable.group()!r}, which XML cannot hold; rename the element"
        )
    return quoteattr(text, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
