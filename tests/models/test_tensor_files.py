"""Safetensors files that are written several at a time."""

import hashlib

import pytest
import torch
from safetensors.torch import load_file, save_file

from rlvr_cli.models import file_digests, tensor_files

DTYPES = [*tensor_files._DTYPES, torch.float8_e4m3fn, torch.complex64]


def some(dtype, *shape):
    return (torch.randn(*shape) * 100).to(dtype)


@pytest.fixture
def tensors():
    weights = {f'layer.{n}.é"': some(dtype, 3, n + 1) for n, dtype in enumerate(DTYPES)}
    return weights | {
        "transposed": torch.randn(5, 7).T,
        "step": torch.tensor(3.0),
        "empty": torch.empty(0, 4),
        "half of a larger one": torch.randn(10)[::2],
    }


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
@pytest.mark.parametrize("known", [True, False])
def test_the_bytes_are_those_of_safetensors_own_writer(tensors, tmp_path, metadata, known):
    chosen = {n: t for n, t in tensors.items() if not known or t.dtype in tensor_files._DTYPES}
    plain = {name: tensor.contiguous().clone() for name, tensor in chosen.items()}
    save_file(plain, tmp_path / "theirs", metadata)
    tensor_files.write(chosen if known else plain, tmp_path / "ours", metadata)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_tensors_larger_than_a_block_are_written_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(tensor_files, "_CHUNK", 64)
    tensors = {"a": torch.randn(1000), "b": torch.randint(0, 9, (333,), dtype=torch.uint8)}
    tensor_files.write(tensors, tmp_path / "a.safetensors")
    read = load_file(tmp_path / "a.safetensors")
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


def test_a_copy_on_the_host_shares_nothing(monkeypatch):
    monkeypatch.setattr(tensor_files, "_CHUNK", 64)
    for tensor in (torch.randn(7, 50).T, torch.tensor(3.0), torch.empty(0, 4)):
        copy = tensor_files.on_host(tensor)
        assert torch.equal(copy, tensor)
        tensor.add_(1)
        assert tensor.numel() == 0 or not torch.equal(copy, tensor)


def test_several_files_are_complete_at_the_end(tmp_path):
    with tensor_files.saving() as save:
        for number in range(20):
            save({"w": torch.full((1000,), float(number))}, tmp_path / f"{number}", None)
    for number in range(20):
        assert load_file(tmp_path / f"{number}")["w"].unique().tolist() == [number]


def test_a_file_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), tensor_files.saving() as save:
        save({"w": torch.zeros(3)}, tmp_path / "absent" / "file", None)


def test_many_tensors_are_split_into_files_of_a_size(tmp_path, monkeypatch):
    monkeypatch.setattr(tensor_files, "FILE_SIZE", 1200)
    tensors = {f"exp_avg.{n}": torch.randn(100) for n in range(10)}
    place = tmp_path / "adamw.safetensors"
    with tensor_files.saving() as save:
        tensor_files.write_split(save, tensors, place)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == [
        f"adamw-{n:05d}-of-00004.safetensors" for n in range(1, 5)
    ]
    read = {name: tensor for file in files for name, tensor in load_file(file).items()}
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensor) for name, tensor in tensors.items())


def test_few_tensors_stay_one_file(tmp_path):
    place = tmp_path / "adamw.safetensors"
    with tensor_files.saving() as save:
        tensor_files.write_split(save, {"exp_avg.w": torch.randn(100)}, place)
    assert [file.name for file in tmp_path.iterdir()] == [place.name]


def test_the_digest_of_what_was_written_is_at_hand_until_the_file_changes(tmp_path, monkeypatch):
    path = tmp_path / "_tmp" / "w.safetensors"
    path.parent.mkdir()
    tensor_files.write({"w": torch.zeros(file_digests.REMEMBERED // 4)}, path)
    path = path.parent.rename(tmp_path / "whole") / path.name
    true = hashlib.sha256(path.read_bytes()).hexdigest()
    with monkeypatch.context() as patched:
        patched.setattr(hashlib, "file_digest", None)  # nothing is read again
        assert file_digests.sha256_of([path]) == [true]
    with open(path, "r+b") as file:
        file.seek(1000)
        file.write(b"x")
    changed = hashlib.sha256(path.read_bytes()).hexdigest()
    assert file_digests.sha256_of([path]) == [changed] != [true]
