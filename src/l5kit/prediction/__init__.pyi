from .rasterized.motion_model import RasterizedMotionModel as RasterizedMotionModel
from .vectorized.motion_tokens_model import MotionTokenModel as MotionTokenModel, Rollouts as Rollouts
from .vectorized.query_centric_model import QueryCentricModel as QueryCentricModel
from .vectorized.safepathnet_model import SafePathNetModel as SafePathNetModel
