"""one_program: several programs and tests in one executable, which its name or first word chooses.

Shared code is linked once. A program's own objects are linked first, and only its main stays
visible, so two programs may use one name for two things. The objects are those of the programs;
nothing is compiled for this.
"""

load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

_ProgramInfo = provider(
    "What a program is linked from.",
    fields = ["objects", "inputs", "flags"],
)

def _program_impl(target, ctx):
    inputs = []
    for dep in ctx.rule.attr.deps:
        if CcInfo in dep:
            inputs += dep[CcInfo].linking_context.linker_inputs.to_list()
    return [_ProgramInfo(
        objects = target[OutputGroupInfo].compilation_outputs.to_list(),
        inputs = inputs,
        flags = ctx.rule.attr.linkopts,
    )]

_program_aspect = aspect(implementation = _program_impl)

def _owner(linked):
    return "//%s:%s" % (linked.owner.package, linked.owner.name)

def _is_left_out(owner, patterns):
    """A pattern is a label, or one whose name ends what begins with a star: //a/b:*_cu."""
    for pattern in patterns:
        package, _, name = pattern.partition(":")
        if not owner.startswith(package + ":"):
            continue
        mine = owner.partition(":")[2]
        if mine == name or (name.startswith("*") and mine.endswith(name[1:])):
            return True
    return False

def _contents(inputs, patterns):
    """owner -> (objects, archives), and the linker's flags."""
    libraries = {}
    flags = []
    for linked in inputs:
        owner = _owner(linked)
        if _is_left_out(owner, patterns):
            continue
        flags += [flag for flag in linked.user_link_flags if flag not in flags]
        objects = []
        archives = []
        for library in linked.libraries:
            if library.pic_objects:
                objects += library.pic_objects
            elif library.pic_static_library or library.static_library:
                archives.append(library.pic_static_library or library.static_library)
        libraries[owner] = (objects, archives)
    return libraries, flags

def _is_own(owner, used, instead):
    """Returns True if only one program has the library. Libraries compiled by nvcc are C++, whose
    common symbols must stay global, so these are always shared."""
    return owner not in instead and used[owner] == 1 and not owner.endswith("_cu")

def _symbol(label):
    return "program_" + label.name.replace("-", "_")

def _program_object(ctx, tools, program, objects):
    """The program's own objects as one, in which only main, under the program's name, is global."""
    linked = ctx.actions.declare_file("_programs/%s/%s.o" % (ctx.label.name, program.label.name))
    ctx.actions.run_shell(
        command = """set -e
{ld} -r -o {out} {objects}
{objcopy} --redefine-sym main={symbol} {out}
{objcopy} --keep-global-symbol={symbol} {out}
""".format(
            ld = tools.ld_executable,
            objcopy = tools.objcopy_executable,
            objects = " ".join([object.path for object in objects]),
            out = linked.path,
            symbol = _symbol(program.label),
        ),
        inputs = objects,
        tools = tools.all_files,
        outputs = [linked],
        mnemonic = "LinkProgram",
    )
    return linked

_MAIN = """/* Chooses a program by the name that this was called by, or by the first word. */
#include <stdio.h>
#include <string.h>

{declarations}
static const struct {{
  const char *name;
  int (*begin)(int, char **);
}} programs[] = {{
{table}
}};
enum {{ COUNT = sizeof programs / sizeof programs[0] }};

static int find(const char *path) {{
  const char *slash = strrchr(path, '/');
  for (int i = 0; i < COUNT; i++)
    if (strcmp(programs[i].name, slash == NULL ? path : slash + 1) == 0) return i;
  return -1;
}}

int main(int count, char **words) {{
  const int named = count > 0 ? find(words[0]) : -1;
  if (named >= 0) return programs[named].begin(count, words);
  const int chosen = count > 1 ? find(words[1]) : -1;
  if (chosen >= 0) return programs[chosen].begin(count - 1, words + 1);
  for (int i = 0; i < COUNT; i++)
    printf("%s\\n", programs[i].name);
  return count > 1 ? 2 : 0;
}}
"""

def _one_program_impl(ctx):
    tools = find_cc_toolchain(ctx)
    programs = ctx.attr.programs
    patterns = ctx.attr.without
    used = {}  # owner -> how many programs have it
    libraries = {}
    flags = []
    own = []
    for program in programs:
        info = program[_ProgramInfo]
        found, more = _contents(info.inputs, patterns)
        flags += [flag for flag in more + info.flags if flag not in flags]
        for owner in found:
            used[owner] = used.get(owner, 0) + 1
        libraries.update(found)
        own.append(found)
    inputs = []
    for dep in ctx.attr.instead:
        inputs += dep[CcInfo].linking_context.linker_inputs.to_list()
    instead, more = _contents(inputs, [])
    flags += [flag for flag in more if flag not in flags]
    libraries.update(instead)

    parts = []
    for program, found in zip(programs, own):
        objects = list(program[_ProgramInfo].objects)
        for owner in found:
            if _is_own(owner, used, instead):
                objects += found[owner][0]
        parts.append(_program_object(ctx, tools, program, objects))
    shared = []
    archives = []
    for owner in libraries:
        if not _is_own(owner, used, instead):
            shared += libraries[owner][0]
        archives += libraries[owner][1]

    main = ctx.actions.declare_file("_programs/%s/main.c" % ctx.label.name)
    ctx.actions.write(main, _MAIN.format(
        declarations = "".join([
            "int %s(int, char **);\n" % _symbol(program.label)
            for program in programs
        ]),
        table = "\n".join([
            "    {\"%s\", %s}," % (program.label.name, _symbol(program.label))
            for program in programs
        ]),
    ))
    out = ctx.actions.declare_file(ctx.label.name)
    link = ctx.actions.args()
    link.add_all(["-O2", "-o", out, main])
    link.add_all(parts)
    link.add_all(shared)
    link.add_all(archives)

    # Libraries lie beside the program; DT_RPATH, unlike DT_RUNPATH, serves libraries of these too.
    link.add_all(["-Wl,-rpath,$ORIGIN/../lib", "-Wl,--disable-new-dtags", "-Wl,--gc-sections"])
    link.add_all(["-Wl,-s", "-Wl,--as-needed"])
    link.add_all(flags)
    link.add_all(["-lstdc++", "-lm"])
    ctx.actions.run(
        executable = tools.compiler_executable,
        arguments = [link],
        inputs = [main] + parts + shared + archives,
        tools = tools.all_files,
        outputs = [out],
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin"},
        mnemonic = "LinkOneProgram",
    )
    return [DefaultInfo(executable = out, files = depset([out]))]

one_program = rule(
    implementation = _one_program_impl,
    attrs = {
        "instead": attr.label_list(
            providers = [CcInfo],
            doc = "libraries that are linked in place of those left out",
        ),
        "programs": attr.label_list(mandatory = True, aspects = [_program_aspect]),
        "without": attr.string_list(doc = "labels of libraries that are left out"),
        "_cc_toolchain": attr.label(default = Label("@rules_cc//cc:current_cc_toolchain")),
    },
    executable = True,
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
)
