"""The script that measures simulations on a device, on the processor."""

import re

import pytest


def test_scenes_and_agents_of_a_second_are_told(import_script, capsys):
    pytest.importorskip("torch")
    script = import_script("device_simulation")
    arguments = {"device": "cpu", "slots": 4, "steps": 5, "rounds": 1, "scenes": 2, "town-size": 300}
    script.main([f"--{name}={value}" for name, value in arguments.items()])
    printed = capsys.readouterr().out
    assert "4 slots, 5 steps, 2 scenes, on the processor" in printed
    for title in ("traffic", "simulation"):
        scenes, agents, step_ms, driven = re.search(
            rf"{title}: ([\d,]+) scene-steps/s, ([\d,]+) agent-steps/s, ([\d.]+) ms a step, ([\d.]+) driven", printed
        ).groups()
        scenes, agents = (int(number.replace(",", "")) for number in (scenes, agents))
        assert scenes > 0
        assert agents == pytest.approx(scenes * float(driven), rel=0.1)
        assert float(step_ms) == pytest.approx(4e3 / scenes, rel=0.05, abs=2e-3)
