"""The programs of a package, found by themselves."""

def all_programs(name, besides = [], **kwargs):
    """A group of every cc_binary that the package has declared so far; for tests that ask of all.

    Args:
      name: the group's name
      besides: those that are left out
      **kwargs: of the filegroup
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
