"""The programs of a package, found by themselves, and what they open at run time."""

load("@rules_cc//cc:cc_binary.bzl", _cc_binary = "cc_binary")

def plugins_beside(name, mpis):
    """Copies the plug-ins of the MPIs that this machine has into the folder `tandem` of a package.

    Args:
      name: name of the group
      mpis: names of the MPI implementations
    """
    for mpi in mpis:
        native.genrule(
            name = "plugin_" + mpi,
            srcs = ["//net:libtandem_%s.so" % mpi],
            outs = ["tandem/libtandem_%s.so" % mpi],
            cmd = "cp $< $@",
            target_compatible_with = select({
                "@%s//:enabled" % mpi: [],
                "//conditions:default": ["//third_party:incompatible"],
            }),
        )
    groups = [
        select({
            "@%s//:enabled" % mpi: [":plugin_" + mpi],
            "//conditions:default": [],
        })
        for mpi in mpis
    ]
    srcs = groups[0]
    for group in groups[1:]:
        srcs = srcs + group
    native.filegroup(name = name, srcs = srcs)

def cc_binary(name, data = [], **kwargs):
    """A program that an MPI's launcher can start: the plug-ins are built with it.

    Args:
      name: name of the program
      data: further files that the program opens
      **kwargs: further attributes of cc_binary
    """
    _cc_binary(name = name, data = data + [":plugins"], **kwargs)

def all_programs(name, besides = [], **kwargs):
    """A group of every cc_binary that the package has declared so far; for tests that ask of all.

    Args:
      name: name of the group
      besides: programs that are left out
      **kwargs: further attributes of the filegroup
    """
    native.filegroup(
        name = name,
        srcs = [
            ":" + rule["name"]
            for rule in native.existing_rules().values()
            if rule["kind"] == "cc_binary" and rule["name"] not in besides
        ],
        **kwargs
    )
