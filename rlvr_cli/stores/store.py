"""A place in a store, by its URL: what fsspec opens, without its caches, in one line of errors.

Credentials come from the environment and the files of each store's own library. Nothing here is
cached between two looks: other processes and machines write to the same place.
"""

import contextlib
import logging
import os
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError, UsageError, UserError
from rlvr_cli.storage import disk
from rlvr_cli.stores import azure, refusals
from rlvr_cli.stores.listing import THREADS
from rlvr_cli.stores.refusals import EXTRAS
from rlvr_cli.terminal import escape

_URL = re.compile(r"([A-Za-z][\w+.-]+)((?:::[\w+.-]+)*):(/{1,3})(.*)", re.DOTALL)
_PIECE = 8 * 2**20  # bytes; so many are in memory for each file that is sent
# Others than these and the asynchronous ones may mix up the answers of two threads: paramiko does.
_SHARED = ("hf", "file", "local", "memory", "webdav", "dav")
# Each says the same as the error that follows, many times and with a traceback.
_LOGGERS = ("asyncssh", "azure", "gcsfs", "google", "paramiko", "s3fs")
# gcsfs would ask for the kind of a bucket each time, and hold 0.3 GB of each large file in memory.
_GCSFS = {"GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false", "DEFAULT_GCSFS_CONCURRENCY": "1"}
_STATES = (
    *("ETag", "etag", "md5Hash", "content_md5", "generation", "version_id", "oid", "blob_id"),
    *("mtime", "LastModified", "last_modified", "updated", "created", "Last-Modified"),
)


@dataclass(frozen=True)
class FileInfo:
    """A file of a store: its size in bytes, and what changes where its content does."""

    size: int
    state: str


def url_of(value: object) -> str | None:
    """The URL that a word names; None of a path on this machine.

    A `Path` has lost one of the two slashes: of a scheme that fsspec knows, one is enough.
    """
    match = _URL.fullmatch(str(value))
    if match is None:
        return None
    scheme, chain, slashes, rest = match.groups()
    if scheme.lower() in EXTRAS:  # which fsspec knows in small letters alone
        scheme = scheme.lower()
    if len(slashes) == 1 and (chain or scheme).rpartition(":")[2].lower() not in _schemes():
        return None
    if scheme.lower() in ("file", "local") and not chain:
        return f"{scheme}:///{rest}"
    return f"{scheme}{chain}://{rest.strip('/')}"


def _schemes() -> list[str]:
    import fsspec

    return [*fsspec.available_protocols(), *EXTRAS]


def at(url: str) -> "Store":
    """The place of a URL; an error for a path on this machine."""
    known = url_of(url)
    if known is None:
        of_disk = f", or {Path(os.path.abspath(url)).as_uri()} for a disk"
        raise UsageError(
            f"`{url}` is not the URL of a store", f"write it as in s3://bucket/name{of_disk}"
        )
    return Store(known)


class Store:
    """A place in a store: the file or the folder at a URL."""

    def __init__(self, url: str, fs: Any = None, path: str | None = None) -> None:
        """An error if the URL names no store, or its package is not installed."""
        self.url, self.shown = url, escape.redacted(url)
        self._scheme = url.partition(":")[0].lower()
        if "::" in url:
            raise UsageError(
                f"`{self.shown}` chains file systems", "give the plain URL of the store"
            )
        if fs is None:
            fs, path = self._opened()
        self._fs, self._path = fs, str(path).rstrip("/")

    def _opened(self) -> tuple[Any, str]:
        import fsspec

        if self._scheme not in _schemes():
            raise UsageError(
                f"`{self.shown}` is in no store that fsspec knows",
                "write s3://BUCKET/..., gs://..., az://... or hf://...",
            )
        place = self.url.partition("://")[2].rstrip("/")
        if "/" not in place and self._scheme in EXTRAS:
            raise UsageError(
                f"`{self.shown}` is a bucket, not a place in it" if place
                else f"`{self.shown}` names no bucket",
                f"name a place, as in {self.shown if place else self._scheme + '://BUCKET'}/NAME",
            )  # fmt: skip
        if self._scheme in EXTRAS and (parts := {"", ".", ".."} & {*place.split("/")}):
            shorter = "/".join(part for part in place.split("/") if part not in parts)
            raise UsageError(
                f"`{self.shown}` has a part `{min(parts)}`, which stores and libraries read "
                "in different ways",
                f"name the place without it, as in {self._scheme}://{escape.redacted(shorter)}",
            )
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        for name, value in _GCSFS.items():
            os.environ.setdefault(name, value)
        with self.guarding("opened"):
            fs, path = fsspec.core.url_to_fs(self.url)
            with contextlib.suppress(AttributeError):
                fs.dircache.use_listings_cache = False
            if EXTRAS.get(self._scheme) == "azure":
                azure.prepare(fs)
        return fs, path

    @property
    def name(self) -> str:
        """The last part of its path, without a revision of the Hub."""
        return posixpath.basename(self._path).partition("@")[0] or "store"

    @property
    def threads(self) -> int:
        """How many files may go there or come from there at the same time."""
        is_shared = self._fs.async_impl or self._scheme in _SHARED
        return THREADS if is_shared else 1

    def require_files(self) -> None:
        """An error for what is written in commits, or not at all."""
        if self.is_page:
            raise UsageError(f"`{self.shown}` is only read from", "push to s3://, gs:// or az://")
        if self._scheme == "hf":
            raise UsageError(
                f"`{self.shown}` takes no files one by one",
                "upload to the Hub with `hf upload USER/NAME DIR`, or a policy with "
                "`rlvr convert POLICY --out model --push USER/NAME`",
            )

    @property
    def is_page(self) -> bool:
        """Whether it is a file of the web, which has no folders; its URL may end in a query."""
        return self._scheme in ("http", "https")

    def above(self) -> Iterator["Store"]:
        """The folders that contain it, the nearest first; none where the store has no folders."""
        url, path = self.url, self._path
        if self._scheme == "hf" or self.is_page:
            return
        while (outer := posixpath.dirname(path)) not in ("", "/", path) and "/" in path:
            url, path = posixpath.dirname(url), outer
            yield Store(url, self._fs, path)

    def read(self, name: str) -> bytes | None:
        """The bytes of a small file below it; None if there is none."""
        with self.guarding("read"):
            try:
                return bytes(self._fs.cat_file(f"{self._path}/{name}"))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
                refusals.require_absent(error)
                return None

    def write(self, name: str, data: bytes) -> None:
        with self.guarding("written"):
            self._make_folder(name)
            self._fs.pipe_file(f"{self._path}/{name}", data)

    def create(self, name: str, data: bytes) -> bool:
        """Writes a small file that is not there; False if it is.

        S3, Google Cloud and Azure have no file that came in this moment either.
        """
        if self.read(name) is not None:  # some do not know `mode`
            return False
        with self.guarding("written"):
            self._make_folder(name)
            try:
                self._fs.pipe_file(f"{self._path}/{name}", data, mode="create")
            except FileExistsError:
                return False
            except (NotImplementedError, TypeError):
                self._fs.pipe_file(f"{self._path}/{name}", data)
        return True

    def remove(self, name: str) -> None:
        with self.guarding("written"), contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(f"{self._path}/{name}")

    def put(self, source: Path, name: str) -> None:
        """Sends a file, in pieces; an empty name is that of the place itself."""
        pieces: dict[str, int] = {}
        if EXTRAS.get(self._scheme) in ("s3", "gcs"):  # which may have 10,000 of them
            pieces["chunksize"] = -(-max(_PIECE, source.stat().st_size // 9000) // _PIECE) * _PIECE
        if EXTRAS.get(self._scheme) == "azure":
            azure.widen(self._fs, source.stat().st_size)
        if EXTRAS.get(self._scheme) in ("s3", "azure"):  # each in memory
            pieces["max_concurrency"] = 2
        size = source.stat().st_size
        before = Store(self.url, self._fs, self._at(name)).file() if size > _PIECE else None
        try:
            with self.guarding("written"):
                self._make_folder(name)
                self._fs.put_file(str(source), self._at(name), **pieces)
        except UserError as error:
            # The reply that the pieces are now one file was lost, and a retry finds no pieces.
            if "upload does not exist" not in str(error):
                raise
            now = Store(self.url, self._fs, self._at(name)).file()
            if now is None or now == before or now.size != size:
                raise

    def get(self, name: str, target: Path) -> None:
        """Fetches a file; an empty name is that of the place itself.

        s3fs would hold half a GB of each large file in memory, and begins none again where it was;
        adlfs as much.
        """
        has_pieces = EXTRAS.get(self._scheme) in ("s3", "azure")
        streams = {"max_concurrency": 1} if has_pieces else {}
        with self.guarding("read"):
            self._fs.get_file(self._at(name), str(target), **streams)

    def file(self) -> FileInfo | None:
        """The file that this is; None of a folder and of nothing."""
        with self.guarding("read"):
            self._forget()
            try:
                info = self._fs.info(self._path)
            except (FileNotFoundError, NotADirectoryError) as error:
                refusals.require_absent(error, is_page=self.is_page)
                return None
        if info["type"] != "file":
            return None
        if self.is_page and info.get("mimetype") == "text/html":
            raise DataError(
                f"`{self.shown}` is a web page, not a file",
                "name the file itself; of the Hub as in hf://datasets/USER/NAME/FILE",
            )
        return _file_info(info)

    def files(self) -> dict[str, FileInfo]:
        """All files below it by their relative names; none where there is nothing."""
        with self.guarding("read"):
            self._forget()
            try:
                listed = self._fs.find(self._path, detail=True)
            except (FileNotFoundError, NotADirectoryError) as error:
                refusals.require_absent(error)
                return {}
        return {
            self._relative(name): _file_info(info)
            for name, info in listed.items()
            if info["type"] == "file" and not name.endswith("/") and name != self._path
        }

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}" if name else self._path

    def _relative(self, name: str) -> str:
        root = f"{self._path.lstrip('/')}/"
        if not name.lstrip("/").startswith(root):
            raise DataError(f"`{self.shown}` lists `{name}`, which is not below it", "name that")
        return name.lstrip("/").removeprefix(root)

    def _forget(self) -> None:
        self._fs.invalidate_cache()

    def _make_folder(self, name: str) -> None:
        """Makes the folder of a file where the store has such; buckets are never made."""
        if self._scheme not in EXTRAS:
            self._fs.makedirs(posixpath.dirname(self._at(name)), exist_ok=True)

    @contextlib.contextmanager
    def guarding(self, what: str) -> Iterator[None]:
        """Says in one line what a store refuses."""
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            disk.refuse(error)
            raise refusals.explained(error, self.url, what) from error


def _file_info(info: dict[str, Any]) -> FileInfo:
    known = [f"{name}={info[name]}" for name in _STATES if info.get(name) is not None]
    size = info.get("size")
    if size is None:
        raise DataError(
            f"the store does not say how long `{info['name']}` is", "fetch it otherwise"
        )
    return FileInfo(int(size), ";".join(known[:2]))
