"""Workers reuse their shared memory when nobody refers to it any more, and never before."""

import copy
import itertools
import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from l5kit.dataset import collate, loader, worker_memory
from l5kit.dataset.worker_memory import SharedBlock, SharedBlocks, WorkerTensor
from l5kit.errors import SampleError
from support.processes.shared_batches import Pictures, as_pair, doubled

if sys.platform != "linux":
    pytest.skip("fork and /proc are those of Linux", allow_module_level=True)

SHAPE = (4, 512, 1024)  # 2 MiB of bytes


def make_loader(dataset: Any, *, by: str, start: str = "fork", collate_fn: Any = collate, num_workers: int = 2) -> Any:
    if by == "loader":
        return loader(dataset, 4, num_workers=num_workers, multiprocessing_context=start, collate_fn=collate_fn)
    return DataLoader(
        dataset,
        4,
        num_workers=num_workers,
        multiprocessing_context=start,
        collate_fn=collate_fn,
        persistent_workers=by == "persistent",
    )


WAYS = ["loader", "persistent", "each epoch"]


@pytest.fixture(params=sorted(torch.multiprocessing.get_all_sharing_strategies()))
def strategy(request: pytest.FixtureRequest) -> Iterator[str]:
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy(request.param)
    yield request.param
    torch.multiprocessing.set_sharing_strategy(before)


def place_of(batch: Any) -> tuple[int, int]:
    return int(batch["process"][0]), int(batch["address"][0])


def assert_is_right(batch: Any) -> None:
    assert (batch["image"].numpy() == batch["index"].numpy().reshape(-1, 1, 1, 1)).all()


def wait_until(condition: Any) -> bool:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return bool(condition())


@pytest.mark.process
@pytest.mark.parametrize("by", WAYS)
def test_memory_of_dropped_batches_is_used_again(by: str, strategy: str) -> None:
    batches = make_loader(Pictures(), by=by)
    for _ in range(2):
        places = []
        for batch in batches:
            assert_is_right(batch)
            assert {type(tensor) for tensor in batch.values()} == {torch.Tensor}
            places.append(place_of(batch))
        assert len(places) == 40
        assert len(set(places)) <= 2 * 6, "two made ahead, one in each hand, and two in between"


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("by", ["loader", "each epoch"])
def test_spawned_workers_use_memory_again(by: str) -> None:
    batches = make_loader(Pictures(80), by=by, start="spawn", num_workers=1)
    places = []
    for batch, expected in zip(batches, loader(Pictures(80), 4, threads=2), strict=True):
        assert list(batch) == list(expected)
        for key in ("image", "index"):
            np.testing.assert_array_equal(batch[key].numpy(), expected[key].numpy())
        places.append(place_of(batch))
    assert len(set(places)) <= 6


@pytest.mark.process
@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda batch: batch, id="the batch"),
        pytest.param(lambda batch: batch["image"][1, :, 5:9], id="a view"),
        pytest.param(lambda batch: batch["image"].permute(3, 2, 1, 0)[7], id="a turned view"),
        pytest.param(lambda batch: batch["image"].numpy()[2:], id="an array"),
        pytest.param(lambda batch: memoryview(batch["image"].numpy()), id="a buffer"),
        pytest.param(lambda batch: batch["image"].detach().view(torch.int8), id="as another type"),
    ],
)
def test_memory_is_not_used_again_while_anything_looks_at_it(look: Any) -> None:
    batches = make_loader(Pictures(), by="persistent")
    iterator = iter(batches)
    kept_place = place_of(batch := next(iterator))
    kept = look(batch)
    before = copy.deepcopy(np.asarray(kept["image"] if isinstance(kept, dict) else kept))
    del batch
    later = {place_of(batch) for batch in itertools.chain(iterator, batches)}
    assert kept_place not in later
    np.testing.assert_array_equal(np.asarray(kept["image"] if isinstance(kept, dict) else kept), before)
    del kept
    assert kept_place in {place_of(batch) for batch in batches}


@pytest.mark.process
def test_kept_batches_outlive_their_workers() -> None:
    batches = list(make_loader(Pictures(64), by="each epoch"))
    assert len({place_of(batch) for batch in batches}) == len(batches) == 16
    assert multiprocessing.active_children() == []
    for batch in batches:
        assert_is_right(batch)


@pytest.mark.process
def test_a_change_in_place_of_a_batch_stays_its_own() -> None:
    for batch in make_loader(Pictures(80), by="loader"):
        assert_is_right(batch)
        batch["image"].fill_(255)


@pytest.mark.process
@pytest.mark.parametrize("by", WAYS)
def test_views_from_a_collate_function_of_the_user(by: str) -> None:
    kept = list(make_loader(Pictures(64), by=by, collate_fn=as_pair))
    for image, index in kept:
        assert type(image) is type(index) is torch.Tensor
        assert image.shape == (4, 2, 250, 400)
        assert (image == index.reshape(-1, 1, 1, 1)).all()
    assert torch.cat([index for _, index in kept]).tolist() == list(range(64))


@pytest.mark.process
def test_what_a_collate_function_of_the_user_computes() -> None:
    for batch in list(make_loader(Pictures(32), by="each epoch", collate_fn=doubled)):
        assert type(batch["image"]) is torch.Tensor
        assert batch["image"].dtype == torch.float32
        assert (batch["image"] == 2 * batch["index"].reshape(-1, 1, 1, 1)).all()


@pytest.mark.process
def test_torchs_own_collate_function_copies_what_was_drawn() -> None:
    batches = list(make_loader(Pictures(32), by="each epoch", collate_fn=None))
    for batch in batches:
        assert_is_right(batch)


@pytest.mark.process
def test_a_tensor_sent_on_to_a_third_process_is_a_copy() -> None:
    context = multiprocessing.get_context("fork")
    there, back = context.SimpleQueue(), context.SimpleQueue()
    batches = iter(make_loader(Pictures(), by="loader"))
    batch = next(batches)
    process = context.Process(target=_read_later, args=(there, back))
    process.start()
    sent = ForkingPickler.dumps(batch["image"])
    del batch
    for _ in range(20):
        next(batches)
    there.put(bytes(sent))
    assert back.get() == [0, 1, 2, 3]
    process.join()


def _read_later(there: Any, back: Any) -> None:
    image = pickle.loads(there.get())
    back.put(image[:, 0, 0, 0].tolist())


@pytest.mark.process
def test_memory_that_a_fork_may_read_is_not_used_again() -> None:
    context = multiprocessing.get_context("fork")
    go, back = context.SimpleQueue(), context.SimpleQueue()
    batches = make_loader(Pictures(), by="loader")
    iterator = iter(batches)
    batch = next(iterator)
    process = context.Process(target=_look_later, args=(batch["image"], go, back))
    process.start()
    process._args = ()  # type: ignore[attr-defined]  # which would keep the batch
    del batch
    later = {place_of(batch) for batch in itertools.chain(iterator, batches)}
    go.put(None)
    assert back.get() == [0, 1, 2, 3], "what later batches have not drawn over"
    process.join()
    assert len(later) <= 2 * 7


def _look_later(image: Any, go: Any, back: Any) -> None:
    go.get()
    back.put(image[:, 0, 0, 0].tolist())


@pytest.mark.process
def test_a_fork_gives_nothing_back() -> None:
    batches = make_loader(Pictures(), by="loader")
    iterator = iter(batches)
    place = place_of(batch := next(iterator))
    pid = os.fork()
    if pid == 0:
        del batch
        os._exit(0)
    os.waitpid(pid, 0)
    assert place not in {place_of(other) for other in iterator}
    assert_is_right(batch)


@pytest.mark.process
def test_no_file_descriptors_are_leaked(strategy: str) -> None:
    counts = []
    for batch in make_loader(Pictures(480), by="each epoch"):
        counts.append((len(os.listdir("/proc/self/fd")), int(batch["num_fds"][0])))
    for here, in_worker in zip(*(np.reshape(c, (4, 30)).max(axis=1) for c in np.transpose(counts)), strict=True):
        assert here <= counts[0][0] + 30
        assert in_worker <= counts[0][1] + 30
    first, last = np.array(counts[30:60]).max(axis=0), np.array(counts[-30:]).max(axis=0)
    assert (last <= first + 8).all(), "90 batches later"


@pytest.mark.process
@pytest.mark.parametrize("by", WAYS)
def test_leaving_early_loses_no_memory(by: str) -> None:
    batches = make_loader(Pictures(), by=by)
    by_process: dict[int, set[int]] = {}
    for _ in range(5):
        for batch in itertools.islice(batches, 4):
            assert_is_right(batch)
            process, address = place_of(batch)
            by_process.setdefault(process, set()).add(address)
    assert max(map(len, by_process.values())) <= 7


@pytest.mark.process
def test_errors_come_as_they_are() -> None:
    batches = iter(make_loader(Pictures(broken=9), by="loader"))
    kept = [next(batches), next(batches)]
    with pytest.raises(SampleError, match="sample 9 is broken"):
        next(batches)
    for batch in kept:
        assert_is_right(batch)


def run_process(*arguments: str) -> subprocess.Popen[bytes]:
    paths = [str(Path(__file__).resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-m", "support.processes.shared_batches", *arguments],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize(
    ("by", "strategy"),
    [("loader", "file_descriptor"), ("each epoch", "file_descriptor"), ("each epoch", "file_system")],
)
def test_batches_outlive_a_killed_worker(by: str, strategy: str) -> None:
    with run_process("lose_a_worker", by, strategy) as process:
        assert process.communicate(timeout=60)[0] == b"survived\n"


@pytest.mark.process
def test_a_killed_process_leaves_nothing_behind() -> None:
    shm = Path("/dev/shm")
    before = set(shm.iterdir())
    with run_process("iterate_until_killed") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"running\n"
        process.kill()
    assert [path for path in set(shm.iterdir()) - before if path.name.startswith("torch_")] == []


@pytest.mark.process
def test_mappings_of_ended_workers_go(monkeypatch: pytest.MonkeyPatch) -> None:
    worker_memory.mappings.clear()
    monkeypatch.setattr(worker_memory.mappings, "kept_s", 0.2)
    batch = None
    for batch in make_loader(Pictures(32), by="each epoch"):  # noqa: B007 - the last one stays, as users' do
        assert len(worker_memory.mappings) > 0
    assert wait_until(lambda: len(worker_memory.mappings) == 0)
    assert_is_right(batch)


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> SharedBlocks:
    """Blocks of this process, which acts as a worker."""
    blocks = SharedBlocks()
    monkeypatch.setattr(worker_memory, "new_shared", blocks)
    return blocks


def draw(blocks: SharedBlocks, shape: tuple[int, ...] = SHAPE, dtype: Any = np.uint8) -> torch.Tensor:
    array = blocks(shape, dtype)
    assert array is not None
    return WorkerTensor.of(torch.from_numpy(array))


def send(tensor: torch.Tensor) -> Any:
    return ForkingPickler.loads(ForkingPickler.dumps(tensor))


def test_a_block_is_in_use_by_the_worker_and_by_each_receiver(blocks: SharedBlocks, strategy: str) -> None:
    drawn = draw(blocks)
    drawn[:] = 3
    sent = [send(drawn), send(drawn[1:])]
    address = drawn.data_ptr()
    del drawn
    while sent:
        assert draw(blocks).data_ptr() != address
        assert (sent.pop(0) == 3).all()
    assert draw(blocks).data_ptr() == address
    assert len(blocks) == 2


def test_a_part_is_sent_without_a_copy(blocks: SharedBlocks) -> None:
    drawn = draw(blocks, (4, 3, 512, 512), np.float32)
    drawn[:] = torch.arange(12).reshape(4, 3, 1, 1)
    parts = [drawn, drawn[1:], drawn[:, 1], drawn.permute(0, 2, 3, 1), drawn[..., ::2]]
    received = [send(part) for part in parts]
    for part, other in zip(parts, received, strict=True):
        assert type(other) is torch.Tensor
        assert (other.shape, other.dtype, other.stride()) == (part.shape, part.dtype, part.stride())
        torch.testing.assert_close(other, part.as_subclass(torch.Tensor), rtol=0, atol=0)
    drawn[1, 1] = 99
    assert all((other == 99).any() for other in received)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: torch.arange(6).reshape(2, 3), id="small"),
        pytest.param(lambda: torch.ones(3, 512, 512), id="large"),
        pytest.param(lambda: torch.ones(3, 512, 512, dtype=torch.bfloat16), id="a type that NumPy does not know"),
        pytest.param(lambda: torch.ones(4, dtype=torch.bool)[::2], id="a small view"),
        pytest.param(lambda: torch.empty(0, 3), id="empty"),
        pytest.param(lambda: torch.tensor(4.5), id="a number"),
        pytest.param(lambda: WorkerTensor.of(torch.ones(2, 2)).requires_grad_(), id="with a gradient"),
    ],
)
def test_other_tensors_are_sent_as_well(make: Any) -> None:
    made = make() if type(make()) is WorkerTensor else WorkerTensor.of(make())
    received = send(made)
    assert type(received) is torch.Tensor
    assert (received.dtype, received.shape, received.requires_grad) == (made.dtype, made.shape, made.requires_grad)
    assert received.tolist() == made.tolist()
    received.detach().zero_()


def test_what_is_computed_of_a_tensor_in_a_worker() -> None:
    drawn = WorkerTensor.of(torch.eye(3))
    assert type(drawn.to_sparse()) is torch.Tensor
    assert [type(part) for part in drawn.unbind()] == [torch.Tensor] * 3
    for computed in (drawn + 1, drawn[1:], drawn.float().T, torch.stack([drawn, drawn])):
        assert type(computed) is WorkerTensor
        assert type(send(computed)) is torch.Tensor
    assert type(drawn.tolist()) is list


def test_pickled_and_copied_in_a_worker_it_is_a_tensor_of_its_own(blocks: SharedBlocks) -> None:
    drawn = draw(blocks)
    drawn[:] = 4
    copies = [pickle.loads(pickle.dumps(drawn)), copy.deepcopy(drawn)]
    assert type(copies[0]) is torch.Tensor
    drawn[:] = 5
    assert all((other == 4).all() for other in copies)
    assert (send(copies[1]) == 4).all()


def test_blocks_of_other_sizes_take_each_others_place(blocks: SharedBlocks) -> None:
    large = draw(blocks, (8, 512, 1024)).data_ptr()
    assert draw(blocks, (5, 512, 1024)).data_ptr() == large
    assert len(blocks) == 1
    draw(blocks, (9, 512, 1024))
    assert len(blocks) == 1


def test_few_free_blocks_are_kept(blocks: SharedBlocks) -> None:
    held = [draw(blocks) for _ in range(12)]
    assert len({tensor.data_ptr() for tensor in held}) == len(blocks) == 12
    del held
    draw(blocks)
    assert len(blocks) == 5


def test_small_arrays_need_no_shared_memory(blocks: SharedBlocks) -> None:
    assert blocks((1 << 20,), np.uint8) is None
    assert len(blocks) == 0


def test_a_part_can_be_sent_as_often_as_there_are_states(blocks: SharedBlocks) -> None:
    drawn = draw(blocks)
    array = drawn.numpy()
    tickets = [blocks.send(array) for _ in range(4097)]
    assert [sent[1] for sent in tickets if sent is not None] == list(range(4096))
    assert tickets[-1] is None
    drawn[:] = 8
    assert (send(drawn) == 8).all()


def refuse(tensor: torch.Tensor) -> None:
    raise RuntimeError("unable to allocate shared memory(shm): No space left on device (28)")


def test_without_shared_memory_batches_are_copied_and_the_user_is_told_once(
    blocks: SharedBlocks, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    first = draw(blocks)
    monkeypatch.setattr(torch.Tensor, "share_memory_", refuse)
    assert blocks(SHAPE, np.uint8) is None
    assert blocks(SHAPE, np.uint8) is None
    assert [str(warning.message) for warning in recwarn] == [
        f"no shared memory is left for batches of 2 MB in worker process {os.getpid()}, which copies them through a "
        "pipe from now on; this is slow. Give it more (docker run --shm-size=8g; in Kubernetes an emptyDir of medium "
        "Memory at /dev/shm), make batches or prefetch smaller, set raster_params.image_dtype to uint8, or use "
        "l5kit.dataset.loader with threads (unable to allocate shared memory(shm): No space left on device (28))"
    ]
    address = first.data_ptr()
    del first
    assert draw(blocks).data_ptr() == address, "what there is is used"
    private = WorkerTensor.of(torch.full(SHAPE, 7, dtype=torch.uint8))
    assert (send(private) == 7).all()


@pytest.mark.process
def test_workers_without_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "share_memory_", refuse)
    batches = list(make_loader(Pictures(32), by="each epoch"))
    assert [int(index) for batch in batches for index in batch["index"]] == list(range(32))
    for batch in batches:
        assert_is_right(batch)


def test_a_change_of_the_sharing_strategy_makes_new_blocks(blocks: SharedBlocks) -> None:
    before = torch.multiprocessing.get_sharing_strategy()
    address = draw(blocks).data_ptr()
    torch.multiprocessing.set_sharing_strategy("file_system")
    try:
        other = draw(blocks)
        other[:] = 6
        assert (send(other) == 6).all()
        assert len(blocks) == 1
    finally:
        torch.multiprocessing.set_sharing_strategy(before)
    assert address != 0


def test_a_block_begins_at_a_page() -> None:
    block = SharedBlock(10_000)
    array = block.lease((100, 100), np.uint8)
    assert array.__array_interface__["data"][0] % 4096 == 0
    assert block.offset_of(array[1:]) == 100
    assert block.offset_of(np.zeros(3)) is None
    assert not block.is_free
    del array
    assert block.is_free
