"""A hub on the loopback that speaks as much of the Hugging Face Hub's protocol as rlvr needs.

    python tests/hub.py PORT_FILE LOG FOLDER

FOLDER/USER/MODEL are the models that it has; what is uploaded goes there too. Files that end in
.safetensors are uploaded as large ones are. LOG has one line a request.
"""

import base64
import hashlib
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_of_a_test"


LARGE: dict[str, bytes] = {}  # what is uploaded, by its sha256


class Hub(BaseHTTPRequestHandler):
    folder: Path
    log: Path

    def log_message(self, *words):
        pass

    def handle_one(self):
        path = unquote(self.path.partition("?")[0])
        with open(self.log, "a") as file:
            file.write(f"{self.command} {path}\n")
        length = int(self.headers.get("Content-Length") or 0)
        chunked = self.headers.get("Transfer-Encoding") == "chunked"
        self.body = self.chunks() if chunked else self.rfile.read(length)
        if self.command in ("POST", "PUT") or path == "/api/whoami-v2":
            sent = self.headers.get("Authorization")
            if not path.startswith("/large/") and sent != f"Bearer {TOKEN}":
                return self.answer({"error": "Invalid user token."}, 401)
        for pattern, reply in (
            (r"/api/whoami-v2", self.whoami),
            (r"/api/models/([^/]+/[^/]+)(?:/revision/.+)?", self.info),
            (r"/api/models/([^/]+/[^/]+)/tree/(?:refs/pr/\d+|[^/]+)", self.tree),
            (r"/([^/]+/[^/]+)/resolve/(?:refs/pr/\d+|[^/]+)/(.+)", self.resolve),
            (r"/api/repos/create", self.create),
            (r"/api/models/([^/]+/[^/]+)/preupload/main", self.preupload),
            (r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", self.batch),
            (r"/large/(.+)", self.put),
            (r"/api/models/([^/]+/[^/]+)/commit/main", self.commit),
            (r"/api/validate-yaml", lambda: self.answer({"errors": [], "warnings": []})),
        ):
            if found := re.fullmatch(pattern, path):
                return reply(*found.groups())
        return self.answer({"error": f"no {path}"}, 404)

    do_GET = do_HEAD = do_POST = do_PUT = handle_one

    def chunks(self):
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def answer(self, content, status=200, **headers):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {
            "X-Repo-Commit": COMMIT,
            "Content-Length": len(data),
            **headers,
        }.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def files(self, name):
        model = self.folder / name
        return sorted(p.relative_to(model).as_posix() for p in model.rglob("*") if p.is_file())

    def whoami(self):
        self.answer({"type": "user", "name": "user", "orgs": [], "auth": {"type": "access_token"}})

    def info(self, name):
        if not (self.folder / name).is_dir():
            return self.answer({"error": "Repository not found"}, 404, **{
                "X-Error-Code": "RepoNotFound"})  # fmt: skip
        siblings = [{"rfilename": file} for file in self.files(name)]
        return self.answer({"id": name, "sha": COMMIT, "siblings": siblings, "private": False})

    def tree(self, name):
        entries = [
            {"type": "file", "path": file, "oid": "0" * 40,
             "size": (self.folder / name / file).stat().st_size}
            for file in self.files(name)
        ]  # fmt: skip
        self.answer(entries)

    def resolve(self, name, file):
        path = self.folder / name / file
        if not path.is_file():
            return self.answer({"error": "no"}, 404, **{"X-Error-Code": "EntryNotFound"})
        data = path.read_bytes()
        return self.answer(data, ETag=f'"{hashlib.sha1(data).hexdigest()}"')

    def create(self):
        asked = json.loads(self.body)
        name = f"{asked.get('organization') or 'user'}/{asked['name'].rpartition('/')[2]}"
        try:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return self.answer({"error": str(error)}, 403)
        is_private = asked.get("private") or asked.get("visibility") == "private"
        (self.folder / f"{name}.private").write_text(json.dumps(is_private))
        host = self.headers["Host"]
        return self.answer({"url": f"http://{host}/{name}", "id": "1", "name": name})

    def preupload(self, name):
        files = [
            {"path": file["path"], "shouldIgnore": False,
             "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular"}
            for file in json.loads(self.body)["files"]
        ]  # fmt: skip
        self.answer({"files": files})

    def batch(self, name):
        asked = json.loads(self.body)
        objects = [
            {**each, "actions": {"upload": {
                "href": f"http://{self.headers['Host']}/large/{each['oid']}"}}}
            for each in asked["objects"]
        ]  # fmt: skip
        self.answer({"transfer": "basic", "objects": objects})

    def put(self, oid):
        assert hashlib.sha256(self.body).hexdigest() == oid
        LARGE[oid] = self.body
        self.answer({})

    def commit(self, name):
        for line in self.body.decode().splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                data = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                data = LARGE[value["oid"]]
            else:
                continue
            (self.folder / name / value["path"]).write_bytes(data)
        host = self.headers["Host"]
        self.answer({"success": True, "commitOid": COMMIT,
                     "commitUrl": f"http://{host}/{name}/commit/{COMMIT}"})  # fmt: skip


if __name__ == "__main__":
    port, Hub.log, Hub.folder = map(Path, sys.argv[1:])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    port.write_text(str(server.server_port))
    server.serve_forever()
