"""Workers of commands: the requested engine, with a job folder if there is one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from l5kit.data.jobs.job_folder import open_job
from l5kit.data.jobs.scene_jobs import KeptWorkers, Workers, without_job
from l5kit.data.record_sequence import signature_of
from l5kit.data.stores.store import whole_path_of
from l5kit.data.zarr_dataset import ChunkedDataset
from l5kit.engines.opening import open_workers


@dataclass(frozen=True)
class RequestedWorkers:
    """The workers requested for a command.

    Attributes:
        engine: Name of the engine.
        address: Address of its cluster.
        number: Number of parallel workers.
        job: Folder that keeps finished parts, or None.
    """

    engine: str
    address: str | None
    number: int | None
    job: Path | None = None

    @contextmanager
    def opened(self, command: str, datasets: Sequence[Path] = (), **options: object) -> Iterator[Workers]:
        """Yield the workers, which end with the block; the job folder stays.

        Args:
            command: Name of the command, which identifies a job together with the other arguments.
            datasets: Datasets that the command reads.
            options: Everything else that determines the results.
        """
        with open_workers(self.engine, address=self.address, num_workers=self.number) as carriers:
            if self.job is None:
                yield carriers
                return
            # location and fingerprint of the data, and faces, which the fingerprint does not cover
            signatures = []
            for path in datasets:
                dataset = ChunkedDataset(path).open()
                faces = sha256(repr(signature_of(dataset.tl_faces)).encode()).hexdigest()
                signatures.append([whole_path_of(path), dataset.fingerprint(), faces])
            with open_job(self.job, {"command": command, "data": signatures, "options": options}) as job:
                yield KeptWorkers(without_job(carriers), job)
