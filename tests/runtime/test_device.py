"""What the machine says of its card and its memory; the driver's files are made up."""

import pytest
import torch

from rlvr_cli.engines.rollout import _vllm_install
from rlvr_cli.errors import UsageError, UserError
from rlvr_cli.runtime import device

VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.57.02  Tue Jul 13 16:14:05 UTC 2021"


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """A driver that lists one card, on a machine where torch finds none."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "gpus" / "0000:01:00.0").mkdir(parents=True)
    (tmp_path / "version").write_text(VERSION)
    return tmp_path


def test_a_driver_too_old_for_the_installed_torch_is_said(driver):
    actual = device.unusable(driver, built_for="13.0", supported=(11, 4))
    assert "driver 470.57.02 supports CUDA 11.4" in actual.reason
    assert "built for CUDA 13.0" in actual.reason and "newer driver" in actual.hint
    with pytest.raises(UserError, match=r"470\.57\.02"):
        device.check(actual)


def test_a_driver_that_does_not_start_is_said(driver):
    actual = device.unusable(driver, built_for="13.0", supported=(13, 1))
    assert "470.57.02 does not start" in actual.reason and "nvidia-smi" in actual.hint
    assert device.unusable(driver, built_for="12.8", supported=(12, 4)).reason == actual.reason


@pytest.mark.parametrize("hidden", ["", "-1"])
def test_cards_that_are_hidden_are_not_missed(driver, monkeypatch, hidden):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", hidden)
    assert device.unusable(driver, built_for="13.0", supported=(11, 4)) is None


def test_without_a_card_or_with_a_torch_for_cpus_nothing_is_wrong(driver, tmp_path, monkeypatch):
    assert device.unusable(tmp_path / "none", built_for="13.0", supported=(11, 4)) is None
    monkeypatch.setattr(torch.version, "cuda", None)
    assert device.unusable(driver) is None


def test_the_hosts_memory_is_what_the_kernel_says_is_available(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 2048 kB\nMemFree: 10 kB\nMemAvailable: 1024 kB\n")
    assert device.host(tmp_path / "meminfo") == device.Device("cpu", 2048 << 10, 1024 << 10)


@pytest.mark.parametrize(
    ("version", "has_gpu", "found"),
    [
        ("0.32.0", False, "built for GPUs, and there is none"),
        ("0.32.0+cpu", True, "computes on the CPU"),
        ("0.32.0", True, None),
        ("0.32.0+cpu", False, None),
    ],
)
def test_a_build_of_vllm_for_another_machine_is_refused(version, has_gpu, found):
    if found is None:
        return _vllm_install.check_build(version, has_gpu=has_gpu)
    with pytest.raises(UsageError, match=found):
        _vllm_install.check_build(version, has_gpu=has_gpu)


@pytest.mark.parametrize(
    ("capability", "found"),
    [(None, "there is none"), ((8, 0), r"this one has 8\.0"), ((8, 9), None), ((9, 0), None)],
)
def test_fp8_is_refused_where_no_gpu_computes_in_it(capability, found):
    if found is None:
        return _vllm_install.check_fp8(capability)
    with pytest.raises(UsageError, match=found):
        _vllm_install.check_fp8(capability)
