"""Clusters that do not answer: what waits for them ends in time, with an error that says where nothing was."""

import json
import socket
import threading
import time

import pytest

from l5kit.engines import cluster_tasks, dask_tasks, open_workers, ray_tasks
from l5kit.errors import EngineError


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def impatient(monkeypatch):
    """Nothing is waited for longer than a moment."""
    monkeypatch.setattr(cluster_tasks, "PATIENCE_S", 0.3)


def test_a_port_that_opens_in_time_is_found_and_the_wait_is_told_of(free_port):
    def open_soon():
        time.sleep(0.3)
        servers.append(socket.create_server(("127.0.0.1", free_port)))

    servers = []
    thread = threading.Thread(target=open_soon)
    thread.start()
    with pytest.warns(UserWarning, match=f"nothing answers at 127.0.0.1:{free_port} yet; waiting up to 10 s"):
        cluster_tasks.await_port("127.0.0.1", free_port, patience_s=10)
    thread.join()
    servers[0].close()


@pytest.mark.filterwarnings("ignore:nothing answers")
def test_a_port_that_stays_closed_and_a_file_that_does_not_come_end_the_wait(free_port, tmp_path):
    with pytest.raises(OSError, match="refused"):
        cluster_tasks.await_port("127.0.0.1", free_port, patience_s=0.1)
    with pytest.raises(OSError, match=r"scheduler\.json"):
        cluster_tasks.await_file(tmp_path / "scheduler.json", patience_s=0.1)
    (tmp_path / "scheduler.json").write_text("{}")
    assert cluster_tasks.await_file(tmp_path / "scheduler.json", patience_s=0.1) == "{}"


@pytest.mark.filterwarnings("ignore:nothing answers")
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "tcp://127.0.0.1:{port}", "auto", "ray://head:1", "none.json"])
def test_no_dask_answers(address, free_port, monkeypatch, tmp_path):
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    address = address.format(port=free_port)
    with pytest.raises(EngineError, match="where no Dask scheduler") as caught, open_workers("dask", address=address):
        pass
    assert repr(address) in str(caught.value)


def test_workers_that_do_not_come_are_let_go_of(monkeypatch):
    distributed, closed = pytest.importorskip("distributed"), []

    class Cluster:
        def __init__(self, *_, **__):
            pass

        def wait_for_workers(self, *_, **__):
            raise TimeoutError("none came")

        def close(self):
            closed.append(type(self).__name__)

    class Client(Cluster):
        pass

    monkeypatch.setattr(distributed, "LocalCluster", Cluster)
    monkeypatch.setattr(distributed, "Client", Client)
    with pytest.raises(EngineError, match=r"answers \(none came\)"), open_workers("dask"):
        pass
    assert closed == ["Client", "Cluster"]


@pytest.mark.parametrize("text", ["{}", "[1]", "half", json.dumps({"address": "nowhere"})])
def test_a_file_without_a_scheduler_is_named(text, tmp_path):
    pytest.importorskip("distributed")
    (tmp_path / "scheduler.json").write_text(text)
    with (
        pytest.raises(EngineError, match=r"scheduler\.json', where no Dask scheduler"),
        open_workers("dask", address=str(tmp_path / "scheduler.json")),
    ):
        pass


@pytest.mark.filterwarnings("ignore:nothing answers")
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_no_ray_answers(scheme, free_port, monkeypatch):
    pytest.importorskip("ray")
    address = f"{scheme}127.0.0.1:{free_port}"
    with (
        pytest.raises(EngineError, match=r"--address\) is .*where no Ray cluster"),
        open_workers("ray", address=address),
    ):
        pass
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(EngineError, match=r"RAY_ADDRESS in the environment is .*where no Ray"), open_workers("ray"):
        pass


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [("head:6379", "head", "6379"), ("ray://10.0.0.1:10001", "10.0.0.1", "10001"), ("[::1]:6379", "::1", "6379")],
)
def test_hosts_of_ray_are_told_from_their_ports(address, host, port):
    assert ray_tasks._HOST_AND_PORT.fullmatch(address).group("host", "port") == (host, port)


@pytest.mark.parametrize("address", ["auto", "local", "tcp://head:8786", "head"])
def test_other_addresses_are_left_to_ray(address):
    assert ray_tasks._HOST_AND_PORT.fullmatch(address) is None


def test_the_address_in_a_file_of_a_scheduler_is_that_of_dask():
    assert dask_tasks._address_in('{"type": "Scheduler", "address": "tcp://10.0.0.1:8786"}') == "tcp://10.0.0.1:8786"
