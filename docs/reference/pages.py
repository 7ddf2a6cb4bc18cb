"""Converts the Markdown pages of the tree to HTML, beside Doxygen's reference.

Names of the library in code become links to the reference. Links between pages lead to the HTML
pages; links to other files of the tree become text. A link to a missing page is an error.
"""
import html
import json
import os
import re
import xml.etree.ElementTree

import markdown

# Groups of the menu, and the order of their pages. Other pages come last.
MENU = (
    ("", ("README", "first_hour", "tutorial")),
    ("User guide", ("concepts", "pytorch_guide", "custom_operations", "placement",
                    "data_parallelism", "several_machines", "rank_failures", "performance",
                    "timelines", "forecast", "deployment", "examples")),
    ("Reference", ("layers", "messages", "environment", "tool", "glossary")),
    ("Developer guide", ("architecture", "overview", "devices", "planning", "parallelism",
                         "running", "memory", "ranks", "kernels", "building", "changing",
                         "testing", "pytorch_tests")),
    ("Project", ("versions", "CHANGELOG")),
)
# Folders of pages, as links from other pages name them.
PAGE_FOLDERS = ("", "docs", "architecture", "docs/architecture")
CODE = re.compile(r"<code>(.*?)</code>", re.S)
PAGE = re.compile(r"<code>(docs/)?([A-Z]\w*|(?<=docs/)\w+)\.md</code>")
NAME = re.compile(r"\b(?:tdm_\w+|TDM_\w+)\b")
LINK = re.compile(r'<a href="([^"]*)">(.*?)</a>', re.S)
PICTURE = re.compile(r'(<img [^>]*src=")docs/(pictures/)')
HEADING = re.compile(r"^# (.*)$", re.M)
SECTION = re.compile(r'(?=<h[1-3] id=")')
SECTION_HEAD = re.compile(r'<h[1-3] id="([^"]*)">(.*?)</h[1-3]>', re.S)
TAG = re.compile(r"<[^>]*>")
STYLE = """
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; color: #1d2430; background: #fff; }
nav { position: fixed; top: 0; bottom: 0; width: 13em; overflow: auto; padding: 1.5em;
  background: #f3f5f8; box-sizing: border-box; }
nav a { display: block; color: #1d2430; text-decoration: none; padding: .15em 0; }
nav a.here { font-weight: 600; }
nav b { display: block; margin-top: 1em; color: #5a6474; font-size: 85%; }
nav input { width: 100%; box-sizing: border-box; padding: .3em; margin-bottom: .8em;
  font: inherit; }
#found a { font-size: 90%; }
main { margin-left: 13em; padding: 1.5em 3em; max-width: 56em; }
a { color: #0b57a4; }
pre { background: #f3f5f8; padding: .8em 1em; overflow-x: auto; font-size: 85%; line-height: 1.4; }
code { font-family: ui-monospace, monospace; font-size: 92%; }
pre code { font-size: 100%; }
pre a, code a { color: inherit; text-decoration: underline dotted; }
img { max-width: 100%; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { border-bottom: 1px solid #d5dae2; padding: .3em .7em; text-align: left;
  vertical-align: top; }
@media (max-width: 50em) {
  nav { position: static; width: auto; }
  main { margin: 0; padding: 1em; }
}
"""


def names_of(tagfile):
    """Returns {name: its address in the reference}, from Doxygen's file of tags."""
    found = {}
    for compound in xml.etree.ElementTree.parse(tagfile).getroot():
        if compound.get("kind") == "struct":
            found[compound.findtext("name")] = compound.findtext("filename")
        for member in compound.iter("member"):
            name, file = member.findtext("name"), member.findtext("anchorfile")
            if file and (name.startswith("tdm_") or name.startswith("TDM_")):
                found.setdefault(name, f"{file}#{member.findtext('anchor')}")
    return found


def title_of(text, name):
    """Returns the page's first heading."""
    found = HEADING.search(text)
    return found[1].replace("`", "") if found else name


def leads_to(target, pages):
    """Returns the target of a link in HTML, or None if it is not a page."""
    if re.match(r"https?:|#", target):
        return target
    path, _, anchor = target.partition("#")
    folder, name = os.path.split(re.sub(r"^(\.\./)+", "", path))
    if not name.endswith(".md") or folder not in PAGE_FOLDERS:
        return None
    if name[:-3] not in pages:
        raise ValueError(f"a page leads to {target}, which is no page")
    return name[:-3] + ".html" + ("#" + anchor if anchor else "")


def body_of(text, pages, names):
    """Returns a page's HTML."""
    made = markdown.markdown(text, extensions=["tables", "fenced_code", "toc", "sane_lists"])

    def link(match):
        target = leads_to(html.unescape(match[1]), pages)
        return f'<a href="{html.escape(target)}">{match[2]}</a>' if target else match[2]

    def refer(match):
        where = names.get(match[0])
        return f'<a href="reference/{where}">{match[0]}</a>' if where else match[0]

    def page(match):
        there = match[2] in pages
        return f'<a href="{match[2]}.html">{match[0]}</a>' if there else match[0]

    made = LINK.sub(link, made)
    made = PAGE.sub(page, made)
    made = PICTURE.sub(r"\1\2", made)
    made = re.sub(r"<pre><code[^>]*>", "<pre><code>", made)
    return CODE.sub(lambda code: "<code>" + NAME.sub(refer, code[1]) + "</code>", made)


def menu_of(pages, here):
    """Returns the links to all pages and to the reference, by groups."""
    named = [name for _, names in MENU for name in names]
    groups = MENU[:-1] + ((MENU[-1][0], MENU[-1][1] + tuple(sorted(set(pages) - set(named)))),)
    rows = []
    for group, names in groups:
        rows += [f"<b>{group}</b>"] if group else []
        rows += [f'<a href="{name}.html"{" class=here" if name == here else ""}>'
                 f"{html.escape(title_of(pages[name], name))}</a>"
                 for name in names if name in pages]
        if group == "Reference":
            rows.append('<a href="reference/globals.html">All public names</a>')
    return "\n".join(rows)


def sections_of(body, name, title):
    """Returns (title, address, text in lower case) of each section of a page's HTML."""
    sections = []
    for part in SECTION.split(body):
        head = SECTION_HEAD.match(part)
        if head:
            heading = html.unescape(TAG.sub("", head[2]))
            where = heading if heading == title else f"{heading} ({title})"
            words = " ".join(html.unescape(TAG.sub(" ", part)).lower().split())
            sections.append((where, f"{name}.html#{head[1]}", words))
    return sections


def write(folder, pages, tagfile):
    """Writes {name: Markdown} as folder/NAME.html, folder/index.html, which is the README, and
    folder/search_index.js, the sections and names that the search field finds."""
    names = names_of(tagfile)
    sections = []
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "search.js"),
              encoding="utf-8") as file:
        search = file.read()
    for name, text in pages.items():
        body = body_of(text, pages, names)
        title = title_of(text, name)
        sections += sections_of(body, name, title)
        whole = (f"<!doctype html>\n<html lang=en><meta charset=utf-8>"
                 f"<meta name=viewport content='width=device-width'>"
                 f"<link rel=icon href='data:,'>"
                 f"<title>{html.escape(title)} - Tandem</title>"
                 f"<style>{STYLE}</style>\n<nav>\n"
                 f"<input id=search type=search placeholder=Search aria-label=Search>\n"
                 f"<div id=found></div>\n{menu_of(pages, name)}\n</nav>\n"
                 f"<main>\n{body}\n</main>\n<script src=search_index.js></script>\n"
                 f"<script>\n{search}</script>\n</html>\n")
        for file in [name] + (["index"] if name == "README" else []):
            with open(os.path.join(folder, file + ".html"), "w", encoding="utf-8") as out:
                out.write(whole)
    sections += [(name, "reference/" + where, name.lower())
                 for name, where in sorted(names.items())]
    with open(os.path.join(folder, "search_index.js"), "w", encoding="utf-8") as out:
        out.write(f"const sections = {json.dumps(sections)};\n")
