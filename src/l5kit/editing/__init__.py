"""Scene edits: test scenarios for planners made from logged scenes, such as a parked bus or a new goal."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
