"""Reads and writes tensors as safetensors: an 8-byte little-endian length, a JSON header, the data.

A path that ends in .xz is a compressed file."""

import json
import lzma
import struct

import torch

DTYPES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.bool: "BOOL",
}


def open_file(path, mode):
    if not path.endswith(".xz"):
        return open(path, mode)
    preset = 9 | lzma.PRESET_EXTREME if "w" in mode else None
    return lzma.open(path, mode, preset=preset)


def read(path):
    """name -> tensor, in the file's order."""
    with open_file(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    dtypes = {name: dtype for dtype, name in DTYPES.items()}
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        block = bytearray(data[begin:end])
        flat = torch.frombuffer(block, dtype=dtypes[entry["dtype"]]) if block else torch.empty(
            0, dtype=dtypes[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def write(path, tensors):
    """tensors: name -> tensor, written in that order. The same tensors give the same bytes."""
    header = {}
    blocks = []
    offset = 0
    for name, tensor in tensors.items():
        data = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        blocks.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open_file(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for block in blocks:
            file.write(block)
