"""The part of the interface of Weights & Biases that stores of artifacts use, in memory: GraphQL, and files.

The real library talks to it through its own service process.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from support.http_server import Answer, Request

ENTITY = "team"
PROJECT = "driving"

_FILE = re.compile(r"/artifactsV2/[^/]+/[^/]+/[^/]+/[^/]+/([^/]+)/[^/]+/(.+)")
_OPERATION = re.compile(r"(?:query|mutation)\s+(\w+)")


@dataclass
class LoggedArtifact:
    id: str
    type: str
    name: str
    number: int
    digest: str
    metadata: str | None
    description: str | None
    run: str
    aliases: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    """For each file of the artifact, under which name it was uploaded."""
    manifest: str = ""
    is_committed: bool = False


class WandbServer:
    """Runs and artifacts of one project; ``answer`` is what the server answers with."""

    def __init__(self) -> None:
        self.artifacts: dict[str, LoggedArtifact] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.uses: list[tuple[str, str]] = []
        self.uploads: dict[str, bytes] = {}
        self.unknown: list[str] = []

    def answer(self, request: Request) -> Answer:
        host = f"http://{request.headers['host']}"
        if request.path == "/graphql":
            query = request.json["query"]
            name = _OPERATION.search(query)[1]
            try:
                return Answer({"data": getattr(self, f"_{name}")(request.json.get("variables") or {}, host)})
            except (AttributeError, KeyError, TypeError) as error:
                self.unknown.append(f"{name}: {error!r}")
                return Answer({"errors": [{"message": f"the server of the tests has no {name}"}]})
        if request.path.startswith("/storage/"):
            key = request.path.removeprefix("/storage/")
            if request.method == "PUT":
                self.uploads[key] = request.body
                return Answer({})
            return Answer(self.uploads[key]) if key in self.uploads else Answer({}, 404)
        if found := _FILE.fullmatch(request.path):
            data = self.uploads.get(f"files/{found[1]}/{found[2]}")
            return Answer({}, 404) if data is None else Answer(data)
        return Answer({})  # of runs: what is streamed, and telemetry

    def _Viewer(self, _: Any, __: str) -> Any:
        viewer = {"id": "1", "entity": ENTITY, "username": "u", "email": "u@example.org", "admin": False, "flags": None}
        return {"viewer": {**viewer, "name": "u", "teams": {"edges": []}, "apiKeys": {"edges": []}}}

    _GetDefaultEntity = _Viewer

    def _ServerFeaturesQuery(self, _: Any, __: str) -> Any:
        return {"serverInfo": {"features": []}}

    def _OrganizationCoreWeaveOrganizationID(self, _: Any, __: str) -> Any:
        return {"entity": {"organization": None}}

    # Runs.

    def _RunResumeStatus(self, given: Any, _: str) -> Any:
        return {"model": None}

    def _UpsertBucket(self, given: Any, _: str) -> Any:
        run = self.runs.setdefault(given["name"], {"project": given["project"], "config": {}})
        run |= {key: given[key] for key in ("jobType", "displayName") if given[key] is not None}
        if given["config"]:
            run["config"] |= {key: entry["value"] for key, entry in json.loads(given["config"]).items()}
        project = {"id": "p", "name": run["project"], "entity": {"id": "1", "name": ENTITY}}
        facts = {"id": given["name"], "name": given["name"], "displayName": run.get("displayName"), "project": project}
        rest = {"description": None, "config": given["config"], "sweepName": None, "historyLineCount": 0}
        return {"upsertBucket": {"bucket": facts | rest, "inserted": True}}

    def _CreateRunFiles(self, given: Any, host: str) -> Any:
        files = [
            {"name": name, "uploadUrl": f"{host}/storage/runs/{given['run']}/{name}", "uploadHeaders": []}
            for name in given["files"]
        ]
        return {"createRunFiles": {"runID": given["run"], "uploadHeaders": [], "files": files}}

    # Artifacts, as they are logged and used.

    def _CreateArtifact(self, given: Any, _: str) -> Any:
        logged = given["input"]
        same = [artifact for artifact in self._versions(logged) if artifact.digest == logged["digest"]]
        others = self._versions(logged)
        if same:
            artifact = same[0]
        else:
            artifact = LoggedArtifact(
                id=f"artifact-{len(self.artifacts)}",
                type=logged["artifactTypeName"],
                name=_name_of(logged),
                number=len(others),
                digest=logged["digest"],
                metadata=logged.get("metadata"),
                description=logged.get("description"),
                run=logged["runName"],
            )
            self.artifacts[artifact.id] = artifact
        for alias in (entry["alias"] for entry in logged["aliases"] or ()):
            for other in others:
                other.aliases = [had for had in other.aliases if had != alias]
            artifact.aliases.append(alias)
        state = "COMMITTED" if artifact.is_committed else "PENDING"
        latest = {"latestArtifact": None if not others else {"id": others[-1].id}}
        return {"createArtifact": {"artifact": {"id": artifact.id, "state": state, "artifactSequence": latest}}}

    def _versions(self, logged: Any) -> list[LoggedArtifact]:
        return [artifact for artifact in self.artifacts.values() if artifact.name == _name_of(logged)]

    def _CreateArtifactManifest(self, given: Any, host: str) -> Any:
        artifact = self.artifacts[given["artifactID"]]
        artifact.manifest = f"manifests/{artifact.id}"
        file = {"id": "f", "uploadUrl": f"{host}/storage/{artifact.manifest}", "uploadHeaders": []}
        return {"createArtifactManifest": {"artifactManifest": {"id": artifact.id, "file": file}}}

    def _UpdateArtifactManifest(self, given: Any, host: str) -> Any:
        manifest = self._CreateArtifactManifest({"artifactID": given["artifactManifestID"]}, host)
        return {"updateArtifactManifest": manifest["createArtifactManifest"]}

    def _CreateArtifactFiles(self, given: Any, host: str) -> Any:
        nodes = []
        for file in given["input"]["artifactFiles"]:
            key = f"files/{file['artifactID']}/{file['name']}"
            self.artifacts[file["artifactID"]].files[file["name"]] = key
            place = {"storagePath": key, "uploadUrl": f"{host}/storage/{key}", "uploadHeaders": []}
            nodes.append({"node": {**place, "uploadMultipartUrls": None, "artifact": {"id": file["artifactID"]}}})
        return {"createArtifactFiles": {"files": {"edges": nodes}}}

    def _CommitArtifact(self, given: Any, _: str) -> Any:
        artifact = self.artifacts[given["artifactID"]]
        artifact.is_committed = True
        return {"commitArtifact": {"artifact": {"id": artifact.id, "digest": artifact.digest}}}

    def _UseArtifact(self, given: Any, _: str) -> Any:
        used = given.get("input", given)
        self.uses.append((used["runName"], used["artifactID"]))
        return {"useArtifact": {"artifact": {"id": used["artifactID"]}}}

    # Artifacts, as they are looked at.

    def _ArtifactType(self, given: Any, _: str) -> Any:
        found = [artifact for artifact in self.artifacts.values() if artifact.name == given["name"]]
        return {"project": {"artifact": {"artifactType": {"name": found[0].type}} if found else None}}

    def _ArtifactTypeArtifactCollections(self, given: Any, _: str) -> Any:
        names = dict.fromkeys(artifact.name for artifact in self.artifacts.values() if artifact.type == given["type"])
        type_of = {"type": {"name": given["type"]}}
        dates = {"createdAt": "2026-01-02T03:04:05Z", "updatedAt": None}
        edges = [
            {"node": {**_collection(name), "id": name, "description": None, **dates, **type_of, "tags": {"edges": []}}}
            for name in names
        ]
        collections = {"totalCount": len(edges), "pageInfo": _LAST_PAGE, "edges": edges}
        return {"project": {"artifactType": {"artifactCollections": collections}}}

    def _ProjectArtifacts(self, given: Any, _: str) -> Any:
        versions = [artifact for artifact in self.artifacts.values() if artifact.name == given["collection"]]
        edges = [{"version": f"v{artifact.number}", "node": _facts_of(artifact)} for artifact in reversed(versions)]
        artifacts = {"totalCount": len(edges), "pageInfo": _LAST_PAGE, "edges": edges}
        collection = {"__typename": "ArtifactSequence", "artifacts": artifacts}
        return {"project": {"artifactType": {"artifactCollection": collection if edges else None}}}

    def _ArtifactMembershipByName(self, given: Any, _: str) -> Any:
        name, _, alias = given["name"].partition(":")
        found = [artifact for artifact in self.artifacts.values() if artifact.name == name and _has(artifact, alias)]
        return {"project": {"artifactCollectionMembership": _membership(found[0]) if found else None}}

    def _ArtifactByID(self, given: Any, _: str) -> Any:
        return {"artifact": _facts_of(self.artifacts[given["id"]])}

    def _FetchArtifactManifest(self, given: Any, host: str) -> Any:
        file = {"directUrl": f"{host}/storage/{self.artifacts[given['id']].manifest}"}
        return {"artifact": {"currentManifest": {"file": file}}}

    def _GetArtifactMembershipFileUrls(self, given: Any, host: str) -> Any:
        found = [artifact for artifact in self.artifacts.values() if artifact.name == given["collection"]]
        artifact = next(artifact for artifact in found if _has(artifact, given["alias"]))
        edges = [
            {"node": {"__typename": "File", "name": name, "directUrl": f"{host}/storage/{key}"}}
            for name, key in artifact.files.items()
        ]
        membership = {"files": {"pageInfo": _LAST_PAGE, "edges": edges}}
        return {"project": {"artifactCollection": {"__typename": "ArtifactSequence", "artifactMembership": membership}}}


_LAST_PAGE = {"__typename": "PageInfo", "endCursor": None, "hasNextPage": False}


def _name_of(logged: Any) -> str:
    return logged["artifactCollectionName"]


def _has(artifact: LoggedArtifact, alias: str) -> bool:
    return alias in (f"v{artifact.number}", *artifact.aliases)


def _collection(name: str) -> Any:
    project = {"id": "p", "internalId": "p", "name": PROJECT, "entity": {"name": ENTITY}}
    return {"__typename": "ArtifactSequence", "name": name, "project": project}


def _aliases(artifact: LoggedArtifact) -> Any:
    return [
        {"__typename": "ArtifactAlias", "id": alias, "alias": alias, "artifactCollection": _collection(artifact.name)}
        for alias in artifact.aliases
    ]


def _facts_of(artifact: LoggedArtifact) -> Any:
    return {
        "__typename": "Artifact",
        "id": artifact.id,
        "artifactSequence": _collection(artifact.name),
        "versionIndex": artifact.number,
        "artifactType": {"name": artifact.type},
        "description": artifact.description,
        "metadata": artifact.metadata,
        "ttlDurationSeconds": -2,
        "ttlIsInherited": True,
        "tags": [],
        "historyStep": None,
        "state": "COMMITTED",
        "size": 1,
        "digest": artifact.digest,
        "commitHash": None,
        "fileCount": len(artifact.files),
        "createdAt": "2026-01-02T03:04:05Z",
        "updatedAt": None,
        "aliases": _aliases(artifact),
    }


def _membership(artifact: LoggedArtifact) -> Any:
    return {
        "__typename": "ArtifactCollectionMembership",
        "id": artifact.id,
        "versionIndex": artifact.number,
        "createdAt": "2026-01-02T03:04:05Z",
        "aliases": _aliases(artifact),
        "artifactCollection": _collection(artifact.name),
        "artifact": _facts_of(artifact),
    }
