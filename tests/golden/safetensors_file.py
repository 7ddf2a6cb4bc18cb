"""Writes tensors as safetensors: an 8-byte little-endian length, a JSON header, the data."""

import json
import struct

import torch

DTYPES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.bool: "BOOL",
}


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
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for block in blocks:
            file.write(block)
