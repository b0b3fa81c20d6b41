"""What the kernel knows of this machine's network: its addresses, and which of them leads where."""

import contextlib
import fcntl
import socket
import struct
import sys
from array import array
from ipaddress import ip_address
from pathlib import Path

_SIOCGIFCONF = 0x8912
# Of 64-bit Linux: the name of an interface and its address; the length and place of a list of them.
_IFREQ, _IFCONF = struct.Struct("16s16s8x"), struct.Struct("iP")


def interfaces() -> dict[str, str]:
    """The interface of each address of this machine; empty where the system is not Linux."""
    if sys.platform != "linux":
        return {}
    space = array("B", bytes(_IFREQ.size * 1024))
    address, length = space.buffer_info()
    request = bytearray(_IFCONF.pack(length, address))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(probe, _SIOCGIFCONF, request)
    length, _ = _IFCONF.unpack(request)
    interface_of = {
        socket.inet_ntoa(place[4:8]): name.rstrip(b"\0").decode()
        for name, place in _IFREQ.iter_unpack(space.tobytes()[:length])
    }
    with contextlib.suppress(OSError):  # without IPv6
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            digits, *_, interface = line.split()
            interface_of[str(ip_address(bytes.fromhex(digits)))] = interface
    return interface_of


def is_own(host: str) -> bool:
    """Whether a name or address is one of this machine's."""
    for family, kind, _, _, place in _resolved(host, 0):
        with contextlib.suppress(OSError), socket.socket(family, kind) as probe:
            probe.bind(place)
            return True
    return False


def source(host: str, port: int) -> str | None:
    """The address from which this machine speaks to another; nothing is sent.

    None if that is a loopback address, no route leads there or it has no address.
    """
    for family, kind, _, _, place in _resolved(host, port):
        with contextlib.suppress(OSError), socket.socket(family, kind) as probe:
            probe.connect(place)
            own = str(probe.getsockname()[0]).partition("%")[0]
            if not ip_address(own).is_loopback:
                return own
    return None


def _resolved(host: str, port: int) -> list[tuple]:  # type: ignore[type-arg]
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return []


def unknown(host: str) -> str | None:
    """Why a name is that of no host; None where it is known, or where nobody can say now."""
    try:
        socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return None if error.errno == socket.EAI_AGAIN else str(error.strerror)
    except UnicodeError as error:
        return str(error.__cause__ or error)
    return None


def default_source() -> str | None:
    """The address from which this machine speaks to the world, or else its only one."""
    if own := source("192.0.2.1", 1) or source("2001:db8::1", 1):  # of documentation
        return own
    known = [address for address in interfaces() if not ip_address(address).is_loopback]
    return known[0] if len({*interfaces().values()} - {"lo"}) == 1 else None
