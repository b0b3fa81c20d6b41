"""A filter of system calls: no processes, no network, no signals to others, no mounts.

It runs inside the sandbox and imports the standard library alone.
"""

import ctypes
import errno
import platform
import struct

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _ARG0 = 0, 4, 16  # offsets in struct seccomp_data; the low word of an argument
_CLONE_THREAD = 0x00010000
_X32 = 0x40000000

_COMMON = {  # the same number everywhere
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431,
    "fsmount": 432, "fspick": 433, "pidfd_open": 434, "clone3": 435, "pidfd_getfd": 438,
    "process_madvise": 440, "mount_setattr": 442, "memfd_secret": 447,
}  # fmt: skip
_X86_64 = {
    "shmget": 29, "shmat": 30, "shmctl": 31, "socket": 41, "connect": 42, "accept": 43,
    "sendto": 44, "recvfrom": 45, "sendmsg": 46, "recvmsg": 47, "bind": 49, "listen": 50,
    "socketpair": 53, "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "semget": 64,
    "msgget": 68, "ptrace": 101, "personality": 135, "setpriority": 141, "sched_setparam": 142,
    "sched_setscheduler": 144, "pivot_root": 155, "chroot": 161, "acct": 163, "mount": 165,
    "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170,
    "setdomainname": 171, "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176,
    "quotactl": 179, "tkill": 200, "sched_setaffinity": 203, "tgkill": 234, "mq_open": 240,
    "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272,
    "accept4": 288, "perf_event_open": 298, "recvmmsg": 299, "fanotify_init": 300, "prlimit64": 302,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "sendmmsg": 307, "setns": 308,
    "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "finit_module": 313,
    "memfd_create": 319, "kexec_file_load": 320, "bpf": 321, "execveat": 322, "userfaultfd": 323,
}  # fmt: skip
_AARCH64 = {
    "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "quotactl": 60, "acct": 89,
    "personality": 92, "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106,
    "ptrace": 117, "sched_setparam": 118, "sched_setscheduler": 119, "sched_setaffinity": 122,
    "kill": 129, "tkill": 130, "tgkill": 131, "setpriority": 140, "reboot": 142, "sethostname": 161,
    "setdomainname": 162, "mq_open": 180, "msgget": 186, "semget": 190, "shmget": 194,
    "shmctl": 195, "shmat": 196, "socket": 198, "socketpair": 199, "bind": 200, "listen": 201,
    "accept": 202, "connect": 203, "sendto": 206, "recvfrom": 207, "sendmsg": 211, "recvmsg": 212,
    "add_key": 217, "request_key": 218, "keyctl": 219, "clone": 220, "execve": 221, "swapon": 224,
    "swapoff": 225, "perf_event_open": 241, "accept4": 242, "recvmmsg": 243, "prlimit64": 261,
    "fanotify_init": 262, "name_to_handle_at": 264, "open_by_handle_at": 265, "setns": 268,
    "sendmmsg": 269, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
    "finit_module": 273, "memfd_create": 279, "bpf": 280, "execveat": 281, "userfaultfd": 282,
    "kexec_file_load": 294,
}  # fmt: skip
_MACHINES = {"x86_64": (0xC000003E, _X86_64), "aarch64": (0xC00000B7, _AARCH64)}


def is_known() -> bool:
    """Whether there is a filter for this machine."""
    return platform.machine() in _MACHINES


def program() -> bytes:
    """The filter, as the kernel takes it; refused calls return EPERM, clone3 as if unknown."""
    arch, calls = _MACHINES[platform.machine()]
    rules = [_op(_LOAD, _ARCH), _op(_EQUAL, arch, 1, 0), _op(_RETURN, _KILL), _op(_LOAD, _NUMBER)]
    rules += [_op(_AT_LEAST, _X32, 0, 1), _op(_RETURN, _ERROR | errno.EPERM)]
    for name, number in {**calls, **_COMMON}.items():
        if name == "clone":  # a thread is no process
            rules += [_op(_EQUAL, number, 0, 4), _op(_LOAD, _ARG0)]
            rules += [_op(_ANY_BIT, _CLONE_THREAD, 1, 0), _op(_RETURN, _ERROR | errno.EPERM)]
            rules += [_op(_RETURN, _ALLOW)]
        elif name == "prlimit64":  # of this process alone
            rules += [_op(_EQUAL, number, 0, 4), _op(_LOAD, _ARG0)]
            rules += [_op(_EQUAL, 0, 1, 0), _op(_RETURN, _ERROR | errno.EPERM)]
            rules += [_op(_RETURN, _ALLOW)]
        else:
            code = errno.ENOSYS if name == "clone3" else errno.EPERM
            rules += [_op(_EQUAL, number, 0, 1), _op(_RETURN, _ERROR | code)]
    return b"".join([*rules, _op(_RETURN, _ALLOW)])


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def load() -> None:
    """Puts the filter on this process and all that it starts; it cannot be taken off."""
    rules = program()
    buffer = ctypes.create_string_buffer(rules, len(rules))

    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("rules", ctypes.c_void_p)]

    whole = Filter(len(rules) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for option, value, more in ((38, 1, 0), (22, 2, ctypes.addressof(whole))):
        # PR_SET_NO_NEW_PRIVS, then PR_SET_SECCOMP with SECCOMP_MODE_FILTER
        if libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(more), 0, 0):
            raise OSError(ctypes.get_errno(), "the kernel refuses a filter of system calls")
