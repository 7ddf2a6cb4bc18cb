#!/usr/bin/python3
"""Writes C that calls every function of the public headers with little or nothing.

    list_calls.py HEADER... > public_calls.inc

HEADERs are files of the tree; those that tandem.h leads to are read. For each prototype there is a
function that calls it in one of the ways of null_calls.h, and a row of a table.
"""
import re
import sys

OBJECTS = {
    "tdm_context": "context", "tdm_graph": "graph", "tdm_session": "session", "tdm_store": "store",
    "tdm_tensor": "tensor", "tdm_tensor_list": "list", "tdm_costs": "costs",
    "tdm_loader": "loader", "tdm_dataset": "dataset", "tdm_sequence": "sequence",
}
# Variables for pointers to these types: one result, or several.
ANSWERS = {"uint64_t", "size_t", "int64_t", "uint32_t", "double", "bool", "tdm_value", "tdm_shape",
           "tdm_traffic", "tdm_memory_use"}
NUMBERS = {"int", "size_t", "int64_t", "uint64_t", "uint32_t", "tdm_dim", "bool"}
RELEASE = {  # for the results of calls, or for retained objects
    name: name + "_release" for name in
    ("tdm_context", "tdm_graph", "tdm_session", "tdm_store", "tdm_tensor", "tdm_tensor_list",
     "tdm_dataset", "tdm_loader", "tdm_costs", "tdm_sequence")
}
PROTOTYPE = re.compile(r"^TDM_API\s+([\w\s]+?[\s*]+)(tdm_\w+)\s*\(([^;]*?)\)\s*"
                       r"(?:TDM_WARN_UNUSED|TDM_PRINTF\(\d, \d\))?\s*;", re.M)


def find(paths, name):
    return next(path for path in paths if path == name or path.endswith("/" + name))


def read_prototypes(paths):
    seen, left, found = set(), ["tandem.h"], []
    while left:
        name = left.pop(0)
        if name in seen:
            continue
        seen.add(name)
        with open(find(paths, name), encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
        left += re.findall(r'#include "tandem/([^"]+)"', text)
        found += [(match[1].strip(), match[2], split_parameters(match[3]))
                  for match in PROTOTYPE.finditer(text)]
        if len(re.findall(r"^TDM_API\b", text, re.M)) != len(PROTOTYPE.findall(text)):
            sys.exit(f"{name}: a prototype that this program does not understand")
    return found


def split_parameters(text):
    """The types, without names; nested parentheses stay together."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
    parts.append(text[begin:])
    return [type_of(" ".join(part.split())) for part in parts if part.strip() != "void"]


def type_of(parameter):
    if "(*" in parameter or "[" in parameter:
        return "pointer *"
    if parameter == "...":
        return parameter
    return re.sub(r"\b\w+$", "", parameter).strip()


def argument(kind, place):
    """The expression for the parameter at a place, by the macros of null_calls.h."""
    plain = re.sub(r"\bconst\b", "", kind).split("*")[0].strip()
    if kind == "const char *":
        return f"TEXT({place})"
    if kind.count("*") == 1 and plain in OBJECTS:
        return f"OBJECT({OBJECTS[plain]}, {place})"
    if kind.count("*") == 1 and plain in ANSWERS and "const" not in kind:
        return f"ANSWER({place})"
    if "*" in kind or kind == "tdm_run_callback" or kind == "tdm_rate_schedule_factor":
        return "NULL"
    if kind in NUMBERS:
        return "NUMBER"
    if kind == "double":
        return "REAL"
    if kind == "tdm_value":
        return "VALUE"
    if kind == "tdm_shape":
        return "SHAPE"
    if kind == "tdm_dtype":
        return "DTYPE"
    return f"({kind}){{0}}"


def given_places(parameters):
    """Returns the positions, as bits, of arguments that calls may omit one by one; 0: there is at
    most one."""
    bits = [1 << place for place, kind in enumerate(parameters)
            if argument(kind, place).startswith(("OBJECT", "TEXT", "ANSWER"))]
    return sum(bits) if len(bits) > 1 else 0


def judge(answer, name):
    plain = answer.replace("const", "").replace("*", "").strip()
    if answer == "tdm_status":
        return "judge_status(&given, {})"
    if answer == "tdm_value":
        return "judge_value(&given, {})"
    if answer.endswith("*") and plain in RELEASE and not answer.startswith("const"):
        owned = not name.endswith(BORROWED)
        release = RELEASE[plain] if owned else ""
        then = f"); {release}((void *)given.answer)" if owned else ")"
        return "judge_pointer(&given, {}" + then
    return "(void){}"


def released(name, parameters):
    """Returns the member of givens that a call releases, or ""."""
    plain = parameters[0].replace("const", "").replace("*", "").strip() if parameters else ""
    return OBJECTS.get(plain, "") if name.endswith("_release") else ""


BORROWED = ("_session_store", "_session_context", "_graph_context", "_list_tensor", "_list_find",
            "_gradient_graph", "_chunked_graph", "_update_graph")


def main():
    rows = []
    prototypes = read_prototypes(sys.argv[1:])
    names = {name for _, name, _ in prototypes}
    for answer, name, parameters in prototypes:
        arguments = ", ".join(argument(kind, place) for place, kind in enumerate(parameters)
                              if kind != "...")
        if name == "tdm_context_close":  # the context is all calls' own
            arguments = arguments.replace("OBJECT(context, 0)", "NULL")
        call = f"{name}({arguments})"
        print(f"static void call_{name}(call *self) {{")
        print("  givens given;")
        print("  givens_make(&given, self);")
        member = released(name, parameters)
        if member and name.replace("_release", "_retain") in names:
            print(f"  (void){name.replace('_release', '_retain')}(OBJECT({member}, 0));")
        print("  " + (call if answer == "void" else judge(answer, name).format(call)) + ";")
        if member and name.replace("_release", "_retain") not in names:
            print(f"  given.{member} = NULL;")
        print("  givens_end(&given);")
        print("}")
        rows.append(f'    {{"{name}", call_{name}, {given_places(parameters)}}},')
    print("static const public_call public_calls[] = {")
    print("\n".join(rows))
    print("};")


if __name__ == "__main__":
    main()
