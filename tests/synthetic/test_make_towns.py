"""Several made towns in one folder."""

import json

import pytest

from l5kit.data.digests.digest import dataset_digest
from l5kit.errors import InvalidArgumentError
from l5kit.synthetic import CityParams, make_city, make_towns
from l5kit.synthetic.towns import params_of_towns

SMALL = CityParams(num_scenes=1, num_frames=8, town_size=250.0, traffic_density=0.2, aerial_resolution_m=2.0)


def test_a_town_is_the_same_however_many_there_are_and_is_kept(tmp_path):
    told = []
    first = make_towns(tmp_path / "towns", 1, params=SMALL)
    stamp = first[0].meta.stat().st_mtime_ns
    towns = make_towns(tmp_path / "towns", 2, params=SMALL, progress=lambda *counts: told.append(counts))
    assert [town.path.name for town in towns] == ["town_00", "town_01"]
    assert towns[0].meta.stat().st_mtime_ns == stamp
    assert told[0] == (1, 2)
    assert told[-1] == (2, 2)
    seeds = [json.loads((town.path / "city.json").read_text())["arguments"]["seed"] for town in towns]
    assert seeds == [params.seed for _, params in params_of_towns(SMALL, 2)]
    alone = make_city(
        tmp_path / "alone",
        seed=seeds[1],
        num_scenes=1,
        num_frames=8,
        town_size=250.0,
        traffic_density=0.2,
        aerial_resolution_m=2.0,
    )
    assert dataset_digest(alone.scenes["sample"]) == dataset_digest(towns[1].scenes["sample"])
    assert dataset_digest(towns[0].scenes["sample"]) != dataset_digest(towns[1].scenes["sample"])


def test_towns_of_two_seeds_have_none_in_common():
    seeds = {params.seed for seed in range(5) for _, params in params_of_towns(CityParams(seed=seed), 40)}
    assert len(seeds) == 200


@pytest.mark.parametrize("number", [0, 10_001])
def test_numbers_of_towns_out_of_range_are_refused(number, tmp_path):
    with pytest.raises(InvalidArgumentError, match=f"num_towns is {number}"):
        make_towns(tmp_path / "towns", number)
