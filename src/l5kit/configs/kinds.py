"""Types of configuration values, which msgspec checks, and the description of a key.

Why msgspec and not pydantic v2, after a trial of both with these keys (Python 3.11, two cores):

* Import: ``import l5kit.data`` takes 0.01 s longer with msgspec and 0.1 s, the whole allowance, with pydantic. The
  first read takes 0.3 ms with msgspec and 40 ms with pydantic, which builds its validators then.
* Error texts: pydantic lists all wrong keys by kind of mistake; msgspec stops at the first. ``reading`` therefore
  checks key by key and builds its texts from the JSON schema of the key, which both libraries provide.
* Leniency: configurations of 1.x hold NumPy scalars and arrays, tuples, ``5.0`` for 5 and 0 for false, which must be
  converted to plain values before the check. That takes one function with msgspec and one validator per type with
  pydantic.
* Typing: both work without a mypy plugin, and parameters stay plain frozen dataclasses.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from l5kit._types import Config

MAX_RASTER_SIDE_PX: Final = 16_384
"""Pixels along a side of a raster; one channel of a square of this size takes a gigabyte."""

MAX_NUM_FRAMES: Final = 100_000
"""Frames of a sample before or after the current one, and frames per step: nearly three hours at 10 Hz."""

MAX_NUM_ELEMENTS: Final = 10_000
"""Agents, lanes, crosswalks, and points of each of them, in a vector sample."""

MAX_BATCH_SIZE: Final = 100_000
"""Samples of a batch; even small rasters exceed the memory of any machine at this number."""

MAX_NUM_WORKERS: Final = 10_000
"""Processes or threads of a loader."""

MAX_NUM_STEPS: Final = 10**12
"""Steps of a training or of an epoch; at a thousand per second they take thirty years."""

MAX_SEED: Final = 2**63 - 1
"""Largest seed that torch's generators and configuration files accept."""

MAX_LEARNING_RATE: Final = 1e6
"""A thousandth of it already destroys any weights; optimisers fail at values beyond float32."""

MAX_NETWORK_SIZE: Final = 16_384
"""Features, layers, heads and modes of a network; a square matrix of this size takes a gigabyte."""

MIN_STEP_TIME_S: Final = 1e-6
"""Seconds between two frames; velocities over much shorter times are not finite."""

MAX_STEP_TIME_S: Final = 3600.0
"""Seconds between two frames, the bound of the facts of a log."""


@dataclass(frozen=True)
class Key:
    """A configuration key: its path, and whatever its type cannot express.

    Attributes:
        text: Description.
        at: Path, such as ``model_params.step_time``; empty to use the section of the class and the name of the field.
        unit: Unit of the value, in words; empty for none.
        default: Value of a missing key; ``...`` if there is none or the field has its own default.
        derived: Function that computes the value of a missing key from the configuration, the path of the section, and
            the values of the preceding fields.
        otherwise: Default in words; empty if a default value says it all.
        only_in: The only section with the key, for a class that is read from several sections.
        null_is_missing: Whether null counts as a missing key.
        is_unused: Whether it has no effect: a key of L5Kit 1.x that the trainings of 1.x did not read either.
    """

    text: str
    at: str = ""
    unit: str = ""
    default: object = ...
    derived: Callable[[Config, str, Mapping[str, object]], object] | None = None
    otherwise: str = ""
    only_in: str = ""
    null_is_missing: bool = False
    is_unused: bool = False


Count = Annotated[int, Meta(ge=0)]
PositiveCount = Annotated[int, Meta(ge=1)]
NetworkSize = Annotated[int, Meta(ge=1, le=MAX_NETWORK_SIZE)]
StepCount = Annotated[int, Meta(ge=1, le=MAX_NUM_STEPS)]
EpochCount = Annotated[int, Meta(ge=1, le=10**6)]
Seed = Annotated[int, Meta(ge=0, le=MAX_SEED)]
FrameCount = Annotated[int, Meta(ge=0, le=MAX_NUM_FRAMES)]
StepSize = Annotated[int, Meta(ge=1, le=MAX_NUM_FRAMES)]
ElementCount = Annotated[int, Meta(ge=0, le=MAX_NUM_ELEMENTS)]
BatchSize = Annotated[int, Meta(ge=1, le=MAX_BATCH_SIZE)]
WorkerCount = Annotated[int, Meta(ge=0, le=MAX_NUM_WORKERS)]
PointCount = Annotated[int, Meta(ge=2, le=MAX_NUM_ELEMENTS)]

Number = float
PositiveNumber = Annotated[float, Meta(gt=0)]
LearningRate = Annotated[float, Meta(gt=0, le=MAX_LEARNING_RATE)]
StepSeconds = Annotated[float, Meta(ge=MIN_STEP_TIME_S, le=MAX_STEP_TIME_S)]
NumberFromZero = Annotated[float, Meta(ge=0)]
Probability = Annotated[float, Meta(ge=0, le=1)]
Fraction = Annotated[float, Meta(gt=0, le=1)]
TagWeights = Annotated[dict[str, NumberFromZero], Meta(min_length=1)]

OWN_CODE: Final = r"^.+\.py:[A-Za-z_]\w*$"
"""Pattern of ``FILE.py:NAME``, which names an object in a user's file."""

_NO_PART_OF_A_NAME: Final = r"\x00-\x1f/\\\ud800-\udfff"
_NAME_OF_FILE: Final = rf"^[^.{_NO_PART_OF_A_NAME}][^{_NO_PART_OF_A_NAME}]*(?![\s\S])"

Flag = bool
Text = str
FilePath = Annotated[str, Meta(pattern=r"\S", extra_json_schema={"format": "path"})]
FileName = Annotated[str, Meta(pattern=_NAME_OF_FILE, max_length=100, extra_json_schema={"format": "file name"})]
OwnCode = Annotated[str, Meta(pattern=OWN_CODE, extra_json_schema={"format": "own code"})]
FilePaths = Annotated[tuple[FilePath, ...], Meta(min_length=1)]
# msgspec 0.22 crashes on a union of a text with a pattern and a list, so this text has a minimum length instead
FolderNames = Annotated[str, Meta(min_length=1, extra_json_schema={"format": "path"})] | FilePaths

_Side = Annotated[int, Meta(ge=1, le=MAX_RASTER_SIDE_PX)]
SizePair = tuple[_Side, _Side]
NumberPair = tuple[Number, Number]
PositivePair = tuple[PositiveNumber, PositiveNumber]
ThreeNumbers = tuple[NumberFromZero, NumberFromZero, NumberFromZero]
FourNumbers = tuple[NumberFromZero, NumberFromZero, NumberFromZero, NumberFromZero]
PositiveList = Annotated[tuple[PositiveNumber, ...], Meta(min_length=1)]
