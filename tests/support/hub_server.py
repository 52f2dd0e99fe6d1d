"""The part of the Hugging Face hub's interface that stores of artifacts use, in memory."""

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any

from support.http_server import Answer, Request

_API = re.compile(r"/api/(datasets|models)/([^/]+/[^/]+)(?:/(\w+)(?:/(.+))?)?")
_RESOLVE = re.compile(r"/(?:(datasets)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_NOT_FOUND = "RevisionNotFound"


@dataclass
class Commit:
    id: str
    title: str
    files: dict[str, bytes]


@dataclass
class Repository:
    commits: list[Commit] = field(default_factory=lambda: [Commit("0" * 40, "initial commit", {".gitattributes": b""})])
    tags: dict[str, str] = field(default_factory=dict)

    def commit_of(self, revision: str) -> Commit | None:
        if revision == "main":
            return self.commits[-1]
        wanted = self.tags.get(revision, revision)
        return next((commit for commit in self.commits if commit.id == wanted), None)


class HubServer:
    """Repositories by kind and name; ``answer`` is what the server answers with."""

    def __init__(self) -> None:
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.requests: list[str] = []

    def answer(self, request: Request) -> Answer:
        self.requests.append(f"{request.method} {request.path}")
        if request.path == "/api/repos/create":
            return self._create(request)
        if request.path == "/api/datasets":
            return Answer([{"_id": "1", "id": name} for kind, name in self.repositories if kind == "datasets"])
        if request.path == "/api/validate-yaml":
            return Answer({"errors": [], "warnings": []})
        if found := _RESOLVE.fullmatch(request.path):
            return self._file(found[1] or "models", found[2], found[3], found[4])
        if found := _API.fullmatch(request.path):
            repository = self.repositories.get((found[1], found[2]))
            if repository is None:
                return _missing("RepoNotFound")
            return self._of_repository(request, repository, found[2], found[3] or "revision", found[4] or "main")
        return Answer({"error": "no such page"}, 404)

    def _create(self, request: Request) -> Answer:
        kind = f"{request.json.get('type', 'model')}s"
        name = f"{request.json['organization']}/{request.json['name']}"
        status = 409 if (kind, name) in self.repositories else 200
        self.repositories.setdefault((kind, name), Repository())
        prefix = "datasets/" if kind == "datasets" else ""
        return Answer({"url": f"http://{request.headers['host']}/{prefix}{name}", "id": name}, status)

    def _of_repository(self, request: Request, repository: Repository, name: str, what: str, rest: str) -> Answer:
        if what == "preupload":
            names = [file["path"] for file in request.json["files"]]
            plain = {"uploadMode": "regular", "shouldIgnore": False, "oid": None}
            return Answer({"files": [{"path": path, **plain} for path in names]})
        if what == "refs":
            tags = [{"name": tag, "ref": f"refs/tags/{tag}", "targetCommit": at} for tag, at in repository.tags.items()]
            head = {"name": "main", "ref": "refs/heads/main", "targetCommit": repository.commits[-1].id}
            return Answer({"branches": [head], "tags": tags, "converts": []})
        if what == "tag" and request.method == "DELETE":
            return Answer({}) if repository.tags.pop(rest, None) else _missing(_NOT_FOUND)
        revision = rest.partition("/")[0]
        commit = repository.commit_of(revision)
        if commit is None:
            return _missing(_NOT_FOUND)
        if what == "tag":
            tag = request.json["tag"]
            status = 409 if tag in repository.tags else 200
            repository.tags.setdefault(tag, commit.id)
            return Answer({}, status)
        if what == "commit":
            return self._commit(request, repository, name)
        if what == "commits":
            return Answer([_commit_facts(commit) for commit in reversed(repository.commits)])
        if what == "tree":
            return Answer([_file_facts(path, data) for path, data in commit.files.items()])
        siblings = [{"rfilename": path} for path in commit.files]
        return Answer({"_id": "1", "id": name, "sha": commit.id, "siblings": siblings})

    def _commit(self, request: Request, repository: Repository, name: str) -> Answer:
        files, title = dict(repository.commits[-1].files), ""
        for line in request.body.splitlines():
            operation = json.loads(line)
            value = operation["value"]
            if operation["key"] == "header":
                title = value["summary"]
            elif operation["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif operation["key"] == "deletedFile":
                del files[value["path"]]
        commit = Commit(hashlib.sha1(f"{len(repository.commits)}{title}".encode()).hexdigest(), title, files)
        repository.commits.append(commit)
        url = f"http://{request.headers['host']}/datasets/{name}/commit/{commit.id}"
        return Answer({"success": True, "commitOid": commit.id, "commitUrl": url, "hookOutput": ""})

    def _file(self, kind: str, name: str, revision: str, path: str) -> Answer:
        repository = self.repositories.get((kind, name))
        commit = repository.commit_of(revision) if repository else None
        if commit is None:
            return _missing("RepoNotFound" if repository is None else _NOT_FOUND)
        if path not in commit.files:
            return _missing("EntryNotFound", commit=commit.id)
        data = commit.files[path]
        return Answer(data, headers={"ETag": f'"{_oid(data)}"', "X-Repo-Commit": commit.id})


def _missing(code: str, *, commit: str = "") -> Answer:
    headers = {"X-Error-Code": code, "X-Error-Message": code} | ({"X-Repo-Commit": commit} if commit else {})
    return Answer({"error": code}, 404, headers)


def _oid(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


def _file_facts(path: str, data: bytes) -> dict[str, Any]:
    return {"type": "file", "oid": _oid(data), "size": len(data), "path": path}


def _commit_facts(commit: Commit) -> dict[str, Any]:
    facts = {"title": commit.title, "message": "", "authors": [{"user": "u"}], "date": "2026-01-02T03:04:05.000Z"}
    return {"id": commit.id, **facts}
