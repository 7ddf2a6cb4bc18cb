"""The library's public functions for Python, read from its headers: structs, enumerations and
prototypes become ctypes'. Enough for building and running graphs, not a binding to use."""

import ctypes
import os
import re

SCALARS = {
    "int": ctypes.c_int, "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64,
    "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64, "size_t": ctypes.c_size_t,
    "tdm_dim": ctypes.c_int64, "double": ctypes.c_double, "float": ctypes.c_float,
    "bool": ctypes.c_bool, "uint8_t": ctypes.c_uint8,
}
PROTOTYPE = re.compile(r"^TDM_API\s+([\w\s]+?[\s*]+)(tdm_\w+)\s*\(([^;]*?)\)\s*"
                       r"(?:TDM_WARN_UNUSED|TDM_PRINTF\(\d, \d\))?\s*;", re.M)
DEFINITION = re.compile(r"#define (TDM_\w+) (\(?-?\d[\d.e]*\)?|INT64_C\(-?\d+\)|U?INT64_M\w+)\s*$",
                        re.M)
LIMITS = {"INT64_MIN": -2**63, "INT64_MAX": 2**63 - 1, "UINT64_MAX": 2**64 - 1, "INT64_C": int}
INITIALIZER = re.compile(r"^static inline \w+ (tdm_\w+)_default\(void\) \{(.*?)^\}", re.S | re.M)
ENUMERATION = re.compile(r"typedef enum (tdm_\w+) \{(.*?)\} \1;", re.S)
STRUCT = re.compile(r"^(?:typedef )?struct (tdm_\w+) \{(.*?)\}(?: \1)?;", re.S | re.M)


def read_headers(root):
    seen, left, texts = set(), ["tandem.h"], []
    while left:
        name = left.pop(0)
        if name not in seen:
            seen.add(name)
            with open(os.path.join(root, name), encoding="utf-8") as file:
                text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
            left += re.findall(r'#include "tandem/([^"]+)"', text)
            texts.append(text)
    return "\n".join(reversed(texts))


class Library:
    """Functions by their names without "tdm_"; constants and types in .constants and .types."""

    def __init__(self, path, root):
        text = read_headers(root)
        self.library = ctypes.CDLL(path)
        self.constants = {}
        self.types = dict(SCALARS)
        for name, body in ENUMERATION.findall(text):
            self.types[name] = ctypes.c_int
            self.read_enumeration(body)
        for name in re.findall(r"typedef [\w *]+\(\*(tdm_\w+)\)", text):
            self.types[name] = ctypes.c_void_p  # a function
        for name, value in DEFINITION.findall(text):
            self.constants[name] = eval(value, {}, dict(LIMITS))
        self.read_structs(dict(STRUCT.findall(text)))
        self.initializers = dict(INITIALIZER.findall(text))
        self.functions = {}
        for answer, name, parameters in PROTOTYPE.findall(text):
            self.read_function(answer.strip(), name, parameters)

    def read_enumeration(self, body):
        value = 0
        for entry in body.split(","):
            words = entry.replace("=", " ").split()
            if words:
                value = int(words[1]) if len(words) > 1 else value
                self.constants[words[0]] = value
                value += 1

    def read_structs(self, bodies):
        """Those whose members are known, again until no more become known."""
        progress = True
        while progress:
            progress = False
            for name, body in list(bodies.items()):
                fields = self.fields(body)
                if fields is not None:
                    self.types[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
                    del bodies[name]
                    progress = True

    def fields(self, body):
        fields = []
        for member in body.split(";"):
            member = " ".join(member.split())
            if not member:
                continue
            if "(*" in member:
                fields.append((re.search(r"\(\*(\w+)\)", member)[1], ctypes.c_void_p))
                continue
            match = re.match(r"(.*?)(\w+)(?:\[([^]]+)\])?$", member)
            kind = self.type_of(match[1])
            if kind is None:
                return None
            if match[3]:
                count = eval(match[3], {}, dict(self.constants))  # "2 + TDM_MAX_..."
                kind = kind * count
            fields.append((match[2], kind))
        return fields

    def type_of(self, text):
        if "char *" in text and text.count("*") == 1:
            return ctypes.c_char_p
        if "*" in text:
            return ctypes.c_void_p
        return self.types.get(re.sub(r"\b(const|struct)\b", "", text).strip())

    def read_function(self, answer, name, parameters):
        parts = [" ".join(part.split()) for part in parameters.split(",")]
        parts = [re.sub(r"\w+\[\w*\]$", "*", part) for part in parts]  # an array is a pointer
        parts = [re.sub(r"\w+$", "", part) for part in parts if part not in ("void", "...")]
        kinds = [self.type_of(part) for part in parts]
        plain = answer.replace("const", "").strip()
        restype = None if plain == "void" else self.type_of(plain)
        if "(" in parameters or None in kinds or (restype is None and plain != "void"):
            return
        function = getattr(self.library, name, None)
        if function is None:
            return
        function.argtypes, function.restype = kinds, restype
        elements = [self.types.get(re.sub(r"\b(const|struct)\b|\*", "", part).strip())
                    if part.count("*") == 1 else None for part in parts]
        self.functions[name[4:]] = (function, elements)

    def call(self, name, *arguments):
        """Strings become bytes, lists arrays of what the prototype points to."""
        function, elements = self.functions[name]
        converted = []
        for argument, element in zip(arguments, elements, strict=True):
            if isinstance(argument, str):
                argument = argument.encode()
            elif isinstance(argument, (list, tuple)) and element:
                argument = (element * max(1, len(argument)))(*argument)
            elif isinstance(argument, ctypes.Structure) and element is type(argument):
                argument = ctypes.byref(argument)
            converted.append(argument)
        return function(*converted)

    def default(self, name):
        """Returns the struct of tdm_NAME_default(), by its assignments; zeros for other structs."""
        made = self.types[name]()
        for assignment in re.findall(r"(options\.[^;]+);", self.initializers.get(name, "")):
            *members, value = [part.strip() for part in assignment.split("=")]
            size = value.startswith("TDM_OPTIONS_SIZE")
            value = (ctypes.sizeof(made) | 1 << 63 if size
                     else eval(value, {}, dict(self.constants)))
            for member in members:
                exec("%s = value" % member, {}, {"options": made, "value": value})
        return made

    def options(self, name, **members):
        """The defaults of a struct of options, changed; lists fill arrays, None is a default."""
        made = self.default(name)
        for member, value in members.items():
            if value is None:
                continue
            if isinstance(value, (list, tuple)):
                getattr(made, member)[:len(value)] = list(value)
            else:
                setattr(made, member, value)
        return made

    def message(self):
        return self.call("last_message").decode(errors="replace")
