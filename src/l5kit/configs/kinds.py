"""Kinds of values that configuration keys have, as msgspec checks them, and what a person is told of a key.

msgspec was chosen over pydantic v2 by trying both on these keys (Python 3.11, two cores):

* Import: ``import l5kit.data`` takes 0.01 s longer with msgspec and 0.1 s with pydantic, which is all that is allowed.
  The first read takes 0.3 ms with msgspec and 40 ms with pydantic, which builds validators then.
* Error texts: pydantic lists all wrong keys with the kind of mistake; msgspec stops at the first. So ``reading`` checks
  key by key and makes the texts from the JSON schema of the key, which either of them gives.
* Leniency: configurations of 1.x hold NumPy scalars and arrays, tuples, ``5.0`` for 5 and 0 for false, which have to be
  plain values before the check. That takes one function with msgspec, and a validator of each kind with pydantic.
* Typing: both do without a plugin of mypy, and parameters stay plain frozen dataclasses.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from msgspec import Meta

from l5kit._types import Config

MAX_RASTER_SIDE_PX: Final = 16_384
"""Pixels along a side of a raster; one channel of a square that large takes a gigabyte."""

MAX_NUM_FRAMES: Final = 100_000
"""Frames of a sample before or after the current one, and frames of a step: nearly three hours at 10 a second."""

MAX_NUM_ELEMENTS: Final = 10_000
"""Agents, lanes, crosswalks, and points of each, in a vector sample."""

MAX_BATCH_SIZE: Final = 100_000
"""Samples of a batch; as many small rasters take more memory than machines have."""

MAX_NUM_WORKERS: Final = 10_000
"""Processes, or threads, of a loader."""

MAX_NUM_STEPS: Final = 10**12
"""Steps of a training, or of an epoch; with a thousand a second they take thirty years."""

MAX_SEED: Final = 2**63 - 1
"""The largest seed that torch's generators, and files of configurations, take."""

MAX_LEARNING_RATE: Final = 1e6
"""Weights of any size are lost at a thousandth of it; optimisers end with an error at those that float32 lacks."""

MAX_NETWORK_SIZE: Final = 16_384
"""Features, layers, heads and ways of a network; a matrix of as many features on both sides takes a gigabyte."""

MIN_STEP_TIME_S: Final = 1e-6
"""Seconds between two frames; velocities over much less are not finite."""

MAX_STEP_TIME_S: Final = 3600.0
"""Seconds between two frames, as the facts of a log have it."""


@dataclass(frozen=True)
class Key:
    """A configuration key: where it stands, and what its type cannot say.

    Attributes:
        text: What it does.
        at: Its path, such as ``model_params.step_time``; empty where section and name are those of the field.
        unit: Of its value, in words; empty if it has none.
        default: What holds where it is missing; ``...`` if nothing does, or the field has a default of its own.
        derived: Makes what holds where it is missing from the configuration, the path of the section, and the fields
            before it.
        otherwise: What holds where it is missing, in words; empty where a default value says it.
        only_in: The one section that has it, for a field that several sections have.
        null_is_missing: Whether null counts as if the key were missing.
        is_unused: Whether it has no effect: a key of L5Kit 1.x that its own trainings did not read either.
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
"""The form of ``FILE.py:NAME``, which names something in a file of the user."""

_NO_PART_OF_A_NAME: Final = r"\x00-\x1f/\\\ud800-\udfff"
_NAME_OF_FILE: Final = rf"^[^.{_NO_PART_OF_A_NAME}][^{_NO_PART_OF_A_NAME}]*(?![\s\S])"

Flag = bool
Text = str
FilePath = Annotated[str, Meta(pattern=r"\S", extra_json_schema={"format": "path"})]
FileName = Annotated[str, Meta(pattern=_NAME_OF_FILE, max_length=100, extra_json_schema={"format": "file name"})]
OwnCode = Annotated[str, Meta(pattern=OWN_CODE, extra_json_schema={"format": "own code"})]
FilePaths = Annotated[tuple[FilePath, ...], Meta(min_length=1)]
# msgspec 0.22 crashes on a text with a pattern beside a list, so that here the text has a length
FolderNames = Annotated[str, Meta(min_length=1, extra_json_schema={"format": "path"})] | FilePaths

_Side = Annotated[int, Meta(ge=1, le=MAX_RASTER_SIDE_PX)]
SizePair = tuple[_Side, _Side]
NumberPair = tuple[Number, Number]
PositivePair = tuple[PositiveNumber, PositiveNumber]
ThreeNumbers = tuple[NumberFromZero, NumberFromZero, NumberFromZero]
FourNumbers = tuple[NumberFromZero, NumberFromZero, NumberFromZero, NumberFromZero]
PositiveList = Annotated[tuple[PositiveNumber, ...], Meta(min_length=1)]
