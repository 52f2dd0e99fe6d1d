"""Safe reading of XML files: limited size, no document types or entities, and errors with their location."""

from pathlib import Path
from typing import Final, NoReturn, Protocol, TypeVar, cast
from xml.etree.ElementTree import ParseError, XMLParser

from l5kit.configs.texts import require_regular_file

_MOST_BYTES: Final = 1 << 30
_CHUNK_BYTES: Final = 1 << 20

_Result = TypeVar("_Result", covariant=True)


class XmlTarget(Protocol[_Result]):
    """Protocol of a handler of the elements of a file, in file order, without holding a tree."""

    def start(self, tag: str, attributes: dict[str, str], /) -> object:
        """Handle the start of an element."""

    def doctype(self, *names: str | None) -> NoReturn:
        """Refuse a document type, as :func:`refuse_doctype` does."""

    def close(self) -> _Result:
        """Return the result."""


def refuse_doctype(*names: str | None) -> NoReturn:
    """Refuse a document type, which may define entities that grow without bounds, or refer to external files.

    Args:
        names: Its name, and its external identifiers.

    Raises:
        ValueError: Always.
    """
    raise ValueError(f"it has a DOCTYPE ({names[0]!r:.40}), which no map needs and which may be an attack; remove it")


def parse_xml(file: Path, target: XmlTarget[_Result], *, most_bytes: int = _MOST_BYTES) -> _Result:
    """Parse a file and return the result of its target.

    Args:
        file: The file.
        target: Handler of the elements.
        most_bytes: Maximum size; a larger file is refused.

    Raises:
        ValueError: There is no such file, it is too large, or it is not well-formed XML.
    """
    try:
        require_regular_file(file, called="map file")
        if file.stat().st_size > most_bytes:
            raise ValueError(f"it has {file.stat().st_size:,} bytes, but such a map has {most_bytes:,} at most; cut it")
        parser = XMLParser(target=target)
        with file.open("rb") as opened:
            while chunk := opened.read(_CHUNK_BYTES):
                parser.feed(chunk)
        return cast("_Result", parser.close())
    except ParseError as error:
        raise ValueError(f"it is no XML, or is cut off: {error}; export or copy it again") from error
    except LookupError as error:
        if type(error) is not LookupError:  # KeyError and others come from the target
            raise
        raise ValueError(f"it has an {error!s:.100}; write it as UTF-8") from error
    except FileNotFoundError as error:
        raise ValueError("there is no such file; check the spelling of the path") from error
    except IsADirectoryError as error:
        raise ValueError("this is a folder; name the file in it") from error
