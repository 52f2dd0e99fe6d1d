"""``benchmarks/ship_planner.py``: the model card says what the card of the weights says."""

import json

import pytest

from l5kit.planning import shipped_policies, shipped_weights
from l5kit.planning.weights_file import CARD_FILE, checkpoint_path


@pytest.fixture
def script(import_script):
    return import_script("ship_planner")


@pytest.mark.parametrize("name", [*shipped_weights(), *shipped_policies()])
def test_the_model_card_is_that_of_the_facts_beside_it(script, name):
    folder = checkpoint_path(name)
    facts = json.loads((folder / CARD_FILE).read_text("utf-8"))
    written = (folder / script.README).read_text("utf-8")
    assert written == script.model_card(facts), "write it anew: python benchmarks/ship_planner.py --readme"


def test_the_model_card_tells_the_scores_of_the_facts(script):
    facts = json.loads((checkpoint_path("route_planner") / CARD_FILE).read_text("utf-8"))
    row = {"driver": "mine", "towns": "two", "agents": "idm", "scenes": 7, "score": 0.875}
    assert "| mine | two | idm | 7 | 0.88 |" in script.model_card(facts | {"scores": [row]}).splitlines()
