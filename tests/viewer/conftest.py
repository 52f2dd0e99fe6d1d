"""A synthetic city, copies of it to break, and a reader of the data of the page, written from its documentation."""

import importlib.util
import json
import math
import shutil
from dataclasses import dataclass
from html.parser import HTMLParser

import numpy as np
import pytest

from l5kit.data import ChunkedDataset, MapAPI
from l5kit.data.dataset_files import find_dataset_files
from support.cities import small_city
from support.maps import make_map

# The viewer samples from datasets, which are torch datasets.
collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture(scope="session")
def city(tmp_path_factory):
    """Folder of a small synthetic city, never written to."""
    return small_city(tmp_path_factory.mktemp("viewer") / "city").path


@pytest.fixture(scope="session")
def city_files(city):
    """Paths of its parts."""
    return find_dataset_files(city)


@pytest.fixture(scope="session")
def city_log(city_files):
    """Its dataset, opened."""
    return ChunkedDataset(city_files.dataset).open()


@pytest.fixture(scope="session")
def city_map(city_files):
    """Its map."""
    world_to_ecef = np.array(json.loads(city_files.meta.read_text())["world_to_ecef"])
    return MapAPI(str(city_files.semantic_map), world_to_ecef)


@pytest.fixture(scope="session")
def drives(city, tmp_path_factory):
    """Folder of a simulation of the city, never written to: scenes 0 and 2 were driven, scene 1 breaks in frame 30."""
    from support.driven_folders import drive_city  # looking at logs needs no drivers

    return drive_city(city, tmp_path_factory.mktemp("simulation") / "drives")


@pytest.fixture(scope="session")
def driven_view(drives):
    """The simulation as the page asks for it."""
    from l5kit.simulation.folder.simulation_folder import SimulationFolder
    from l5kit.visualization.viewer.viewed_simulation import ViewedSimulation

    return ViewedSimulation(SimulationFolder(drives))


@pytest.fixture
def city_copy(city, tmp_path):
    """Folder of a small synthetic city that a test may break."""
    return shutil.copytree(city, tmp_path / "copy")


@pytest.fixture(scope="session")
def lit_map(tmp_path_factory):
    """Three lanes at the origin, of which two have lights, two lanes east of it, and two crosswalks."""
    return make_map(tmp_path_factory.mktemp("map") / "map.pb")


@dataclass
class Unpacked:
    """Content of packed bytes."""

    facts: dict
    arrays: dict


@pytest.fixture(scope="session")
def unpack():
    """Take packed bytes apart: L5KV, length of the header, header, and arrays at multiples of 8 bytes."""

    def read(content):
        assert content[:4] == b"L5KV"
        length = int.from_bytes(content[4:8], "little")
        header = json.loads(content[8 : 8 + length].decode("utf-8"))
        data = content[8 + length :]
        assert (8 + length) % 8 == 0
        arrays = {}
        for entry in header["arrays"]:
            assert entry["offset"] % 8 == 0
            dtype = np.dtype(entry["dtype"]).newbyteorder("<")
            end = entry["offset"] + math.prod(entry["shape"]) * dtype.itemsize
            assert end <= len(data)
            arrays[entry["name"]] = np.frombuffer(data[entry["offset"] : end], dtype).reshape(entry["shape"])
        return Unpacked(header["facts"], arrays)

    return read


class Page(HTMLParser):
    """Tags with their attributes, and the text of each script and of the title."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.tags, self.texts, self._is_open = [], [], False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.texts.append("")
        self._is_open = True

    def handle_endtag(self, tag):
        self._is_open = False

    def handle_data(self, data):
        if self._is_open:
            self.texts[-1] += data

    def scripts(self):
        named = zip(self.tags, self.texts, strict=True)
        return [(attributes, text) for (tag, attributes), text in named if tag == "script"]

    def import_map(self):
        (text,) = [text for attributes, text in self.scripts() if attributes.get("type") == "importmap"]
        return json.loads(text)["imports"]

    def title(self):
        (text,) = [text for (tag, _), text in zip(self.tags, self.texts, strict=True) if tag == "title"]
        return text


@pytest.fixture(scope="session")
def read_page():
    """Read HTML as a page of tags, scripts and a title."""
    return Page
