"""Store at MLflow: a version is a run of an experiment, with the files as artifacts and the metadata as tags.

``MLFLOW_TRACKING_URI`` sets the location of the experiments.
"""

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Run
from mlflow.exceptions import MlflowException

from l5kit.artifacts.file_store import DATASET_TYPE, MANIFEST_FILE, MODEL_TYPE, FileStore, NewVersion
from l5kit.artifacts.trainings import Training
from l5kit.data.artifact import (
    ArtifactName,
    ArtifactNotFoundError,
    ArtifactStoreError,
    DatasetArtifact,
    DatasetContent,
    read_metadata,
    require_word,
)
from l5kit.errors import InvalidArgumentError, L5KitError, error_line

_TYPE: Final = "l5kit.type"
_NAME: Final = "l5kit.name"
_VERSION: Final = "l5kit.version"
_METADATA: Final = "l5kit.metadata"
_DATASET: Final = "l5kit.dataset"
_DIGEST: Final = "l5kit.dataset_digest"
_STATE: Final = "l5kit.state"
_ALIAS: Final = "l5kit.alias."
_DESCRIPTION: Final = "mlflow.note.content"
_COMPLETE: Final = "complete"
_PAGE: Final = 1000


class MLflowStore(FileStore):
    """Versions of datasets in an experiment of MLflow.

    Args:
        project: Name of the experiment; it is created by the first log.
        tracking_uri: Location of the experiments; None for that of the environment.

    Raises:
        InvalidArgumentError: The name of the experiment is empty.
        ArtifactStoreError: The tracking URI is not supported.
    """

    def __init__(self, project: str, *, tracking_uri: str | None = None) -> None:
        if not project.strip():
            raise InvalidArgumentError(f"project is {project!r}, and must be the name of an experiment")
        self.project: Final = project
        with _translated_errors():
            self._client: Final = MlflowClient(tracking_uri=tracking_uri)

    def list(self, name: str | None = None) -> tuple[DatasetArtifact, ...]:
        """Return the versions of a dataset, or of all datasets of the experiment, the newest of each name first."""
        with _translated_errors():
            records = [_record(run) for run in self._runs(name)]
        return tuple(sorted(records, key=lambda artifact: (artifact.name, -_number_of(artifact.version))))

    def find(self, name: str) -> DatasetArtifact:
        """Return the version that ``NAME:ALIAS`` currently points to; see :meth:`FileStore.find`."""
        return _record(self._find(ArtifactName.parse(name)))

    def log_training(self, training: Training, dataset: str, *, data: DatasetContent | None = None) -> str:  # noqa: ARG002
        """Record a run with the dataset as its input and the weights as its artifacts."""
        used = self.find(dataset)
        tags = {_TYPE: MODEL_TYPE, _NAME: training.name, _DATASET: str(used), _DIGEST: used.digest}
        scores = {key: float(value) for key, value in training.result.items() if isinstance(value, (int, float))}
        profile = {"scenes": used.num_scenes, "frames": used.num_frames, "agents": used.num_agents, "hours": used.hours}
        source = {"artifact": str(used), "digest": used.digest, "location": used.location}
        with _translated_errors(), self._run(training.name, tags) as run_id:
            logged = Dataset(
                name=str(used),
                digest=used.digest[:36],  # the limit of MLflow
                source_type="l5kit",
                source=json.dumps(source),
                profile=json.dumps(profile),
            )
            context = InputTag("mlflow.data.context", "training")
            self._client.log_inputs(run_id, [DatasetInput(logged, [context])])
            for key, value in scores.items():
                self._client.log_metric(run_id, key, value)
            self._log_files(run_id, {f"{MODEL_TYPE}/{name}": path for name, path in training.files.items()})
            experiment_id = self._client.get_run(run_id).info.experiment_id
            return f"{self._client.tracking_uri}/#/experiments/{experiment_id}/runs/{run_id}"

    def _log(self, version: NewVersion) -> DatasetArtifact:
        with _translated_errors():
            # A run with the same data at the same location is that version, and only gets the new aliases.
            known = self._runs(version.name)
            manifest, same = version.content.manifest, []
            for run in known:
                record = _record(run)
                reference = record.location if record.is_reference else ""
                if (record.digest, reference) == (manifest.digest, version.reference):
                    same.append(run.info.run_id)
            if same:
                run_id = same[0]
            else:
                number = 1 + max((_number_of(run.data.tags[_VERSION]) for run in known), default=-1)
                tags = {
                    _TYPE: DATASET_TYPE,
                    _NAME: version.name,
                    _VERSION: f"v{number}",
                    _METADATA: json.dumps(version.metadata),
                    _DESCRIPTION: version.description,
                }
                with self._run(f"{version.name} v{number}", tags) as run_id:
                    self._client.log_text(run_id, manifest.to_json(), MANIFEST_FILE)
                    self._log_files(run_id, version.files)
                    self._client.set_tag(run_id, _STATE, _COMPLETE)  # last: runs without it are no versions

            # An alias is a tag of a single run, so it is first removed from the other runs.
            for alias in version.aliases:
                for run in known:
                    if f"{_ALIAS}{alias}" in run.data.tags:
                        self._client.delete_tag(run.info.run_id, f"{_ALIAS}{alias}")
                self._client.set_tag(run_id, f"{_ALIAS}{alias}", version.name)
            return _record(self._client.get_run(run_id))

    def _log_files(self, run_id: str, files: Mapping[str, Path]) -> None:
        for name, path in files.items():
            self._client.log_artifact(run_id, str(path), name.rpartition("/")[0])

    def _fetch(self, artifact: DatasetArtifact, name: str, folder: Path) -> None:
        run_id = self._find(ArtifactName(artifact.name, artifact.version)).info.run_id
        with _translated_errors():
            self._client.download_artifacts(run_id, name, str(folder))

    def _find(self, name: ArtifactName) -> Run:
        with _translated_errors():
            runs = self._runs(name.name)
        run: Run
        for run in runs:
            if run.data.tags[_VERSION] == name.alias or f"{_ALIAS}{name.alias}" in run.data.tags:
                return run
        raise ArtifactNotFoundError(
            f"there is no {name} in experiment {self.project!r}; `l5kit artifact list` shows what there is"
        )

    def _runs(self, name: str | None) -> Sequence[Run]:
        """Return the runs with complete versions of a dataset, or of all datasets."""
        experiment = self._client.get_experiment_by_name(self.project)
        if experiment is None:
            return []
        wanted = f"tags.`{_TYPE}` = '{DATASET_TYPE}' and tags.`{_STATE}` = '{_COMPLETE}'"
        if name is not None:
            wanted += f" and tags.`{_NAME}` = '{require_word(name, argument='name')}'"
        runs: deque[Run] = deque()
        token = None
        while True:
            page = self._client.search_runs([experiment.experiment_id], wanted, max_results=_PAGE, page_token=token)
            runs.extend(page)
            token = page.token
            if not token:
                return tuple(runs)

    @contextmanager
    def _run(self, name: str, tags: Mapping[str, str]) -> Iterator[str]:
        """Create a run, yield its id, and end it, as failed after an error."""
        experiment = self._client.get_experiment_by_name(self.project)
        experiment_id = experiment.experiment_id if experiment else self._client.create_experiment(self.project)
        run_id = self._client.create_run(experiment_id, tags=dict(tags), run_name=name).info.run_id
        try:
            yield run_id
        except BaseException:
            self._client.set_terminated(run_id, "FAILED")
            raise
        self._client.set_terminated(run_id)


def _record(run: Run) -> DatasetArtifact:
    """Return the record of a version from its run."""
    tags = run.data.tags
    name = tags[_NAME]
    return DatasetArtifact.from_metadata(
        name,
        read_metadata(tags[_METADATA], called=f"tag {_METADATA} of run {run.info.run_id}"),
        version=tags[_VERSION],
        aliases=[tag.removeprefix(_ALIAS) for tag in tags if tag.startswith(_ALIAS)],
        description=tags.get(_DESCRIPTION, ""),
        created=datetime.fromtimestamp(run.info.start_time / 1000, UTC).isoformat(),
        location=f"runs:/{run.info.run_id}",
    )


def _number_of(version: str) -> int:
    return int(version.removeprefix("v"))


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Turn errors of the library into store errors."""
    try:
        yield
    except (MlflowException, OSError) as error:
        if isinstance(error, L5KitError):
            raise
        raise ArtifactStoreError(f"MLflow: {error_line(error)}") from error
