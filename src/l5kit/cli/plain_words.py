"""Messages of the library in the words of the command: options for arguments, plain values for those of Python.

The library names arguments as Python has them, so that one message serves scripts and the command. What a person at a
terminal can type stands here once, instead of twice in each message.
"""

import re
from collections.abc import Mapping
from typing import Final

_ALSO_CALLED: Final = {
    "folder": ("out",),
    "output_folder": ("out",),
    "target": ("out",),
    "path": ("path", "paths", "out"),
    "num_frames": ("frames",),
    "num_frames_to_copy": ("frames",),
    "num_frames_gt": ("future",),
    "min_frame_future": ("min_future",),
    "num_scenes": ("scenes",),
    "num_train_scenes": ("train_scenes",),
    "num_validate_scenes": ("validate_scenes",),
    "traffic_density": ("density",),
    "keeps_plans": ("plans",),
    "num_workers": ("workers",),
    "num_worst": ("worst",),
    "horizons_s": ("horizons",),
    "step_time_s": ("step",),
    "map_radius_m": ("map_radius",),
    "pixel_size_m": ("pixel_size",),
    "data_folder": ("data",),
    "local_data_folder": ("data",),
}
"""Arguments of the library, and parameters of commands that they come from."""

_VALUES: Final = (
    (re.compile(r"\bslice\((\w+), (\w+), None\)"), r"\1:\2"),
    (re.compile(r"\bslice\((\w+), (\w+), (\w+)\)"), r"\1:\2:\3"),
    (re.compile(r"\bNone(?=:\w)|(?<=\w:)None\b"), ""),
    (re.compile(r"\bnp\.\w+\(([^()]*)\)"), r"\1"),
    (re.compile(r"\b(?:Posix|Windows)Path\(('[^']*')\)"), r"\1"),
    (re.compile(r"\(([^(),]+),\)"), r"\1"),
    (re.compile(r"<class '(?:\w+\.)*(\w+)'>"), r"\1"),
    (re.compile(r"\bdtype\('([^']*)'\)"), r"\1"),
)
"""What Python writes for a value, and what is written in its place."""


def in_plain_words(message: str, flags: Mapping[str, str]) -> str:
    """Return a message with options in place of arguments of Python.

    Args:
        message: A message of the library.
        flags: What is typed for each parameter of the command, such as ``--out``, by its name.
    """
    for pattern, plain in _VALUES:
        message = pattern.sub(plain, message)
    # functions call some things otherwise than commands do
    others = {name: next((flags[of] for of in known if of in flags), "") for name, known in _ALSO_CALLED.items()}
    typed = {name: flag for name, flag in {**flags, **others}.items() if flag}
    if not typed:
        return message
    argument = "|".join(sorted(map(re.escape, typed), key=len, reverse=True))
    # an argument that is said to be an option, one that is to be set, and one that the message begins with
    message = re.sub(r"\b\w+ \((--[a-z][a-z-]*)\)(?= (?:is|must)\b)", r"\1", message)
    message = re.sub(
        rf"\b({argument})=(True|(?!False|None)['\w.-]+)",
        lambda match: typed[match[1]] if match[2] == "True" else f"{typed[match[1]]} {match[2].strip(chr(39))}",
        message,
    )
    return re.sub(rf"^({argument})(?= (?:is|must)\b)", lambda match: typed[match[1]], message)
