"""Package a training as a driver that ships with l5kit: weights, configuration, card and model card.

Run ``python benchmarks/ship_planner.py TRAINING --log LOG --facts FACTS.json``. TRAINING is the folder of ``l5kit
train`` or a file of weights in it; LOG is a log with map on which it was not trained, over whose samples the plans of
the stored weights are compared with those of the training. FACTS.json adds what the training does not record:
``status`` (a sentence), ``recipe`` (the commands), ``seeds`` (by purpose), ``scores`` (rows with ``driver``, ``towns``,
``agents``, ``scenes``, ``score``) and ``limits`` (sentences); if several trainings followed each other also ``minutes``
and, for a policy, ``num_steps``. A TRAINING of ``l5kit train-rl`` becomes ``route_policy``: only the parts of its
policy that drive are kept, without the optimizer, and ``--log`` is not needed. Scores are those of the shipped weights,
so fill them in after the first call (``l5kit simulate LOG --planner route_planner``), in card.json; ``--readme`` alone
rewrites the model card from it.
"""

import argparse
import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

import l5kit
from l5kit._files import placed_when_complete
from l5kit.configs.config import load_config_data
from l5kit.data import ChunkedDataset
from l5kit.data.dataset_files import find_dataset_files
from l5kit.environment.policy_file import find_policy_file, read_policy
from l5kit.environment.policy_options import POLICY_OPTIONS
from l5kit.planning.checkpoint import read_checkpoint, save_weights
from l5kit.planning.weights_file import CARD_FILE, CARD_FORMAT, CONFIG_FILE, is_policy, weights_of
from l5kit.workflows.trained_model import load_model
from l5kit.workflows.trained_network import configuration_of

SHIPPED = Path(l5kit.__file__).parent / "weights" / "route_planner"
README = "README.md"
MOST_BYTES = 3_000_000
MOST_POLICY_BYTES = 2_000_000
POLICY = "driver.zip"
DRIVING = ("features_extractor.", "mlp_extractor.policy_net.", "action_net.")
"""Prefixes of the policy weights that drive; the others are of the critic."""

MOST_DIFFERENCE_M = 0.01
NUM_COMPARED = 1_000
FACTS = ("status", "recipe", "seeds", "scores", "limits")


def main() -> None:
    """Write the folder of the driver, or its model card alone."""
    parser = argparse.ArgumentParser(description="Make a training the network that ships with l5kit.")
    parser.add_argument("training", nargs="?", help="folder of l5kit train, or a file of weights in it")
    parser.add_argument("--log", type=Path, help="log, with its map, over which plans are compared")
    parser.add_argument("--facts", type=Path, help="JSON file with what is to be in the card")
    parser.add_argument("--readme", action="store_true", help="only write the model card anew")
    parser.add_argument("--folder", type=Path, default=SHIPPED, help="where to write")
    options = parser.parse_args()
    is_of_policy = options.training is not None and is_policy(options.training)
    if is_of_policy and options.folder == SHIPPED:
        options.folder = SHIPPED.with_name("route_policy")
    if options.readme:
        card = json.loads((options.folder / CARD_FILE).read_text("utf-8"))
        (options.folder / README).write_text(model_card(card), encoding="utf-8")
    elif is_of_policy and options.facts is not None:
        facts = json.loads(options.facts.read_text("utf-8"))
        card = ship_policy(Path(options.training), facts=facts, folder=options.folder)
        print(f"wrote {options.folder}: {card['num_bytes']:,} bytes, {card['dtype']}")
    elif None in (options.training, options.log, options.facts):
        parser.error("name TRAINING, --log and --facts, or --readme")
    else:
        facts = json.loads(options.facts.read_text("utf-8"))
        card = ship(weights_of(options.training), options.log, facts=facts, folder=options.folder)
        print(f"wrote {options.folder}: {card['num_bytes']:,} bytes, {card['dtype']}, {card['difference_m']:.4f} m off")


def ship(file: Path, log: Path, *, facts: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write the folder of a network and return its card; an existing folder is replaced as a whole."""
    _require_facts(facts)
    kept, config = read_checkpoint(file), configuration_of(file)
    result_file = file.parent / "result.json"
    minutes = facts.get("minutes") or json.loads(result_file.read_text("utf-8"))["minutes"]
    with placed_when_complete(folder) as scratch:
        scratch.mkdir()
        target = scratch / f"{folder.name}.safetensors"
        config = {**config, "train_params": {**config["train_params"], "output_name": folder.name}}
        # Half precision halves the file, if it moves no plan by more than a centimetre. Networks compute in float32
        # anyway.
        for dtype in (torch.float16, torch.float32):
            weights = {name: _stored(value, dtype) for name, value in kept.state_dict.items()}
            save_weights(target, weights, model_class=str(kept.model_class), config=config, facts=kept.facts)
            difference_m = largest_difference_m(file, target, log)
            if difference_m <= MOST_DIFFERENCE_M:
                break
        if target.stat().st_size > MOST_BYTES:
            raise SystemExit(f"the weights have {target.stat().st_size:,} bytes; at most {MOST_BYTES:,} ship")
        card = {
            **_told_of(folder.name, target, weights, dtype=str(dtype).removeprefix("torch."), facts=facts),
            "difference_m": round(difference_m, 5),
            "workflow": config["workflow"],
            "num_steps": kept.facts.get("step"),
            "minutes": minutes,
            "data": _records(kept.facts.get("data")),
            "eval_data": _records(kept.facts.get("eval_data")),
        }
        _write_texts(scratch, config, card)
    return card


def ship_policy(training: Path, *, facts: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Write the folder of a policy and return its card; an existing folder is replaced as a whole.

    The file of stable-baselines3 is reduced to the weights that drive and the training options.
    """
    _require_facts(facts)
    file = find_policy_file(training)
    result = json.loads((file.parent / "result.json").read_text("utf-8"))
    with zipfile.ZipFile(file) as archive:
        content = json.loads(archive.read("data"))
        weights = torch.load(io.BytesIO(archive.read("policy.pth")), map_location="cpu", weights_only=True)
        version = archive.read("_stable_baselines3_version")
    kept = {name: value for name, value in weights.items() if name.startswith(DRIVING)}
    with placed_when_complete(folder) as scratch:
        scratch.mkdir()
        target, stored = scratch / POLICY, io.BytesIO()
        torch.save(kept, stored)
        entries = {
            "data": json.dumps({POLICY_OPTIONS: content[POLICY_OPTIONS]}).encode(),
            "policy.pth": stored.getvalue(),
            "_stable_baselines3_version": version,
        }
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, value in entries.items():
                # no timestamps, so that the same policy gives the same bytes
                archive.writestr(zipfile.ZipInfo(name), value)
        (before, _), (after, _) = read_policy(file), read_policy(target)
        seen = np.random.default_rng(0).uniform(-1, 1, (NUM_COMPARED, before.num_inputs)).astype(np.float32)
        if not np.array_equal(before.act(seen), after.act(seen)):
            raise SystemExit("the stored policy does not do what that of the training does")
        if target.stat().st_size > MOST_POLICY_BYTES:
            raise SystemExit(f"the policy has {target.stat().st_size:,} bytes; at most {MOST_POLICY_BYTES:,} ship")
        card = {
            **_told_of(folder.name, target, kept, dtype="float32", facts=facts),
            "workflow": "train-rl",
            "num_steps": facts.get("num_steps") or result["num_steps"],
            "minutes": round(facts.get("minutes") or result["minutes"], 2),
            "data": _records(result["data"]),
            "eval_data": _records(result["eval_data"]),
        }
        config = load_config_data(str(file.parent / CONFIG_FILE))
        config["rl_params"].pop("init", None)  # leave out the path of the trainer; the card has the facts
        _write_texts(scratch, config, card)
    return card


def _require_facts(facts: Mapping[str, Any]) -> None:
    """Refuse facts with missing keys."""
    missing = [name for name in FACTS if name not in facts]
    if missing:
        raise SystemExit(f"the facts lack {', '.join(missing)}")


def _told_of(
    name: str, file: Path, weights: Mapping[str, torch.Tensor], *, dtype: str, facts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the card of any weights: facts of their file, of l5kit, and the given ones."""
    return {
        "format": CARD_FORMAT,
        "name": name,
        "weights": file.name,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "num_bytes": file.stat().st_size,
        "num_weights": sum(value.numel() for value in weights.values()),
        "dtype": dtype,
        "l5kit": l5kit.__version__,
        "licence": "Apache-2.0",
        **{name: facts[name] for name in FACTS},
    }


def _write_texts(folder: Path, config: Mapping[str, Any], card: dict[str, Any]) -> None:
    """Write configuration, card and model card."""
    (folder / CONFIG_FILE).write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
    (folder / CARD_FILE).write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    (folder / README).write_text(model_card(card), encoding="utf-8")


def _stored(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return value.to(dtype) if value.is_floating_point() else value


def _records(found: Any) -> list[dict[str, Any]]:
    """Return the records of data, one for a training on a single log."""
    return [found] if isinstance(found, dict) else list(found or [])


def largest_difference_m(one: Path, other: Path, log: Path) -> float:
    """Return the largest difference between plans of two files of weights, over samples spread over a log."""
    models = [load_model(file, device="cpu") for file in (one, other)]
    samples = models[0].samples_of(ChunkedDataset(find_dataset_files(log).dataset).open())
    chosen = np.unique(np.linspace(0, len(samples) - 1, NUM_COMPARED).astype(int))
    listed = samples.__getitems__(chosen.tolist())
    plans_m = [model.predict(listed)["positions"] for model in models]
    return float(np.linalg.norm(plans_m[0] - plans_m[1], axis=-1).max())


def model_card(card: dict[str, Any]) -> str:
    """Return the model card of a network or a policy, as Markdown."""
    name, text = card["name"], _policy_texts(card) if card["workflow"] == "train-rl" else _network_texts(card)
    scores = (
        f"| {row['driver']} | {row['towns']} | {row['agents']} | {row['scenes']} | {row['score']:.2f} |"
        for row in card["scores"]
    )
    data = [("training", each) for each in card["data"]] + [("evaluation", each) for each in card["eval_data"]]
    return f"""# The included {text["what"]} {name}

<!-- written by benchmarks/ship_planner.py from card.json -->

{card["status"]}

`{name}` drives the AV in closed loop; you need not train anything:

```bash
l5kit synth city
l5kit simulate city --planner {name}
```

{text["in_python"]}

## Facts

| fact | value |
| --- | --- |
| {text["network"]} |
| file | `{card["weights"]}`, {card["num_bytes"] / 1e6:.2f} MB, {card["dtype"]} |
| {text["stored"]} |
| SHA-256 | `{card["sha256"]}` |
| written by | l5kit {card["l5kit"]}, format {card["format"]} |
| training | {card["num_steps"]:,} {text["steps"]}, {card["minutes"]:g} minutes on two cores |
| seeds | {", ".join(f"{of} {seed}" for of, seed in card["seeds"].items())} |
| licence | {card["licence"]}, as l5kit; all data is synthetic, so no licence of a dataset applies |

## Scores

In closed loop, as in `docs/results/learned_drivers.md`, on towns that were not used for training.

| driver | towns | other agents | scenes | score |
| --- | --- | --- | --- | --- |
{_lines(scores)}

## Data

Synthetic towns. These commands made them and trained on them:

```bash
{_lines(card["recipe"])}
```

| used for | log | scenes | digest |
| --- | --- | --- | --- |
{_lines(f"| {use} | `{each['path']}` | {each['num_scenes']} | `{each['digest']}` |" for use, each in data)}

## Limits

{_lines(f"- {text}" for text in card["limits"])}
{text["end"]}"""


def _network_texts(card: dict[str, Any]) -> dict[str, str]:
    """Return the part of the model card about a network."""
    name = card["name"]
    return {
        "what": "planner",
        "in_python": f"""\
In Python `l5kit.workflows.drivers.load_driver("{name}", whom="ego", data_folder="city")` is its driver and
`l5kit.load_model("{name}")` the network; `l5kit.planning.shipped_weights()` lists all names. For a folder of
your own with this name, write `./{name}`.""",
        "network": f"network | workflow `{card['workflow']}`, {card['num_weights']:,} weights",
        "stored": f"stored weights | plans differ by at most {card['difference_m'] * 1000:.1f} mm from those of the "
        "trained network",
        "steps": "steps",
        "end": """
**Without a map** it does not drive: route and lanes come from the semantic map, and a log without one is an error that
names the missing file. If the log leaves all lanes, there is no route; the planner then only has the agents and its own
motion, and drives badly.

## Versions

Weights and code come in one package, so they match. Weights that are copied to another version are checked when they
are read: a card of a newer format is an error that says to update l5kit, and weights that do not match the network are
an error that lists the differences. Within a format, weights keep their meaning; the last digits of plans may differ
between versions of torch and between machines.
""",
    }


def _policy_texts(card: dict[str, Any]) -> dict[str, str]:
    """Return the part of the model card about a policy."""
    name = card["name"]
    return {
        "what": "policy",
        "in_python": f"""\
In Python `l5kit.environment.PolicyDriver.load("{name}")` is its driver;
`l5kit.planning.shipped_policies()` lists all names. For a folder of your own with this name, write
`./{name}`.""",
        "network": f"policy | acceleration along the route, {card['num_weights']:,} weights; limits, bends and "
        "steering are not learned",
        "stored": "stored weights | those of the trained policy that choose actions, bit-identical",
        "steps": "decisions of three frames",
        "end": "",
    }


def _lines(parts: Any) -> str:
    return "\n".join(parts)


if __name__ == "__main__":
    main()
