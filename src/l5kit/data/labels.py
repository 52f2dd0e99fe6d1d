"""Class labels of perceived agents and states of traffic light faces, in the order of their columns."""

PERCEPTION_LABELS = [
    "PERCEPTION_LABEL_NOT_SET",
    "PERCEPTION_LABEL_UNKNOWN",
    "PERCEPTION_LABEL_DONTCARE",
    "PERCEPTION_LABEL_CAR",
    "PERCEPTION_LABEL_VAN",
    "PERCEPTION_LABEL_TRAM",
    "PERCEPTION_LABEL_BUS",
    "PERCEPTION_LABEL_TRUCK",
    "PERCEPTION_LABEL_EMERGENCY_VEHICLE",
    "PERCEPTION_LABEL_OTHER_VEHICLE",
    "PERCEPTION_LABEL_BICYCLE",
    "PERCEPTION_LABEL_MOTORCYCLE",
    "PERCEPTION_LABEL_CYCLIST",
    "PERCEPTION_LABEL_MOTORCYCLIST",
    "PERCEPTION_LABEL_PEDESTRIAN",
    "PERCEPTION_LABEL_ANIMAL",
    "AVRESEARCH_LABEL_DONTCARE",
]
"""Label of each column of ``label_probabilities``."""

PERCEPTION_LABEL_TO_INDEX = {label: index for index, label in enumerate(PERCEPTION_LABELS)}
"""Column of each perception label."""

TL_FACE_LABELS = ["ACTIVE", "INACTIVE", "UNKNOWN"]
"""Label of each column of ``traffic_light_face_status``."""

TL_FACE_LABEL_TO_INDEX = {label: index for index, label in enumerate(TL_FACE_LABELS)}
"""Column of each traffic light face status."""
