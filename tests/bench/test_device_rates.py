"""Rates on a device: on the twin of a GPU, with little work."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from l5kit.cli.main import make_app
from l5kit.device.opening import open_backend
from l5kit_bench.device_rates import QUICK_ON_DEVICE, DeviceRate, DeviceReport, measure_device
from l5kit_bench.device_training import share_of
from l5kit_bench.workplace import QUICK, Workplace, find_bench_files


def test_samples_are_measured_on_a_device(city: Path) -> None:
    with Workplace(find_bench_files(city), QUICK) as place:
        report = measure_device(place, open_backend("cpu"), QUICK_ON_DEVICE)
    assert [rate.title for rate in report.rates] == [
        "py_semantic as bytes",
        "py_semantic as float32",
        "vectors of the AV",
    ]
    assert all(rate.rate > 0 for rate in report.rates)
    of_bytes, of_floats, _ = report.rates
    assert of_floats.bytes_each - of_bytes.bytes_each == 3 * 25 * 224 * 224
    assert of_bytes.bytes_each > 25 * 224 * 224 + 11 * 120
    assert report.busy is None
    assert "training of agent_motion" in report.left_out
    assert report.copied_per_s > 0
    assert report.sent_per_s > 0


def test_a_report_tells_how_far_from_the_memory_a_rate_is() -> None:
    rates = [DeviceRate("pictures", "samples", 500.0, 1000.0, 2e6), DeviceRate("traffic", "steps", 7.0, 5.0, 0)]
    report = DeviceReport("a GPU", 4e9, 1e9, rates, 0.912, 0.1, {})
    assert report.lines() == [
        ("pictures", "500 samples/s", "1,000", "2,000,000", "2,000/s", "25.0%"),
        ("traffic", "7 steps/s", "5", "-", "-", "-"),
    ]
    assert report.facts()["training"] == "busy 91.2% of the time, 10.0% with samples; asked: 90 %"
    assert report.facts()["memory"] == "4 GB/s, read and written"
    assert json.loads(json.dumps(report.as_json()))["rates"][0]["rate"] == 500.0


@pytest.mark.parametrize(
    ("spans", "share"),
    [([], 0.0), ([(0, 10)], 1.0), ([(1, 3), (2, 4), (8, 9)], 0.4), ([(5, 6), (-5, 1)], 0.2), ([(8, 30)], 0.2)],
)
def test_shares_of_time(spans: list[tuple[float, float]], share: float) -> None:
    assert share_of(spans, (0, 10)) == pytest.approx(share)


def test_the_command_measures_a_device(city: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        make_app(), ["bench", "--data", str(city), "--device", "cpu", "--quick", "--json", str(tmp_path / "rates.json")]
    )
    assert result.exit_code == 0, result.output
    assert "agent-steps/s" in result.output
    rates = json.loads((tmp_path / "rates.json").read_text())["rates"]
    assert [rate["unit"] for rate in rates] == ["samples", "samples", "samples", "agent-steps"]


@pytest.mark.parametrize("others", [["--memory"], ["--only", "batches"]], ids=str)
def test_the_command_refuses_options_of_other_measurements(city: Path, others: list[str]) -> None:
    result = CliRunner().invoke(make_app(), ["bench", "--data", str(city), "--device", "cpu", "--quick", *others])
    assert result.exit_code == 2
    assert "--device measures what a GPU does" in " ".join(result.output.replace("│", " ").split())


def test_the_command_does_not_take_the_processor_for_a_device(city: Path) -> None:
    result = CliRunner().invoke(make_app(), ["bench", "--data", str(city), "--device", "cpu"])
    assert result.exit_code == 2
    assert "give --quick too" in " ".join(result.output.replace("│", " ").split())
