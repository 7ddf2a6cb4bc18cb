"""Walls between folders, proven by queries over the build graph itself."""

def wall(name, query, scope):
    """A test that passes when query finds nothing in what scope reaches.

    Args:
      name: the test's name
      query: the forbidden targets, in Bazel's query language
      scope: the targets whose dependencies are looked at
    """
    native.genquery(
        name = name + "_query",
        testonly = True,
        expression = query,
        scope = scope,
    )
    native.sh_test(
        name = name,
        size = "small",
        srcs = ["expect_empty.sh"],
        args = ["$(location :%s_query)" % name],
        data = [":%s_query" % name],
        tags = ["no-sanitizer"],
    )

def reaches(source, folders):
    """The targets of folders (a regular expression) that source depends on, however far away."""
    return "filter('^//(%s)[:/]', deps(%s))" % (folders, source)

def uses(source, folder, folders):
    """The targets of folders that targets of folder, reached from source, name as dependencies."""
    return "filter('^//(%s)[:/]', labels(deps, filter('^//%s[:/]', deps(%s))))" % (
        folders,
        folder,
        source,
    )

def rooms_below(rooms, room):
    """The room, and those that it stands on, however far down."""
    below = [room]
    for _ in rooms:
        for other in list(below):
            below += [b for b in rooms[other] if b not in below]
    return below

def rooms_beyond(folder, rooms, room):
    """The rooms of folder (a regular expression) that room does not stand on, however far down."""
    below = rooms_below(rooms, room)
    return "%s/(%s)(/.*)?" % (folder, "|".join([other for other in rooms if other not in below]))
