"""Networks and files as L5Kit 1.5 had them, written by hand from its list of names and shapes.

They share no code with the networks of l5kit. Each class has the module path of 1.5, which is what whole modules and
scripts hold. Those of vectors have weights only: what 1.5 computed from them is known as numbers.
"""

import collections
import contextlib
import itertools
import sys
import types
import warnings

import pytest
import torch
from torch import nn

_CLASSES = []


def of_module(path):
    """Give a class the module path that it had for users of 1.5."""

    def moved(cls):
        cls.__module__ = path
        _CLASSES.append(cls)
        return cls

    return moved


@contextlib.contextmanager
def modules_of_1_5():
    """Let the paths of 1.5 lead to the classes here, as they did where the files were written."""
    stubs = collections.defaultdict(lambda: types.ModuleType("stub"))
    for cls in _CLASSES:
        setattr(stubs[cls.__module__], cls.__name__, cls)
        for end in range(1, cls.__module__.count(".") + 1):
            parent = ".".join(cls.__module__.split(".")[:end])
            if parent not in sys.modules:
                stubs[parent].__path__ = []
    with pytest.MonkeyPatch.context() as patch:
        for path, stub in stubs.items():
            patch.setitem(sys.modules, path, stub)
        yield


# --- rasters ---


@of_module("torchvision.models.resnet")
class BasicBlock(nn.Module):
    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = _shortcut(inputs, planes, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        if self.downsample is not None:
            x = self.downsample(x)
        return self.relu(out + x)


@of_module("torchvision.models.resnet")
class Bottleneck(nn.Module):
    def __init__(self, inputs: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, 4 * planes, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(inputs, 4 * planes, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(out)))))
        if self.downsample is not None:
            x = self.downsample(x)
        return self.relu(out + x)


def _shortcut(inputs, outputs, stride):
    if inputs == outputs and stride == 1:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


@of_module("torchvision.models.resnet")
class ResNet(nn.Module):
    def __init__(self, block: type, counts: list[int], channels: int, targets: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs, growth = 64, 4 if block is Bottleneck else 1
        for place, count in enumerate(counts):
            planes, blocks = 64 * 2**place, []
            for number in range(count):
                blocks.append(block(inputs, planes, 2 if place and not number else 1))
                inputs = growth * planes
            setattr(self, f"layer{place + 1}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(inputs, targets)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def backbone(arch, channels, targets):
    """A backbone by the name that 1.5 gave it."""
    if arch == "resnet18":
        return ResNet(BasicBlock, [2, 2, 2, 2], channels, targets)
    if arch == "resnet50":
        return ResNet(Bottleneck, [3, 4, 6, 3], channels, targets)
    return nn.Sequential(
        nn.Conv2d(channels, 64, 7, 2, 3, bias=False),
        nn.GroupNorm(4, 64),
        nn.ReLU(),
        nn.MaxPool2d(2, 2),
        nn.Conv2d(64, 32, 7, 2, 3, bias=False),
        nn.GroupNorm(2, 32),
        nn.ReLU(),
        nn.MaxPool2d(2, 2),
        nn.Flatten(),
        nn.Linear(1568, targets),
    )


@of_module("l5kit.planning.rasterized.model")
class RasterizedPlanningModel(nn.Module):
    def __init__(self, arch: str, channels: int, targets: int) -> None:
        super().__init__()
        self.model_arch = arch
        self.num_input_channels = channels
        self.num_targets = targets
        self.register_buffer("weights_scaling", torch.tensor([1.0, 1.0, 1.0]))
        self.pretrained = False
        self.criterion = nn.MSELoss(reduction="none")
        self.model = backbone(arch, channels, targets)

    def forward(self, data_batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        steps = self.model(data_batch["image"]).view(len(data_batch["image"]), -1, 3)
        return {"positions": steps[:, :, :2], "yaws": steps[:, :, 2:3]}


@of_module("l5kit.planning.rasterized.multimodal_model")
class RasterizedMultiModalPlanningModel(RasterizedPlanningModel):
    def __init__(self, arch: str, channels: int, num_steps: int, num_modes: int) -> None:
        super().__init__(arch, channels, (3 * num_steps + 1) * num_modes)
        self.num_modes = num_modes
        self.num_timestamps = num_steps
        self.num_outputs = 3
        self.coef_alpha = 0.5

    def forward(self, data_batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        out = self.model(data_batch["image"])
        modes = out[:, : -self.num_modes].view(-1, self.num_modes, self.num_timestamps, 3)
        best = out[:, -self.num_modes :].argmax(dim=1)
        chosen = modes[torch.arange(len(out)), best]
        return {
            "positions": chosen[:, :, :2],
            "yaws": chosen[:, :, 2:3],
            "positions_all": modes[..., :2],
            "yaws_all": modes[..., 2:3],
        }


# --- vectors ---


class Weights(nn.Module):
    """Base of what has weights only; a script needs something to do."""

    def forward(self, data_batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return data_batch


@of_module("l5kit.planning.vectorized.local_graph")
class SinusoidalPositionalEmbedding(Weights):
    def __init__(self, size: int) -> None:
        super().__init__()
        angles = torch.arange(5000.0)[:, None] * torch.exp(
            -(torch.log(torch.tensor(10000.0)) / size) * torch.arange(0, size, 2)
        )
        embedding = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
        self.register_buffer("static_embedding", embedding[:, None])


@of_module("l5kit.planning.vectorized.local_graph")
class LocalMLP(Weights):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size, bias=False)
        self.norm = nn.LayerNorm(size)


@of_module("l5kit.planning.vectorized.local_graph")
class LocalSubGraphLayer(Weights):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.mlp = LocalMLP(size)
        self.linear_remap = nn.Linear(2 * size, size)


@of_module("l5kit.planning.vectorized.local_graph")
class LocalSubGraph(Weights):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([LocalSubGraphLayer(size) for _ in range(3)])


@of_module("l5kit.planning.vectorized.global_graph")
class VectorizedEmbedding(Weights):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.polyline_types = {"AGENT_OF_INTEREST": 0, "AGENT_NO": 1}
        self.embedding = nn.Embedding(13, size)


@of_module("l5kit.planning.vectorized.global_graph")
class MLP(Weights):
    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(*pair) for pair in itertools.pairwise(sizes)])


@of_module("l5kit.planning.vectorized.global_graph")
class MultiheadAttentionGlobalHead(Weights):
    def __init__(self, num_targets: int) -> None:
        super().__init__()
        self.encoder = nn.MultiheadAttention(256, 8, 0.0)
        self.output_embed = MLP([256, 1024, 1024, num_targets])


class VectorWeights(Weights):
    """Base of all networks on vectors."""

    def __init__(self, size: int, scale: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("weights_scaling", torch.ones(3))
        self.register_buffer("xy_scale", scale)
        self.register_buffer("agent_std", torch.tensor([1.6919, 0.0365, 0.0218]))
        self.register_buffer("other_agent_std", torch.tensor([33.2631, 21.3976, 1.5490]))
        self.criterion = nn.L1Loss(reduction="none")
        self.input_embed = nn.Linear(3, size)
        self.positional_embedding = SinusoidalPositionalEmbedding(size)
        self.type_embedding = VectorizedEmbedding(256)
        self.local_subgraph = LocalSubGraph(size)


def _target_scale(num_steps):
    t = torch.arange(num_steps, dtype=torch.float64)
    x = 3.28e-05 * t**3 - 0.0017684 * t**2 + 1.8088969 * t + 2.211737
    y = -5.67e-05 * t**3 + 0.0052056 * t**2 + 0.0138343 * t + 0.0588579
    return torch.stack([x, y], dim=1).float()


@of_module("l5kit.planning.vectorized.open_loop_model")
class VectorizedModel(VectorWeights):
    def __init__(self, num_steps: int) -> None:
        super().__init__(256, _target_scale(num_steps))
        self.global_head = MultiheadAttentionGlobalHead(3 * num_steps)


@of_module("l5kit.planning.vectorized.closed_loop_model")
class VectorizedUnrollModel(VectorizedModel):
    def __init__(self) -> None:
        super().__init__(1)
        self.detach_unroll = True


@of_module("l5kit.prediction.vectorized.transformer")
class TransformerEncoderLayer(Weights):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(256, 8)
        self.linear1 = nn.Linear(256, 1024)
        self.linear2 = nn.Linear(1024, 256)
        self.norm1 = nn.LayerNorm(256)
        self.norm2 = nn.LayerNorm(256)


@of_module("l5kit.prediction.vectorized.transformer")
class TransformerDecoderLayer(Weights):
    def __init__(self) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(256, 8)
        self.multihead_attn = nn.MultiheadAttention(256, 8)
        self.linear1 = nn.Linear(256, 1024)
        self.linear2 = nn.Linear(1024, 256)
        self.norm1 = nn.LayerNorm(256)
        self.norm2 = nn.LayerNorm(256)
        self.norm3 = nn.LayerNorm(256)


@of_module("l5kit.prediction.vectorized.transformer")
class TransformerEncoder(Weights):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([TransformerEncoderLayer() for _ in range(3)])


@of_module("l5kit.prediction.vectorized.transformer")
class TransformerDecoder(Weights):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([TransformerDecoderLayer() for _ in range(3)])


@of_module("l5kit.prediction.vectorized.safepathnet")
class TransformerGlobalGraph(Weights):
    def __init__(self) -> None:
        super().__init__()
        self.encoder_projection_layer = nn.Linear(128, 256, bias=False)
        self.tdecoder_projection_layer = nn.Linear(128, 256, bias=False)
        self.encoder = TransformerEncoder()
        self.tdecoder = TransformerDecoder()


@of_module("l5kit.prediction.vectorized.safepathnet")
class MultimodalTransformerGlobalGraph(Weights):
    def __init__(self, num_trajectories: int) -> None:
        super().__init__()
        self.transformer_global_graph = TransformerGlobalGraph()
        self.egos_embedding = nn.Parameter(torch.zeros(10, 128))
        self.agents_embedding = nn.Parameter(torch.zeros(num_trajectories, 128))


@of_module("l5kit.prediction.vectorized.safepathnet")
class MultimodalDecoder(Weights):
    def __init__(self, num_steps: int, num_trajectories: int) -> None:
        super().__init__()
        self.transformer = MultimodalTransformerGlobalGraph(num_trajectories)
        self.agent_prediction_model = MLP([256, 512, 512, 3 * num_steps + 1])


@of_module("l5kit.prediction.vectorized.safepathnet")
class TrajectoryMatcher(Weights):
    def __init__(self) -> None:
        super().__init__()
        self.cost_prob_coeff = 0.25


@of_module("l5kit.prediction.vectorized.safepathnet_model")
class SafePathNetModel(VectorWeights):
    def __init__(self, num_steps: int, num_trajectories: int) -> None:
        super().__init__(128, torch.ones(num_steps, 2))
        self.global_head = MultimodalDecoder(num_steps, num_trajectories)
        self.matcher = TrajectoryMatcher()


# --- files ---


def save_script(network, path):
    """As trainings of 1.5 ended, and as its published models are stored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(network).save(str(path))


def save_module(network, path):
    """As in notebooks that pickle whole modules."""
    with modules_of_1_5():
        torch.save(network, path)


def save_legacy_module(network, path):
    """The same in the form from before torch 1.6."""
    with modules_of_1_5(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save(network, path, _use_new_zipfile_serialization=False)


def save_training(network, path):
    """State of a training, with the weights inside a larger dict."""
    optimizer = torch.optim.Adam(network.parameters())
    torch.save({"epoch": 3, "model_state_dict": network.state_dict(), "optimizer": optimizer.state_dict()}, path)


WRITERS = {
    "script": save_script,
    "state dict": lambda network, path: torch.save(network.state_dict(), path),
    "training": save_training,
    "module": save_module,
    "legacy module": save_legacy_module,
}

USUAL = ("script", "state dict", "module")
"""Formats that trainings, people and notebooks of 1.5 wrote; the others are rare."""


def module_paths_of_1_5():
    """Paths that files of 1.5 may name, except for those of torchvision."""
    return sorted({(cls.__module__, cls.__name__) for cls in _CLASSES if cls.__module__.startswith("l5kit")})
