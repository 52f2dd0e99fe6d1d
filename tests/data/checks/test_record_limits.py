"""Every limit of the checks of records, with the last value that passes and the first that does not."""

import numpy as np
import pytest

from l5kit.data.checks.record_checks import (
    check_agent_records,
    check_face_records,
    check_frame_records,
    check_frame_steps,
    check_scene_records,
)
from support.logs import make_agent, make_agents, make_faces, make_frames, scenes_of

COS_45 = np.cos(np.radians(45.0))
BEYOND_45 = np.nextafter(COS_45, 0)
TINY = np.nextafter(np.float32(0), np.float32(1))


def above(value, dtype=np.float32):
    """The next number of a type."""
    return np.nextafter(dtype(value), dtype(np.inf))


def scene(**fields):
    return check_scene_records(scenes_of([1], **{"start_ns": 1, "end_ns": 1, **fields}))


def frame(**fields):
    return check_frame_records(make_frames(1, **{"timestamps_ns": 1, **fields})[0])


def tilted(cosine):
    frames, *_ = make_frames(1, timestamps_ns=1)
    frames["ego_rotation"] = [[1, 0, 0], [0, cosine, -COS_45], [0, COS_45, cosine]]
    return check_frame_records(frames)


def skewed(share):
    frames, *_ = make_frames(1, timestamps_ns=1)
    frames["ego_rotation"] = [[1, 0, 0], [share, 1, 0], [0, 0, 1]]
    return check_frame_records(frames)


def step(step_ns, step_m=0.0):
    frames, *_ = make_frames(2, timestamps_ns=[5, 5 + step_ns], positions_m=[[0, 0], [step_m, 0]])
    return check_frame_steps(frames[:1], frames[1:])


def agent(**fields):
    return check_agent_records(make_agents(make_agent(1, **fields)))


def track(track_id, dtype=np.uint64):
    agents = make_agents(make_agent(1))
    fields = [(name, dtype if name == "track_id" else agents.dtype[name]) for name in agents.dtype.names]
    agents = agents.astype(fields)
    agents["track_id"] = track_id
    return check_agent_records(agents)


def labels(**fields):
    return agent(labels=fields)


def face(*status):
    return check_face_records(make_faces(F=np.array(status, np.float32)))


LIMITS = {
    "a scene of no time": (lambda ns: scene(start_ns=7, end_ns=ns), 7, 6, "ends before it starts"),
    "start of a scene": (lambda ns: scene(start_ns=ns, end_ns=9), 1, 0, "start_time is not positive"),
    "timestamp": (lambda ns: frame(timestamps_ns=ns), 1, 0, "timestamp is not positive"),
    "position of the AV": (
        lambda x_m: frame(positions_m=(0, x_m)),
        1e8,
        above(1e8, np.float64),
        "ego_translation is not on Earth",
    ),
    "position on the other side": (
        lambda x_m: frame(positions_m=(x_m, 0)),
        -1e8,
        -above(1e8, np.float64),
        "ego_translation is not on Earth",
    ),
    "tilt of 45 degrees": (tilted, COS_45, BEYOND_45, "tilts the AV by more than 45 degrees"),
    "skew of a rotation": (skewed, 1e-4, above(1e-4, np.float64), "ego_rotation is not a rotation matrix"),
    "a later frame": (step, 1, 0, "not later than that of the previous frame"),
    "a millisecond": (step, 1_000_000, 999_999, "less than a millisecond has passed"),
    "no time is told once": (step, 0, 1, "less than a millisecond has passed"),
    "a second": (step, 10**9, 10**9 + 1, "more than a second has passed"),
    "150 m in a second": (lambda m: step(10**9, m), 150.0, above(150, np.float64), "moved by more than 150 m/s"),
    "15 cm in a millisecond": (
        lambda ns: step(ns, 1.0),
        999_999,  # too short to be a step, so that the usual one is taken
        1_000_000,
        "moved by more than 150 m/s",
    ),
    "centroid": (lambda x_m: agent(centroid=(x_m, 0)), 1e8, above(1e8, np.float64), "centroid is not on Earth"),
    "least extent": (lambda m: agent(extent=(4, m, 1)), TINY, 0, "extent is not positive"),
    "largest extent": (lambda m: agent(extent=(4, 2, m)), 200, above(200), "extent is above 200 m"),
    "heading": (lambda yaw: agent(yaw=yaw), np.float32(2 * np.pi), above(2 * np.pi), "yaw is not between"),
    "negative heading": (lambda yaw: agent(yaw=yaw), np.float32(-2 * np.pi), -above(2 * np.pi), "yaw is not between"),
    "speed": (lambda v: agent(velocity=(0, v)), 150, above(150), "velocity is above 150 m/s"),
    "speed backward": (lambda v: agent(velocity=(v, 0)), -150, -above(150), "velocity is above 150 m/s"),
    "exact track id": (track, 2**53, 2**53 + 1, "track_id is above 2**53"),
    "largest track id": (track, 2**63 - 1, 2**63, "track_id is 2**63 or more"),
    "too large is told once": (track, 2**63, 2**63 - 1, "track_id is above 2**53"),
    "signed track id": (lambda track_id: track(track_id, np.int64), 0, -1, "track_id is negative"),
    "least probability": (lambda p: labels(CAR=1.0, VAN=p), 0.0, -TINY, "a label probability is not between 0 and 1"),
    "largest probability": (lambda p: labels(CAR=p), np.float32(1.001), above(1.001), "probability is not between"),
    "least status": (lambda p: face(1, p, 0), 0.0, -TINY, "a status value is not between 0 and 1"),
    "largest status": (lambda p: face(p, 0, 0), np.float32(1.001), above(1.001), "status value is not between 0 and 1"),
    "a status": (lambda p: face(0, p, 0), TINY, 0.0, "no status is above 0"),
}


def messages(found):
    return [message for _, _, message, rows in found if np.any(rows)]


@pytest.mark.parametrize(("checks", "last", "first", "message"), LIMITS.values(), ids=LIMITS.keys())
def test_a_limit_holds_to_the_last_step(checks, last, first, message):
    assert not [said for said in messages(checks(last)) if message in said]
    assert [said for said in messages(checks(first)) if message in said]
