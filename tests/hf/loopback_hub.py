"""A hub on this machine: the endpoints that creating a repository, committing to it and downloading from it need."""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["Hub", "serving"]

Files = dict[str, bytes]


@dataclass
class Hub:
    """Repositories and all their commits; the last commit is `main`."""

    address: str = ""
    repositories: dict[str, list[tuple[str, Files]]] = field(default_factory=dict)
    # Who asked for what, to be looked at by tests.
    requests: list[str] = field(default_factory=list)

    def files(self, name: str) -> Files:
        return self.repositories[name][-1][1]

    def commit(self, name: str, changes: list[dict[str, Any]]) -> str:
        files = dict(self.files(name))
        for change in changes:
            if change["key"] == "file":
                files[change["value"]["path"]] = base64.b64decode(change["value"]["content"])
            elif change["key"] == "deletedFile":
                del files[change["value"]["path"]]
        commit = hashlib.sha1(f"{name}{len(self.repositories[name])}".encode()).hexdigest()
        self.repositories[name].append((commit, files))
        return commit

    def at(self, name: str, revision: str) -> tuple[str, Files] | None:
        found = [each for each in self.repositories.get(name, ()) if revision in ("main", each[0])]
        return found[-1] if found else None


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = self._parts()
        if parts == ["api", "validate-yaml"]:
            self._json({"errors": [], "warnings": []})
        elif parts == ["api", "repos", "create"]:
            about = json.loads(body)
            name = f"{about['organization']}/{about['name']}"
            known = name in self.hub.repositories
            self.hub.repositories.setdefault(name, [("0" * 40, {})])
            self._json({"url": f"{self.hub.address}/{name}", "name": name}, 409 if known else 200)
        elif parts[4] == "preupload":
            files = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]
            ]
            self._json({"files": files})
        else:
            name = "/".join(parts[2:4])
            commit = self.hub.commit(name, [json.loads(line) for line in body.splitlines()])
            address = f"{self.hub.address}/{name}/commit/{commit}"
            self._json({"success": True, "commitOid": commit, "commitUrl": address})

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        parts = self._parts()
        if parts[0] == "api":
            self._about("/".join(parts[2:4]), parts[4:])
        else:
            self._file("/".join(parts[:2]), parts[3], "/".join(parts[4:]), with_body)

    def _about(self, name: str, rest: list[str]) -> None:
        found = self.hub.at(name, rest[1] if rest else "main")
        if found is None:
            self._missing("RepoNotFound")
            return
        commit, files = found
        listed = [
            {"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
            for path, content in files.items()
        ]
        if rest and rest[0] == "tree":
            self._json(listed)
        else:
            siblings = [{"rfilename": path} for path in files]
            self._json({"id": name, "modelId": name, "sha": commit, "siblings": siblings, "private": False, "tags": []})

    def _file(self, name: str, revision: str, path: str, with_body: bool) -> None:
        found = self.hub.at(name, revision)
        if found is None or path not in found[1]:
            self._missing("RepoNotFound" if found is None else "EntryNotFound", "" if found is None else found[0])
            return
        commit, content = found[0], found[1][path]
        headers = {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha1(content).hexdigest()}"'}
        self._send(200, content, headers, with_body)

    def _missing(self, code: str, commit: str = "") -> None:
        self._send(404, b"", {"X-Error-Code": code, "X-Repo-Commit": commit})

    def _json(self, value: object, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str], with_body: bool = True) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _parts(self) -> list[str]:
        self.hub.requests.append(f"{self.command} {self.path}")
        return [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]


@contextmanager
def serving() -> Iterator[Hub]:
    """A hub that is there within the block."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
