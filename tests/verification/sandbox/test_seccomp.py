"""The filter of system calls, interpreted as the kernel does, for every call of each machine.

system_calls.tsv holds the numbers of Linux 6.1: those of x86-64 from asm/unistd_64.h, those of
aarch64 from asm-generic/unistd.h as the headers for that machine include it.
"""

import csv
import errno
import os
import platform
import struct
from pathlib import Path

import pytest

from rlvr_cli.verification.sandbox import seccomp

ALLOWED, KILLED = 0x7FFF0000, 0x80000000
REFUSED, UNKNOWN = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
OTHER = {"x86_64": 0x40000003, "aarch64": 0x40000028}  # their 32-bit modes, i386 and arm
THREAD = 0x7D0F00  # the flags with which glibc starts a thread

# What acts on other processes, the machine, the network or the kernel, by what it is for.
REFUSED_CALLS = {
    "processes": "fork vfork execve execveat clone3 unshare setns personality ptrace kcmp"
    " process_vm_readv process_vm_writev process_madvise process_mrelease",
    "signals": "kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_getfd"
    " pidfd_send_signal",
    "priorities": "setpriority ioprio_set sched_setparam sched_setscheduler sched_setattr"
    " sched_setaffinity migrate_pages move_pages",
    "network": "socket socketpair connect accept accept4 bind listen sendto recvfrom sendmsg"
    " recvmsg sendmmsg recvmmsg",
    "shared memory": "shmget shmat shmctl semget msgget mq_open memfd_create memfd_secret",
    "files": "mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick"
    " mount_setattr name_to_handle_at open_by_handle_at fanotify_init quotactl quotactl_fd acct",
    "kernel": "io_uring_setup io_uring_enter io_uring_register bpf perf_event_open userfaultfd"
    " add_key request_key keyctl init_module finit_module delete_module kexec_load"
    " kexec_file_load reboot swapon swapoff sethostname setdomainname iopl ioperm",
}
ON_CONDITION = {"clone", "fcntl", "prlimit64"}


def numbers(machine):
    with open(Path(__file__).with_name("system_calls.tsv"), newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        return {row["name"]: int(row[machine]) for row in rows if row[machine]}


def answer(machine, number, *arguments, architecture=None):
    """What the filter of a machine says of a call: classic BPF over struct seccomp_data."""
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=iIQ6Q", number, architecture or ARCHITECTURE[machine], 0, *words)
    rules = list(struct.iter_unpack("=HBBI", seccomp.program(machine)))
    place = register = 0
    while True:
        code, if_true, if_false, value = rules[place]
        place += 1
        if code == 0x06:
            return value
        if code == 0x20:
            (register,) = struct.unpack_from("=I", data, value)
        else:
            holds = {
                0x15: register == value, 0x35: register >= value, 0x45: bool(register & value)
            }[code]  # fmt: skip
            place += if_true if holds else if_false


@pytest.fixture(params=sorted(ARCHITECTURE))
def machine(request):
    return request.param


def test_each_call_of_a_machine_is_refused_or_allowed_as_listed(machine):
    refused = set(" ".join(REFUSED_CALLS.values()).split())
    known = numbers(machine)
    if machine == "x86_64":
        assert refused | ON_CONDITION <= known.keys()
    answers = {name: answer(machine, n) for name, n in known.items() if name not in ON_CONDITION}
    wanted = {name: REFUSED if name in refused else ALLOWED for name in answers}
    assert answers == wanted | {"clone3": UNKNOWN}
    assert seccomp.calls(machine).keys() == (refused & known.keys()) | ON_CONDITION


def test_a_thread_is_no_process_and_a_limit_is_ones_own(machine):
    known = numbers(machine)
    cases = [
        ("clone", (THREAD,), ALLOWED), ("clone", (17,), REFUSED), ("clone", (0x4000,), REFUSED),
        ("prlimit64", (0, 7), ALLOWED), ("prlimit64", (1, 7), REFUSED),
    ]  # fmt: skip
    for name, arguments, wanted in cases:
        assert answer(machine, known[name], *arguments) == wanted, (name, arguments)


def test_no_file_signals_another_process(machine):
    """F_SETOWN is 8, F_SETSIG 10, F_SETOWN_EX 15; what stands above 32 bits the kernel ignores."""
    call = numbers(machine)["fcntl"]
    answers = {command: answer(machine, call, 3, command) for command in [*range(40), 1024, 1030]}
    assert {command for command, said in answers.items() if said == REFUSED} == {8, 10, 15}
    assert set(answers.values()) == {ALLOWED, REFUSED}
    assert answer(machine, call, 3, (1 << 32) + 8) == REFUSED


def test_calls_of_another_mode_end_the_process_and_later_ones_are_unknown(machine):
    assert answer(machine, 0, architecture=OTHER[machine]) == KILLED
    for number in (451, 462, 0x40000000, 0x4000003B, 0x7FFFFFFF):
        assert answer(machine, number) == UNKNOWN
    assert answer(machine, -1) == UNKNOWN


def test_the_filter_is_short_enough_for_the_kernel_and_each_jump_lands_in_it(machine):
    rules = list(struct.iter_unpack("=HBBI", seccomp.program(machine)))
    assert len(rules) <= 4096
    for place, (code, if_true, if_false, _) in enumerate(rules):
        assert code in (0x06, 0x20, 0x15, 0x35, 0x45)
        assert place + 1 + max(if_true, if_false) < len(rules) or code == 0x06


@pytest.mark.skipif(not seccomp.is_known(), reason="no filter for this machine")
def test_the_kernel_does_as_the_interpreter_says():
    """A child under the filter asks for two calls that do nothing but fail."""
    known = numbers(platform.machine())
    source, sink = os.pipe()
    if not os.fork():
        import ctypes

        seccomp.load()
        libc = ctypes.CDLL(None, use_errno=True)
        errors = []
        for number in (known["kill"], known["setns"], 451, known["getppid"]):
            libc.syscall(number, 0, 0)
            errors.append(ctypes.get_errno())
            ctypes.set_errno(0)
        os.write(sink, bytes(errors))
        os._exit(0)
    os.close(sink)
    with open(source, "rb") as file:
        assert list(file.read()) == [errno.EPERM, errno.EPERM, errno.ENOSYS, 0]
    os.wait()
