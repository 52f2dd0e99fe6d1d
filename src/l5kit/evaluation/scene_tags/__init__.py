"""Tags of scenes: what happens in each, such as turns, stops at red lights, cut-ins and close passes, and when."""

from l5kit.evaluation.scene_tags.tag_map import TagMap
from l5kit.evaluation.scene_tags.tag_scenes import tag_scenes
from l5kit.evaluation.scene_tags.tag_table import TAG_KINDS, SceneTags, TagKind, TagThresholds

__all__ = ["TAG_KINDS", "SceneTags", "TagKind", "TagMap", "TagThresholds", "tag_scenes"]
