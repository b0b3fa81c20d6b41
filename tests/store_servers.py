"""Real servers on the loopback, one for each kind of store, as their own packages serve them.

Each has `environment`, what a user would set, `url(name)` and `read`, `write`, `remove`, `names`
of its files past what is tested.
"""

import contextlib
import http.server
import json
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from functools import partial
from pathlib import Path

_kept: list[socket.socket] = []  # ports, until the process ends


def free_port() -> int:
    """A port that nobody else is given before a server listens on it, and when it has ended."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers do
    kept.bind(("127.0.0.1", 0))
    _kept.append(kept)
    return kept.getsockname()[1]


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")


class Gcs:
    """gcp-storage-emulator, or the program fake-gcs-server, with a bucket of its own."""

    def __init__(self, folder: Path, program: list[str] | None = None) -> None:
        self.port, self.bucket = free_port(), f"bucket-{uuid.uuid4().hex[:12]}"
        self._process, self._server = None, None
        if program:
            words = ["-scheme=http", "-backend=memory", "-host=127.0.0.1", "-log-level=error"]
            words += [f"-port={self.port}", f"-external-url=http://127.0.0.1:{self.port}"]
            self._process = subprocess.Popen([*program, *words])
        else:
            from gcp_storage_emulator.server import create_server

            self._server = create_server("127.0.0.1", self.port, in_memory=True)
            self._server.start()
        wait_for(self.port)
        self._ask("POST", "/storage/v1/b?project=test", json.dumps({"name": self.bucket}).encode())

    @property
    def environment(self) -> dict[str, str]:
        address = f"http://127.0.0.1:{self.port}"
        return {"STORAGE_EMULATOR_HOST": address, "FSSPEC_GS_TOKEN": "anon"}

    def url(self, name: str) -> str:
        return f"gs://{self.bucket}/{name}"

    def _ask(self, method: str, path: str, data: bytes | None = None) -> bytes:
        asked = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        kind = "application/json" if path.startswith("/storage") else "application/octet-stream"
        asked.add_header("Content-Type", kind)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.read()

    def _path(self, name: str) -> str:
        return f"/storage/v1/b/{self.bucket}/o/{urllib.parse.quote(name, safe='')}"

    def names(self) -> list[str]:
        found = json.loads(self._ask("GET", f"/storage/v1/b/{self.bucket}/o"))
        return sorted(item["name"] for item in found.get("items", []))

    def read(self, name: str) -> bytes:
        return self._ask("GET", f"{self._path(name)}?alt=media")

    def write(self, name: str, data: bytes) -> None:
        quoted = urllib.parse.quote(name, safe="")
        place = f"/upload/storage/v1/b/{self.bucket}/o?uploadType=media&name={quoted}"
        self._ask("POST", place, data)

    def remove(self, name: str) -> None:
        self._ask("DELETE", self._path(name))

    def stop(self) -> None:
        if self._server:
            self._server.stop()
        if self._process:
            self._process.kill()
            self._process.wait()


class Azure:
    """Azurite, with a container of its own."""

    KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def __init__(self, folder: Path) -> None:
        self.port, self.bucket = free_port(), f"container-{uuid.uuid4().hex[:12]}"
        words = ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        words += [f"--location={folder}", f"--blobPort={self.port}"]
        self._process = subprocess.Popen(["azurite-blob", *words], stdout=subprocess.DEVNULL)
        wait_for(self.port)
        from azure.storage.blob import BlobServiceClient

        service = BlobServiceClient.from_connection_string(self.connection)
        self._container = service.create_container(self.bucket)

    @property
    def connection(self) -> str:
        address = f"http://127.0.0.1:{self.port}/devstoreaccount1"
        account = f"AccountName=devstoreaccount1;AccountKey={self.KEY}"
        return f"DefaultEndpointsProtocol=http;{account};BlobEndpoint={address};"

    @property
    def environment(self) -> dict[str, str]:
        return {"AZURE_STORAGE_CONNECTION_STRING": self.connection}

    def url(self, name: str) -> str:
        return f"az://{self.bucket}/{name}"

    def names(self) -> list[str]:
        return sorted(self._container.list_blob_names())

    def read(self, name: str) -> bytes:
        return self._container.download_blob(name).readall()

    def write(self, name: str, data: bytes) -> None:
        self._container.upload_blob(name, data, overwrite=True)

    def remove(self, name: str) -> None:
        self._container.delete_blob(name)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class _Folder:
    """A server of a folder, whose files are read and written as such."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.environment: dict[str, str] = {}

    def names(self) -> list[str]:
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(path.relative_to(self.folder).as_posix() for path in files)

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_bytes(data)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()


class Sftp(_Folder):
    """asyncssh's server of files, with one user and a password."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import asyncio

        started = threading.Event()
        self._loop = asyncio.new_event_loop()

        def serve() -> None:
            asyncio.set_event_loop(self._loop)
            self._loop.run_until_complete(self._serve())
            started.set()
            self._loop.run_forever()

        threading.Thread(target=serve, daemon=True).start()
        assert started.wait(120)

    async def _serve(self) -> None:
        import asyncssh

        class Login(asyncssh.SSHServer):
            def begin_auth(self, username: str) -> bool:
                return True

            def password_auth_supported(self) -> bool:
                return True

            def validate_password(self, username: str, password: str) -> bool:
                return (username, password) == ("me", "secret-of-a-test")

        key = asyncssh.generate_private_key("ssh-ed25519")
        files = partial(asyncssh.SFTPServer, chroot=os.fsencode(self.folder))
        await asyncssh.listen(
            "127.0.0.1", self.port, server_host_keys=[key], server_factory=Login, sftp_factory=files
        )

    def url(self, name: str) -> str:
        return f"sftp://me:secret-of-a-test@127.0.0.1:{self.port}/{name}"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)


class Webdav(_Folder):
    """WsgiDAV behind cheroot."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        address = f"http://me:secret-of-a-test@127.0.0.1:{self.port}/"
        self.environment = {"FSSPEC_WEBDAV_BASE_URL": address}
        from cheroot import wsgi
        from wsgidav.wsgidav_app import WsgiDAVApp

        login = {"*": {"me": {"password": "secret-of-a-test"}}}
        app = WsgiDAVApp({
            "provider_mapping": {"/": str(folder)}, "verbose": 0, "logging": {"enable": False},
            "simple_dc": {"user_mapping": login}, "http_authenticator": {"accept_digest": False},
        })  # fmt: skip
        self._server = wsgi.Server(("127.0.0.1", self.port), app)
        self._server.prepare()
        threading.Thread(target=self._server.serve, daemon=True).start()

    def url(self, name: str) -> str:
        return f"webdav://{name}"

    def stop(self) -> None:
        self._server.stop()


class Http(_Folder):
    """Python's own server of a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        handler = partial(_Quiet, directory=str(folder))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/{name}"

    def stop(self) -> None:
        self._server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        pass
