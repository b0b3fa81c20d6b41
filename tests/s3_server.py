"""A real S3 server on the loopback, moto's, and the faults that a test has it show."""

import logging
import socket
import threading
import uuid
from collections.abc import Callable

KEYS = {"AWS_ACCESS_KEY_ID": "of-a-test", "AWS_SECRET_ACCESS_KEY": "secret-of-a-test"}
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
_UNKNOWN = (
    b"<Error><Code>InvalidAccessKeyId</Code><Message>The key does not exist.</Message></Error>"
)
_ELSEWHERE = (
    b"<Error><Code>AuthorizationHeaderMalformed</Code><Message>The authorization header is "
    b"malformed; the region 'us-east-1' is wrong; expecting 'eu-west-1'</Message></Error>"
)
_NO_UPLOAD = (
    b"<Error><Code>NoSuchUpload</Code>"
    b"<Message>The specified upload does not exist.</Message></Error>"
)
Fault = Callable[[str, str], str | None]


class S3Server:
    """Serves in threads of this process; `fault(method, path)` may name what goes wrong.

    `busy` is answered with 503; `cut` closes the connection without an answer, and `lost` does so
    once what was asked is done; `gone` says that there is no such upload, `elsewhere` that the
    bucket is in another region.
    """

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._app = DomainDispatcherApplication(create_backend_app)
        self._kept = socket.socket()  # the port, also while nothing listens on it
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._kept.bind(("127.0.0.1", 0))
        self.port = self._kept.getsockname()[1]
        self.fault: Fault = lambda method, path: None
        self.requests: list[tuple[str, str]] = []
        self.start()

    @property
    def environment(self) -> dict[str, str]:
        address = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}", "AWS_MAX_ATTEMPTS": "2"}
        return KEYS | address | {"AWS_DEFAULT_REGION": "us-east-1"}

    def start(self) -> None:
        from werkzeug.serving import make_server

        self._server = make_server("127.0.0.1", self.port, self._answer, threaded=True)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, environ, start):
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.requests.append((method, path))
        fault = self.fault(method, path)
        if KEYS["AWS_ACCESS_KEY_ID"] not in environ.get("HTTP_AUTHORIZATION", ""):
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [_UNKNOWN]
        if fault == "busy":
            start("503 Slow Down", [("Content-Type", "application/xml")])
            return [_SLOW_DOWN]
        if fault == "elsewhere":
            start("400 Bad Request", [("Content-Type", "application/xml")])
            return [_ELSEWHERE]
        if fault == "gone":
            start("404 Not Found", [("Content-Type", "application/xml")])
            return [_NO_UPLOAD]
        if fault == "cut":
            environ["werkzeug.socket"].shutdown(2)
        if fault == "lost":
            b"".join(self._app(environ, lambda *_: None))
            environ["werkzeug.socket"].shutdown(2)
        return self._app(environ, start)


class Bucket:
    """A bucket of its own for a test; files are read and written past what is tested."""

    def __init__(self, server: S3Server) -> None:
        import boto3

        self.server, self.name = server, f"bucket-{uuid.uuid4().hex[:12]}"
        keys = {name.lower(): value for name, value in KEYS.items()}
        self._client = boto3.client(
            "s3", region_name="us-east-1", endpoint_url=f"http://127.0.0.1:{server.port}", **keys
        )
        self._client.create_bucket(Bucket=self.name)
        server.requests.clear()

    def forget_connections(self) -> None:
        """Has what is opened next take the credentials that the environment has then."""
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()

    def url(self, name: str) -> str:
        return f"s3://{self.name}/{name}"

    def names(self) -> list[str]:
        found = self._client.list_objects_v2(Bucket=self.name).get("Contents", [])
        return [entry["Key"] for entry in found]

    def read(self, name: str) -> bytes:
        return self._client.get_object(Bucket=self.name, Key=name)["Body"].read()

    def write(self, name: str, data: bytes) -> None:
        self._client.put_object(Bucket=self.name, Key=name, Body=data)

    def remove(self, name: str) -> None:
        self._client.delete_object(Bucket=self.name, Key=name)

    def flip(self, name: str) -> None:
        """Changes one byte of a file."""
        data = bytearray(self.read(name))
        data[len(data) // 2] ^= 1
        self.write(name, bytes(data))

    def sent(self) -> list[str]:
        """The names of the files that were written since the last time that this was asked."""
        requests = self.server.requests
        found = [
            path.removeprefix(f"/{self.name}/") for method, path in requests if method == "PUT"
        ]
        requests.clear()
        return found
