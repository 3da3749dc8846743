"""Circles of imports between the files of a Rust crate: sets of files of which each leads to each other by what it imports.

A path counts where it stands, in `use` or in an expression, and leads to the file that defines the name: re-exports are followed. The `mod`
that declares a file is no import, nor is what stands in tests.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

COMMENT = re.compile(r"//[^\n]*")
# A visibility names a folder, and imports nothing of it.
VISIBILITY = re.compile(r"\bpub\(in [\w:]+\)")
TESTS = re.compile(r"#\[cfg\(test\)\]\s*(pub(\([^)]*\))? )?mod \w+ *\{")
USE = re.compile(r"(?m)^\s*(?P<public>pub(?:\([^)]*\))? )?use (?P<tree>[^;]+);")
PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")
MODULE = re.compile(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?mod (\w+);")


@dataclass
class Module:
    """One file: what it imports, and under which names it hands that on."""

    file: str
    paths: list[tuple[str, ...]] = field(default_factory=list)
    exports: dict[str, tuple[str, ...]] = field(default_factory=dict)
    globs: list[tuple[str, ...]] = field(default_factory=list)
    children: set[str] = field(default_factory=set)


def without_tests(text: str) -> str:
    text = VISIBILITY.sub("pub", COMMENT.sub("", text))
    while found := TESTS.search(text):
        depth, at = 1, found.end()
        while depth and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        text = text[: found.start()] + text[at:]
    return text


def expand(tree: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """The paths of a `use`, each with the name that it brings."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    if not brace:
        path, _, alias = tree.partition(" as ")
        parts = tuple(part.strip() for part in path.split("::"))
        yield parts, alias.strip() or parts[-1]
        return
    prefix = tuple(part for part in head.strip().removesuffix("::").split("::") if part)
    depth, item = 0, ""
    for letter in rest[: rest.rindex("}")] + ",":
        if letter == "," and depth == 0:
            if item.strip():
                for path, name in expand(item):
                    path = path[:-1] if path[-1] == "self" else path
                    yield prefix + path, prefix[-1] if name == "self" else name
            item = ""
            continue
        depth += {"{": 1, "}": -1}.get(letter, 0)
        item += letter


def absolute(path: tuple[str, ...], here: tuple[str, ...], children: set[str]) -> tuple[str, ...] | None:
    """From the root of the crate; `None` for what comes from elsewhere."""
    if path[0] == "crate":
        return path[1:]
    if path[0] == "self":
        return here + path[1:]
    if path[0] == "super":
        while path and path[0] == "super":
            here, path = here[:-1], path[1:]
        return here + path
    return here + path if path[0] in children else None


def module_path(source: str, file: str) -> tuple[str, ...]:
    parts = file.removeprefix(source).removesuffix(".rs").split("/")
    return tuple(parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts)


def modules(source: str, texts: dict[str, str]) -> dict[tuple[str, ...], Module]:
    found = {}
    for file, text in texts.items():
        here, text = module_path(source, file), without_tests(text)
        module = found[here] = Module(file, children=set(MODULE.findall(text)))
        for use in USE.finditer(text):
            for path, name in expand(use["tree"]):
                if (target := absolute(path, here, module.children)) is None:
                    continue
                if use["public"]:
                    (module.globs.append(target[:-1]) if name == "*" else module.exports.update({name: target}))
                else:
                    module.paths.append(target)
        body = MODULE.sub("", USE.sub("", text))
        # A module that uses what it re-exports imports it.
        used = set(re.findall(r"\w+", body))
        module.paths.extend(target for name, target in module.exports.items() if name in used)
        for path in PATH.findall(body):
            if target := absolute(tuple(path.split("::")), here, module.children):
                module.paths.append(target)
    return found


def defining_file(found: dict[tuple[str, ...], Module], path: tuple[str, ...], depth: int = 0) -> str | None:
    at = len(path)
    while at and path[:at] not in found:
        at -= 1
    module = found.get(path[:at])
    if module is None or at == 0 and not path:
        return None
    if at < len(path) and depth < 9:
        if target := module.exports.get(path[at]):
            return defining_file(found, target + path[at + 1 :], depth + 1) or module.file
    return module.file


def imports(source: str, texts: dict[str, str]) -> dict[str, set[str]]:
    """By file, the files of the same crate that it imports from."""
    found = modules(source, texts)
    edges = {module.file: {defining_file(found, path) for path in module.paths} for module in found.values()}
    return {file: targets - {file, None} for file, targets in edges.items()}


def circles(edges: dict[str, Iterable[str]]) -> list[list[str]]:
    """The strongly connected components of more than one file (Tarjan)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    result = []
    for root in sorted(edges):
        if root in numbers:
            continue
        work = [(root, iter(sorted(edges[root])))]
        numbers[root] = lowest[root] = len(numbers)
        stack.append(root)
        while work:
            file, targets = work[-1]
            for target in targets:
                if target not in numbers:
                    numbers[target] = lowest[target] = len(numbers)
                    stack.append(target)
                    work.append((target, iter(sorted(edges.get(target, ())))))
                    break
                if target in stack:
                    lowest[file] = min(lowest[file], numbers[target])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[file])
                if lowest[file] == numbers[file]:
                    at = stack.index(file)
                    component, stack[at:] = stack[at:], []
                    if len(component) > 1:
                        result.append(sorted(component))
    return sorted(result, key=lambda component: (-len(component), component))
