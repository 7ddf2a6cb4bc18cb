#!/usr/bin/python3
"""Writes golden data for the functions of devices/kernels/elementwise/functions.h as C, for cases
of kernels.

    function_values.py pointwise.safetensors > function_values.h

A function's cases are those whose option is its name and has no numbers; they are put end to end.
"""
import array
import json
import struct
import sys

sys.dont_write_bytecode = True


def read(path):
    """name -> values, of float64"""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        if tensor["dtype"] == "F64":
            tensors[name] = array.array("d", data[begin:end])
    return tensors


def functions_in(tensors):
    """function -> x, y, d_y, d_x"""
    functions = {}
    for name, numbers in tensors.items():
        case, _, option = name.partition("/option.")
        if not option or numbers:
            continue
        x, y, target, d_x = (tensors["%s/%s" % (case, part)] for part in
                             ("parameter.x", "output.y", "target.y", "gradient.x"))
        d_y = [2 * (got - wanted) for got, wanted in zip(y, target)]
        values = functions.setdefault(option, ([], [], [], []))
        for all_values, more in zip(values, (x, y, d_y, d_x)):
            all_values.extend(more)
    return functions


def main():
    functions = functions_in(read(sys.argv[1]))
    for name, values in functions.items():
        for part, numbers in zip(("x", "y", "d_y", "d_x"), values):
            print("static const double %s_%s[] = {" % (name, part))
            print("".join("    %s,\n" % number.hex() for number in numbers) + "};")
    print("static const function_values all_values[] = {")
    for name, values in functions.items():
        parts = ", ".join("%s_%s" % (name, part) for part in ("x", "y", "d_y", "d_x"))
        print('    {"%s", %d, {%s}},' % (name, len(values[0]), parts))
    print("};")


if __name__ == "__main__":
    main()
