"""Checks dependencies between folders by queries over the build graph."""

def wall(name, query, scope):
    """Declares a test that passes if query finds no target.

    Args:
      name: name of the test
      query: the forbidden targets, in Bazel's query language
      scope: the targets whose dependencies are searched
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
    """Returns a query for all targets of folders (a regular expression) on which source depends."""
    return "filter('^//(%s)[:/]', deps(%s))" % (folders, source)

def uses(source, folder, folders):
    """Returns a query for direct dependencies on folders, of all targets of folder below source."""
    return "filter('^//(%s)[:/]', labels(deps, filter('^//%s[:/]', deps(%s))))" % (
        folders,
        folder,
        source,
    )

def rooms_below(rooms, room):
    """Returns the room and all rooms on which it depends, directly or indirectly."""
    below = [room]
    for _ in rooms:
        for other in list(below):
            below += [b for b in rooms[other] if b not in below]
    return below

def rooms_beyond(folder, rooms, room):
    """Returns a regular expression of the rooms of folder on which room does not depend."""
    below = rooms_below(rooms, room)
    return "%s/(%s)(/.*)?" % (folder, "|".join([other for other in rooms if other not in below]))
