"""Text in XML files written by l5kit."""

import re
from typing import Final
from xml.sax.saxutils import quoteattr

from l5kit.errors import UnsupportedValueError

_PLAIN: Final = re.compile(r"[\w .,:;/()+=-]*", re.ASCII)
_NOT_IN_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def quoted(text: str) -> str:
    """Return text as a quoted attribute value.

    Raises:
        UnsupportedValueError: It has a character that is not allowed in XML.
    """
    if _PLAIN.fullmatch(text):  # the usual case
        return f"'{text}'"
    unwritable = _NOT_IN_XML.search(text)
    if unwritable:
        raise UnsupportedValueError(
            f"the text {text!r} has the character {unwritable.group()!r}, which XML does not allow; rename the element"
        )
    return quoteattr(text, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
