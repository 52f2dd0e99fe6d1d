"""The path of the raster planning model in L5Kit 1.4."""

from l5kit.planning.rasterized.model import RasterizedPlanningModel

__all__ = ["PlanningModel"]

PlanningModel = RasterizedPlanningModel
"""The name of :class:`RasterizedPlanningModel` in L5Kit 1.4."""
