#!/usr/bin/env python3
"""Writes python/millrace/_abi.py, the structs and calls of the loader for ctypes, from the headers.

--check says whether the file is as the headers want it.  Needs pycparser, and cc for the preprocessor.
"""
import re
import subprocess
import sys
from pathlib import Path

from pycparser import c_ast, c_parser

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "python/millrace/_abi.py"
HEADERS = ("base/err.h", "pull/own.h", "pull/loader.h", "pull/dlpack.h")
TYPES = """
typedef _Bool bool; typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t;
typedef unsigned short uint16_t; typedef int int32_t; typedef unsigned int uint32_t; typedef long int64_t;
typedef unsigned long uint64_t; typedef struct mr_spec mr_spec_t;
typedef int mr_atomic_int_t;
"""
CTYPES = {
    "_Bool": "c_bool", "bool": "c_bool", "char": "c_char", "int": "c_int", "int32_t": "c_int32",
    "uint32_t": "c_uint32", "int64_t": "c_int64", "uint64_t": "c_uint64", "uint8_t": "c_uint8",
    "mr_err_t": "c_int", "mr_atomic_int_t": "c_int",
}
LEFT_OUT = {"mr_fail", "mr_diag_relay", "mr_diag_prefix", "mr_no_memory", "mr_notice", "mr_announce"}


def source() -> str:
    """The declarations of HEADERS themselves, preprocessed."""
    include = "".join(f'#include "{h}"\n' for h in HEADERS)
    text = subprocess.run(["cc", "-E", "-std=c17", "-I", str(ROOT), "-"], input=include, capture_output=True,
                          text=True, check=True).stdout
    kept, mine = [], False
    for line in text.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            mine = marker.group(1).removeprefix(str(ROOT) + "/").removeprefix("./") in HEADERS
        elif mine and not line.startswith("#"):
            kept.append(line)
    return TYPES + re.sub(r"__attribute__\(\(.*?\)\)\)?", "", "\n".join(kept))


def ctype(node: c_ast.Node) -> str:
    if isinstance(node, c_ast.TypeDecl):
        name = " ".join(node.type.names) if isinstance(node.type, c_ast.IdentifierType) else node.type.name
        return CTYPES.get(name, name if name in structs else "c_void_p")
    if isinstance(node, c_ast.ArrayDecl):
        return f"{ctype(node.type)} * {node.dim.value}"
    if isinstance(node, c_ast.PtrDecl):
        if isinstance(node.type, c_ast.FuncDecl):
            return "c_void_p"
        inner = ctype(node.type)
        if inner == "c_char":
            return "c_char_p"
        if inner == "c_void_p" and not isinstance(node.type, c_ast.PtrDecl):
            return "c_void_p"
        return f"POINTER({inner})"
    raise SystemExit(f"python-abi: {type(node).__name__} is not known")


tree = c_parser.CParser().parse(source())
structs: list[str] = []
out = ['"""Made by scripts/python-abi.py from ' + ", ".join(HEADERS) + '; do not edit."""', "",
       "from ctypes import (", "    POINTER,", "    Structure,"]
out += [f"    {c}," for c in sorted(set(CTYPES.values()) | {"c_char_p", "c_void_p"})] + [")", ""]
calls = []
for node in tree.ext:
    if isinstance(node, c_ast.Typedef) and isinstance(node.type, c_ast.TypeDecl):
        inner = node.type.type
        if isinstance(inner, c_ast.Enum) and inner.values and node.name == "mr_err_t":
            for e in inner.values.enumerators:
                value = e.value.value if isinstance(e.value, c_ast.Constant) else "-" + e.value.expr.value
                out.append(f"{e.name} = {value}")
        if isinstance(inner, c_ast.Struct) and inner.decls and node.name.startswith("mr_"):
            fields = [(d.name, ctype(d.type)) for d in inner.decls]
            structs.append(node.name)
            out += ["", "", f"class {node.name}(Structure):", "    _fields_ = ["]
            out += [f'        ("{n}", {t}),' for n, t in fields] + ["    ]"]
    if isinstance(node, c_ast.Decl) and isinstance(node.type, c_ast.FuncDecl) and node.name not in LEFT_OUT:
        args = [ctype(p.type) for p in node.type.args.params]
        result = node.type.type
        void = isinstance(result, c_ast.TypeDecl) and getattr(result.type, "names", None) == ["void"]
        calls.append((node.name, "None" if void else ctype(result), [] if args == ["c_void_p"] and not
                      node.type.args.params[0].name else args))
out += ["", "", "# The calls: what each returns and takes.", "CALLS = {"]
for name, result, args in calls:
    out.append(f'    "{name}": ({result}, [{", ".join(args)}]),')
out += ["}", ""]
text = "\n".join(out)
if "--check" in sys.argv:
    if not OUT.exists() or OUT.read_text() != text:
        sys.exit(f"python-abi: {OUT.relative_to(ROOT)} is not what the headers say: run scripts/python-abi.py")
    print("python-abi: the declarations are those of the headers")
else:
    OUT.write_text(text)
