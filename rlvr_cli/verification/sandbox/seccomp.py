"""A filter of system calls: no processes, no network, no signals to others, no mounts.

Calls newer than Linux 6.1 are answered as an older kernel would, as nobody has reviewed them. It
runs inside the sandbox and imports only the standard library.
"""

import ctypes
import errno
import functools
import platform
import struct

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, (16, 24)  # offsets in struct seccomp_data; low words
_REFUSE, _UNKNOWN = _ERROR | errno.EPERM, _ERROR | errno.ENOSYS
_NEWEST = 450  # of Linux 6.1; the 32-bit calls of x86-64 are above it too

_COMMON = {  # the same number everywhere
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431,
    "fsmount": 432, "fspick": 433, "pidfd_open": 434, "clone3": 435, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447,
    "process_mrelease": 448,
}  # fmt: skip
_X86_64 = {
    "shmget": 29, "shmat": 30, "shmctl": 31, "socket": 41, "connect": 42, "accept": 43,
    "sendto": 44, "recvfrom": 45, "sendmsg": 46, "recvmsg": 47, "bind": 49, "listen": 50,
    "socketpair": 53, "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "semget": 64,
    "msgget": 68, "fcntl": 72, "ptrace": 101, "rt_sigqueueinfo": 129, "personality": 135,
    "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144, "pivot_root": 155,
    "chroot": 161, "acct": 163, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168,
    "reboot": 169, "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173,
    "init_module": 175, "delete_module": 176, "quotactl": 179, "tkill": 200,
    "sched_setaffinity": 203, "tgkill": 234, "mq_open": 240, "kexec_load": 246, "add_key": 248,
    "request_key": 249, "keyctl": 250, "ioprio_set": 251, "migrate_pages": 256, "unshare": 272,
    "move_pages": 279, "accept4": 288, "rt_tgsigqueueinfo": 297, "perf_event_open": 298,
    "recvmmsg": 299, "fanotify_init": 300, "prlimit64": 302, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "sendmmsg": 307, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "sched_setattr": 314,
    "memfd_create": 319, "kexec_file_load": 320, "bpf": 321, "execveat": 322, "userfaultfd": 323,
}  # fmt: skip
_AARCH64 = {
    "fcntl": 25, "ioprio_set": 30, "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51,
    "quotactl": 60, "acct": 89, "personality": 92, "unshare": 97, "kexec_load": 104,
    "init_module": 105, "delete_module": 106, "ptrace": 117, "sched_setparam": 118,
    "sched_setscheduler": 119, "sched_setaffinity": 122, "kill": 129, "tkill": 130, "tgkill": 131,
    "rt_sigqueueinfo": 138, "setpriority": 140, "reboot": 142, "sethostname": 161,
    "setdomainname": 162, "mq_open": 180, "msgget": 186, "semget": 190, "shmget": 194,
    "shmctl": 195, "shmat": 196, "socket": 198, "socketpair": 199, "bind": 200, "listen": 201,
    "accept": 202, "connect": 203, "sendto": 206, "recvfrom": 207, "sendmsg": 211, "recvmsg": 212,
    "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220, "execve": 221, "swapon": 224,
    "swapoff": 225, "migrate_pages": 238, "move_pages": 239, "rt_tgsigqueueinfo": 240,
    "perf_event_open": 241, "accept4": 242, "recvmmsg": 243, "prlimit64": 261, "fanotify_init": 262,
    "name_to_handle_at": 264, "open_by_handle_at": 265, "setns": 268, "sendmmsg": 269,
    "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273,
    "sched_setattr": 274, "memfd_create": 279, "bpf": 280, "execveat": 281, "userfaultfd": 282,
    "kexec_file_load": 294,
}  # fmt: skip
_MACHINES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}
_CONDITIONS = {  # an argument's number, how it is compared and with what, and whether that allows
    "clone": (0, _ANY_BIT, (0x00010000,), True),  # CLONE_THREAD: a thread is no process
    "fcntl": (1, _EQUAL, (8, 10, 15), False),  # F_SETOWN, F_SETSIG, F_SETOWN_EX: signals to others
    "prlimit64": (0, _EQUAL, (0,), True),  # of this process
}


def is_known() -> bool:
    """Whether there is a filter for this machine."""
    return platform.machine() in _MACHINES


def calls(machine: str) -> dict[str, int]:
    """The numbers of the calls that are refused, or allowed on a condition, on a machine."""
    return {**_MACHINES[machine][1], **_COMMON}


def program(machine: str) -> bytes:
    """The filter, as the kernel takes it; refused calls return EPERM, unknown ones ENOSYS."""
    rules = [_op(_LOAD, _ARCH), _op(_EQUAL, _MACHINES[machine][0], 1, 0), _op(_RETURN, _KILL)]
    rules += [_op(_LOAD, _NUMBER), _op(_AT_LEAST, _NEWEST + 1, 0, 1), _op(_RETURN, _UNKNOWN)]
    for name, number in calls(machine).items():
        if name in _CONDITIONS:
            rules += _on_argument(number, *_CONDITIONS[name])
        else:  # without clone3, whose flags no filter sees, the C library takes clone
            action = _UNKNOWN if name == "clone3" else _REFUSE
            rules += [_op(_EQUAL, number, 0, 1), _op(_RETURN, action)]
    return b"".join([*rules, _op(_RETURN, _ALLOW)])


def _on_argument(
    number: int, argument: int, how: int, values: tuple[int, ...], allows: bool
) -> list[bytes]:
    """The rules of a call that one of its arguments allows or refuses."""
    count = len(values)
    rules = [_op(_EQUAL, number, 0, count + 3), _op(_LOAD, _ARGUMENTS[argument])]
    rules += [_op(how, value, count - place, 0) for place, value in enumerate(values)]
    results = (_REFUSE, _ALLOW) if allows else (_ALLOW, _REFUSE)
    return rules + [_op(_RETURN, result) for result in results]


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


@functools.cache
def _prepared() -> tuple[ctypes.CDLL, ctypes.Structure, ctypes.Array[ctypes.c_char]]:
    """The C library, and the filter of this machine as it takes it, with the rules it points to."""
    rules = program(platform.machine())
    buffer = ctypes.create_string_buffer(rules, len(rules))

    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("rules", ctypes.c_void_p)]

    filter_program = Filter(len(rules) // 8, ctypes.addressof(buffer))
    return ctypes.CDLL(None, use_errno=True), filter_program, buffer


def prepare() -> None:
    """Does once what `load` needs, so that no fork has to."""
    _prepared()


def load() -> None:
    """Puts the filter on this process and all that it starts; it cannot be taken off."""
    libc, filter_program, _ = _prepared()
    for option, value, more in ((38, 1, 0), (22, 2, ctypes.addressof(filter_program))):
        # PR_SET_NO_NEW_PRIVS, then PR_SET_SECCOMP with SECCOMP_MODE_FILTER
        if libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(more), 0, 0):
            raise OSError(ctypes.get_errno(), "the kernel refuses a filter of system calls")
