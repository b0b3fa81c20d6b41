"""A process in namespaces of its own: users, mounts, processes, network, IPC and host name.

Its root is an empty tmpfs with the interpreter and the system's libraries, read-only. It runs
inside the sandbox and imports only the standard library.
"""

import ctypes
import functools
import os
import platform
from collections.abc import Iterable

_NEW = {"NS": 0x00020000, "UTS": 0x04000000, "IPC": 0x08000000, "USER": 0x10000000,
        "PID": 0x20000000, "NET": 0x40000000}  # fmt: skip
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND = 1, 2, 4, 8, 32, 4096
_REC, _PRIVATE = 16384, 1 << 18
_KEPT = {2: 2, 4: 4, 8: 8, 1024: 1024, 2048: 2048, 4096: 1 << 21}  # statvfs flags as mount flags
_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_TMP_FILES = 4096  # at most, in one /tmp
DEVICES = ("null", "zero", "urandom")
_OLD = "/old"
_CAPABILITIES = (ctypes.c_uint32 * 2)(0x20080522, 0)  # capset's header: its version 3, this process
_NOTHING = (ctypes.c_uint32 * 6)()


def enter(folders: Iterable[str]) -> None:
    """Leaves the machine but for `folders`, read-only, and a place for /tmp.

    On return this is the first process of its namespace: all in it die with it. The process that
    called waits for it and ends with its exit code.
    """
    libc = _libc()
    user, group = os.getuid(), os.getgid()
    _must(libc.unshare(sum(_NEW.values())), "unshare")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"0 {user} 1")
    _write("/proc/self/gid_map", f"0 {group} 1")
    _mount(libc, None, "/", None, _REC | _PRIVATE)
    _mount(libc, "tmpfs", "/tmp", "tmpfs", _NOSUID | _NODEV, "size=1m,mode=755")
    os.mkdir(f"/tmp{_OLD}")
    _pivot(libc, "/tmp", f"/tmp{_OLD}")
    os.chdir("/")
    for folder in folders:
        _show(libc, folder)
    os.makedirs("/dev", exist_ok=True)
    for name in DEVICES:
        os.close(os.open(f"/dev/{name}", os.O_CREAT))
        _mount(libc, f"{_OLD}/dev/{name}", f"/dev/{name}", None, _BIND)
    _must(libc.umount2(_OLD.encode(), _DETACH), "umount2")
    os.rmdir(_OLD)
    os.makedirs("/tmp", exist_ok=True)
    _fork_into(libc)


def make_read_only() -> None:
    """Leaves /tmp as the only place to write to, and keeps the devices' modes as they are."""
    libc = _libc()
    os.chdir("/")
    flags = _REMOUNT | _BIND | _RDONLY | _NOSUID
    for name in DEVICES:
        _mount(libc, None, f"/dev/{name}", None, flags | _NOEXEC)
    for folder in ("/dev", "/"):
        if os.path.ismount(folder):
            _mount(libc, None, folder, None, flags | _NODEV)


def renew_tmp(size_bytes: int) -> None:
    """An empty /tmp in memory, in place of the one there was."""
    libc = _libc()
    libc.umount2(b"/tmp", _DETACH)
    data = f"size={size_bytes},nr_inodes={_TMP_FILES},mode=755"
    _mount(libc, "tmpfs", "/tmp", "tmpfs", _NOSUID | _NODEV, data)


def _show(libc: ctypes.CDLL, folder: str) -> None:
    """Binds a folder or file of the machine read-only at its place; a link is recreated."""
    source = _OLD + folder
    if os.path.islink(source):
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        os.symlink(os.readlink(source), folder)
    elif os.path.exists(source) and not os.path.exists(folder):
        os.makedirs(folder if os.path.isdir(source) else os.path.dirname(folder), exist_ok=True)
        if not os.path.isdir(source):
            os.close(os.open(folder, os.O_CREAT))
        _mount(libc, source, folder, None, _BIND | _REC)
        source_flags = sum(flag for bit, flag in _KEPT.items() if os.statvfs(folder).f_flag & bit)
        flags = _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV | source_flags
        _mount(libc, None, folder, None, flags)


def _fork_into(libc: ctypes.CDLL) -> None:
    """Continues as the first process of the new namespace; its parent ends when it does."""
    pid = os.fork()
    if pid:
        os.closerange(0, 64)
        _, status = os.waitpid(pid, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    die_with_parent()
    os.setsid()


def die_with_parent() -> None:
    """Has the kernel kill this process when the one that forked it dies."""
    _libc().prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG: SIGKILL


def adopt_orphans() -> None:
    """Makes this process the parent of any descendant whose own parent dies."""
    _libc().prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def hide() -> None:
    """Keeps other and forked processes from reading or writing this process's memory."""
    _libc().prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE


def bound_capabilities() -> None:
    """No process of this one's, whatever it executes, gets a capability that it has not."""
    for capability in range(64):
        _libc().prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP; above the last it only fails


def drop_capabilities() -> None:
    """Gives up what the user namespace gave; nothing that is started later gets it back."""
    _libc().capset(_CAPABILITIES, _NOTHING)
    _libc().prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mount(
    libc: ctypes.CDLL, source: str | None, target: str, kind: str | None, flags: int, data: str = ""
) -> None:
    words = [None if word is None else word.encode() for word in (source, target, kind)]
    _must(libc.mount(*words, ctypes.c_ulong(flags), data.encode()), f"mount {target}")


def _pivot(libc: ctypes.CDLL, root: str, old: str) -> None:
    number = _PIVOT_ROOT[platform.machine()]
    _must(libc.syscall(number, root.encode(), old.encode()), "pivot_root")


def _must(result: int, what: str) -> None:
    if result:
        raise OSError(ctypes.get_errno(), f"the kernel refuses {what}")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
