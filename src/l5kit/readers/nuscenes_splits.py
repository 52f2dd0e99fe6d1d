"""Which scenes of nuScenes are for training and which for validation, by their numbers, as its makers have split it."""

_VALIDATION = (
    *((3, 3), (12, 18), (35, 36), (38, 39), (92, 110), (221, 221), (268, 278), (329, 332), (344, 346), (519, 524)),
    *((552, 565), (625, 627), (629, 630), (632, 638), (770, 771), (775, 775), (777, 778), (780, 784), (794, 800)),
    *((802, 802), (904, 917), (919, 931), (962, 963), (966, 969), (971, 972), (1059, 1073)),
)
"""First and last number of each run of the 150 scenes for validation of ``v1.0-trainval``."""

_VALIDATION_OF_MINI = (103, 916)


def split_of_scene(version: str, name: str) -> str:
    """Return ``train``, ``val`` or ``test``; ``sample`` for scenes that the makers do not know.

    Args:
        version: Folder of the tables, such as ``v1.0-mini``.
        name: Name of the scene, such as ``scene-0103``.
    """
    part = version.removeprefix("v1.0-")
    if part == "test":
        return "test"
    digits = name.removeprefix("scene-")
    if part not in ("mini", "trainval") or not (name.startswith("scene-") and digits.isdecimal()):
        return "sample"
    number = int(digits)
    if part == "mini":
        return "val" if number in _VALIDATION_OF_MINI else "train"
    return "val" if any(first <= number <= last for first, last in _VALIDATION) else "train"
