"""The devices of this machine: their memory, and why torch cannot use a GPU that is there."""

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rlvr_cli.errors import UserError
from rlvr_cli.runtime import distributed

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Precision = Literal["auto", "float32", "bfloat16"]
Switch = Literal["auto", "true", "false"]
Attention = Literal["torch", "flash4"]  # of packed rows
_DRIVER = Path("/proc/driver/nvidia")
_GPUS = (_DRIVER, Path("/dev/dxg"), Path("/dev/kfd"))  # of CUDA, of Windows' Linux, of ROCm
_MEMORY = Path("/proc/meminfo")


@dataclass(frozen=True)
class Device:
    """A GPU (`cuda`) or the host (`cpu`), with its total and its available memory in bytes."""

    kind: str
    total: int
    free: int
    name: str = "this machine"

    def bytes_of(self, precision: str) -> int:
        """Bytes of a number in a precision; `auto` is bfloat16 on a GPU, float32 elsewhere."""
        half = precision == "bfloat16" or (precision == "auto" and self.kind == "cuda")
        return 2 if half else 4


def kind() -> str:
    """The kind of the device, cuda or cpu; does not start a GPU that others are to use.

    If the system has no device file of a GPU, torch is not imported, which would take seconds.
    """
    if not any(Path("/dev").glob("nvidia[0-9]*")) and not any(map(Path.exists, _GPUS)):
        return "cpu"
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def here() -> Device:
    """The device that this process computes on."""
    from rlvr_cli.runtime.later import torch

    if torch.cuda.is_available():
        return gpu(distributed.current().local_rank % torch.cuda.device_count())
    return host()


def torch_device() -> "torch.device":
    """The same device for torch; refuses the CPU where there is a GPU that torch cannot use."""
    import torch

    if not torch.cuda.is_available():
        check()
        return torch.device("cpu")
    return torch.device("cuda", distributed.current().local_rank % torch.cuda.device_count())


def moved(value: "Tensor", device: "torch.device") -> "Tensor":
    """A tensor of the host on a device; the host does not wait for what a GPU still computes."""
    if device.type == "cuda":
        return value.pin_memory().to(device, non_blocking=True)
    return value.to(device)


def capability() -> tuple[int, int]:
    """The compute capability of this process' GPU."""
    import torch

    return torch.cuda.get_device_capability(torch_device())


def gpu(index: int) -> Device:
    import torch

    free, total = torch.cuda.mem_get_info(index)
    return Device("cuda", total, free, f"GPU {index} ({torch.cuda.get_device_name(index)})")


def host(meminfo: Path = _MEMORY) -> Device:
    """The host; if the system does not report available memory, all of it counts as available."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if not meminfo.exists():
        return Device("cpu", total, total)
    kib = {
        line.partition(":")[0]: int(line.split()[1]) for line in meminfo.read_text().splitlines()
    }
    return Device("cpu", kib["MemTotal"] << 10, kib["MemAvailable"] << 10)


def free_unused() -> None:
    """Returns the GPU memory that torch caches."""
    import torch

    torch.cuda.empty_cache()


def check(trouble: "Unusable | None" = None) -> None:
    """Refuses to compute on the CPU silently if there is a GPU that torch cannot use."""
    if trouble := trouble or unusable():
        raise UserError(trouble.reason, trouble.hint)


@dataclass(frozen=True)
class Unusable:
    """Why torch cannot use a GPU of this machine, and what to do."""

    reason: str
    hint: str


def unusable(
    driver: Path = _DRIVER,
    *,
    built_for: str | None = None,
    supported: tuple[int, int] | None = None,
) -> Unusable | None:
    """What is wrong if the driver lists a GPU and torch, built for CUDA, sees none.

    Also None if CUDA_VISIBLE_DEVICES hides the GPUs, or torch was built for CPUs.
    """
    import torch

    built_for = built_for or torch.version.cuda
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] in ("", "-1", "NoDevFiles")
    if torch.cuda.is_available() or hidden or not built_for or not any(driver.glob("gpus/*")):
        return None
    version = driver_version(driver)
    supported = supported or _supported()
    needed = tuple(int(part) for part in built_for.split(".")[:2])
    start = f"this machine has a GPU that torch {torch.__version__} cannot use: "
    if supported and supported < (*needed[:1], 0):
        return Unusable(
            f"{start}driver {version} supports CUDA {supported[0]}.{supported[1]}, and it was "
            f"built for CUDA {built_for}",
            f"install a newer driver, or a torch built for CUDA {supported[0]}; "
            "`export CUDA_VISIBLE_DEVICES=` computes on the CPU",
        )
    return Unusable(
        f"{start}driver {version} does not start",
        "see what `nvidia-smi` says; `export CUDA_VISIBLE_DEVICES=` computes on the CPU",
    )


def driver_version(driver: Path = _DRIVER) -> str | None:
    """The version of NVIDIA's driver, None without one."""
    path = driver / "version"
    if not path.exists():
        return None
    words = path.read_text().split()
    return next((word for word in words if word.replace(".", "").isdecimal()), "unknown")


def _supported() -> tuple[int, int] | None:
    """The newest CUDA that the installed driver supports, None if the driver does not answer."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(version)):
        return None
    return version.value // 1000, version.value % 1000 // 10
