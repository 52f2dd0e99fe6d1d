"""Print what the package depends on, torch aside, one requirement a line.

Words after the script name extras whose requirements are printed as well; ``all`` stands for all but those that stand
on torch, ``gpu``, ``onnx``, ``rl`` and ``train``.
"""

import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).resolve().parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
_ON_TORCH = ("gpu", "onnx", "rl", "train")

asked = set(sys.argv[1:])
wanted = [name for name in EXTRAS if name in asked or ("all" in asked and name not in _ON_TORCH)]
lines = [line for line in PROJECT["dependencies"] if not line.startswith("torch")]
print(*lines, *(line for name in wanted for line in EXTRAS[name]), sep="\n")  # noqa: T201 - that is what it is for
