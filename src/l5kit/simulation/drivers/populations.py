"""Populations: named ways in which the other vehicles drive, all of them by the one intelligent driver model."""

from typing import Final

from l5kit.simulation.drivers.intelligent import IntelligentDriver
from l5kit.simulation.intelligent_driver import IntelligentDriverParams
from l5kit.simulation.lanes.lane_changing import LaneChangeParams

_YIELDING: Final = IntelligentDriverParams(max_acceleration_mps2=2.0)
"""As published, but for a, which is 2.0 m/s2: who has stopped for others starts as briskly as people do. With the
published 1.0 m/s2 a logged AV, which reacts to nobody, runs into the ones ahead of it that start late."""

_CAUTIOUS: Final = IntelligentDriverParams(
    standing_gap_m=2.0, headway_s=1.8, max_acceleration_mps2=0.8, max_braking_mps2=2.0
)
"""Gap when standing as in Treiber and Kesting, Traffic Flow Dynamics (2013), table 11.2; 1.8 s is "half the
speedometer", the distance that German driving schools teach; a is 0.8 m/s2, below the table's 1.0."""

_ASSERTIVE: Final = IntelligentDriverParams(
    standing_gap_m=1.0, headway_s=0.9, max_acceleration_mps2=2.0, max_braking_mps2=3.0
)
"""0.9 s is half of that distance, below which German law fines; a is 2.0 m/s2 and b 3.0 m/s2, near the bounds of
comfort of the closed-loop score (2.40 and 4.05)."""

POPULATIONS: Final[dict[str, IntelligentDriver]] = {
    "idm": IntelligentDriver(),
    "yielding": IntelligentDriver(params=_YIELDING, gives_way=True),
    "cautious": IntelligentDriver(params=_CAUTIOUS, limit_part=0.9, max_lateral_mps2=1.5),
    "assertive": IntelligentDriver(params=_ASSERTIVE, limit_part=1.1, max_lateral_mps2=3.0),
    "changing": IntelligentDriver(params=_YIELDING, gives_way=True, lane_changes=LaneChangeParams()),
}
"""How the vehicles of each population drive.

``idm``: the published agents of nuPlan, who know leaders and red lights. ``yielding``: they give way, too.
``cautious`` and ``assertive``: other distances, accelerations and speeds, 10 % below and above the limit, slower and
faster in bends. ``changing``: as ``yielding``, with lane changes.
"""

POPULATIONS_BY_PARAMETERS: Final = tuple(
    name for name, driver in POPULATIONS.items() if not driver.gives_way and driver.lane_changes is None
)
"""Those that differ in parameters alone, which environments have, too."""
