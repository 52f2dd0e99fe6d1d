"""Classes of boxes in logs of py123d: which number means what, by the label class that a log names."""

from typing import Final

UNKNOWN: Final = "unknown"
"""The class of numbers and label classes that are not known."""

_CAR, _BUS, _TRUCK, _OTHER_VEHICLE = "CAR", "BUS", "TRUCK", "OTHER_VEHICLE"
_PERSON, _CYCLIST, _MOTORCYCLIST, _ANIMAL, _NONE = "PEDESTRIAN", "CYCLIST", "MOTORCYCLIST", "ANIMAL", "UNKNOWN"
_BICYCLE, _MOTORCYCLE, _TRAM, _EMERGENCY = "BICYCLE", "MOTORCYCLE", "TRAM", "EMERGENCY_VEHICLE"

_CLASSES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "DefaultBoxDetectionLabel": (
        ("ego", _CAR), ("vehicle", _CAR), ("train", _TRAM), ("two-wheeler", _CYCLIST), ("person", _PERSON),
        ("animal", _ANIMAL), ("traffic sign", _NONE), ("traffic cone", _NONE), ("traffic light", _NONE),
        ("barrier", _NONE), ("generic object", _NONE), ("other", _NONE),
    ),
    "AV2SensorBoxDetectionLabel": (
        ("animal", _ANIMAL), ("articulated bus", _BUS), ("bicycle", _BICYCLE), ("bicyclist", _CYCLIST),
        ("bollard", _NONE), ("box truck", _TRUCK), ("bus", _BUS), ("construction barrel", _NONE),
        ("construction cone", _NONE), ("dog", _ANIMAL), ("large vehicle", _OTHER_VEHICLE),
        ("message board trailer", _NONE), ("mobile pedestrian crossing sign", _NONE), ("motorcycle", _MOTORCYCLE),
        ("motorcyclist", _MOTORCYCLIST), ("official signaler", _PERSON), ("pedestrian", _PERSON),
        ("railed vehicle", _TRAM), ("regular vehicle", _CAR), ("school bus", _BUS), ("sign", _NONE),
        ("stop sign", _NONE), ("stroller", _PERSON), ("traffic light trailer", _NONE), ("truck", _TRUCK),
        ("truck cab", _TRUCK), ("vehicular trailer", _OTHER_VEHICLE), ("wheelchair", _PERSON),
        ("wheeled device", _NONE), ("wheeled rider", _CYCLIST),
    ),
    "KITTI360BoxDetectionLabel": (
        ("bicycle", _BICYCLE), ("box", _NONE), ("bus", _BUS), ("car", _CAR), ("caravan", _OTHER_VEHICLE),
        ("lamp", _NONE), ("motorcycle", _MOTORCYCLE), ("person", _PERSON), ("pole", _NONE), ("rider", _CYCLIST),
        ("small pole", _NONE), ("stop", _NONE), ("traffic light", _NONE), ("traffic sign", _NONE),
        ("trailer", _OTHER_VEHICLE), ("train", _TRAM), ("trash bin", _NONE), ("truck", _TRUCK),
        ("vending machine", _NONE),
    ),
    "NuPlanBoxDetectionLabel": (
        ("vehicle", _CAR), ("cyclist", _CYCLIST), ("pedestrian", _PERSON), ("traffic cone", _NONE),
        ("barrier", _NONE), ("construction sign", _NONE), ("generic object", _NONE),
    ),
    "NuScenesBoxDetectionLabel": (
        ("car", _CAR), ("truck", _TRUCK), ("bendy bus", _BUS), ("rigid bus", _BUS),
        ("construction vehicle", _OTHER_VEHICLE), ("ambulance", _EMERGENCY), ("police car", _EMERGENCY),
        ("trailer", _OTHER_VEHICLE), ("bicycle", _BICYCLE), ("motorcycle", _MOTORCYCLE), ("adult", _PERSON),
        ("child", _PERSON), ("construction worker", _PERSON), ("personal mobility", _PERSON),
        ("police officer", _PERSON), ("stroller", _PERSON), ("wheelchair", _PERSON), ("traffic cone", _NONE),
        ("barrier", _NONE), ("pushable", _NONE), ("debris", _NONE), ("bicycle rack", _NONE), ("animal", _ANIMAL),
    ),
    "PandasetBoxDetectionLabel": (
        ("bird", _ANIMAL), ("animal", _ANIMAL), ("bicycle", _BICYCLE), ("bus", _BUS), ("car", _CAR),
        ("cones", _NONE), ("construction signs", _NONE), ("emergency vehicle", _EMERGENCY),
        ("medium-sized truck", _TRUCK), ("motorcycle", _MOTORCYCLE), ("motorized scooter", _MOTORCYCLIST),
        ("construction vehicle", _OTHER_VEHICLE), ("pedicab", _CYCLIST), ("uncommon vehicle", _OTHER_VEHICLE),
        ("pedestrian", _PERSON), ("pedestrian with object", _PERSON), ("personal mobility", _PERSON),
        ("pickup truck", _CAR), ("pylons", _NONE), ("road barriers", _NONE), ("rolling containers", _NONE),
        ("semi-truck", _TRUCK), ("signs", _NONE), ("temporary barriers", _NONE), ("towed object", _OTHER_VEHICLE),
        ("train", _TRAM), ("tram", _TRAM),
    ),
    "WODPerceptionBoxDetectionLabel": (
        ("unset", _NONE), ("vehicle", _CAR), ("pedestrian", _PERSON), ("sign", _NONE), ("cyclist", _CYCLIST),
    ),
    "WODMotionBoxDetectionLabel": (
        ("unset", _NONE), ("vehicle", _CAR), ("pedestrian", _PERSON), ("cyclist", _CYCLIST), ("other", _NONE),
    ),
}  # fmt: skip
"""Name and label of each number, in the order of the numbers, by the name of the label class in version 0.7."""


def names_of_labels(label_class: str) -> tuple[str, ...]:
    """Return the class of each number of a label class, as in :data:`LABEL_MAPPING`; nothing for one not known.

    Args:
        label_class: Its name, alone or with that of its module.
    """
    short = label_class.rpartition(".")[2]
    return tuple(f"{short.removesuffix('BoxDetectionLabel')} {name}" for name, _ in _CLASSES.get(short, ()))


LABEL_MAPPING: Final = {
    **{
        name: f"PERCEPTION_LABEL_{label}"
        for label_class, members in _CLASSES.items()
        for name, (_, label) in zip(names_of_labels(label_class), members, strict=True)
    },
    UNKNOWN: "PERCEPTION_LABEL_UNKNOWN",
}
"""Label of each class of each label class, and of what is not known."""
