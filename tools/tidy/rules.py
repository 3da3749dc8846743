"""The rules. Each takes the tree and yields a line for every violation."""

import ast
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import circles

FILE_MAX_LINES = 700
CODE = {".rs", ".py", ".mjs", ".js", ".ts", ".go", ".c", ".h", ".sh"}
TEXT = CODE | {".md", ".toml", ".json", ".yml", ".yaml", ".txt", ".service", ".lock", ""}

# Split, so that this file does not break its own rule.
BANNED_WORDS = ["FIX" + "ME", "XX" + "X", "to" + "do!", "unimpl" + "emented!", "dbg" + "!(", "#[ig" + "nore"]
MACHINE_PATHS = ["/wo" + "rk/", "/ho" + "me/", "/ro" + "ot/"]
MACHINE_PATH = re.compile(r"(?<![\w/+#$-])(" + "|".join(MACHINE_PATHS) + r")\w")

# What each crate may depend on: ARCHITECTURE.md refers to this.
MAY_DEPEND_ON = {
    "protocol": set(),
    "json": set(),
    "topics": set(),
    "memory": set(),
    "message": {"memory", "protocol"},
    "journal": {"message", "protocol"},
    "spill": {"message"},
    "session": {"memory", "message", "protocol"},
    "durable": {"journal", "memory", "message", "protocol", "session"},
    "router": {"memory", "message", "protocol", "session", "topics"},
    "contracts": {"message", "protocol", "topics"},
    "access": {"protocol"},
    "identity": {"json", "protocol"},
    "generate": {"contracts"},
    "cluster": set(),
    "nats": {"cluster", "json"},
    "engine": {"access", "cluster", "contracts", "memory", "message", "protocol", "router", "session", "topics"},
    "tls": set(),
    "websocket": set(),
    "proxy": set(),
    "bridge": {"protocol"},
    "mosquitto": {"message", "protocol", "session"},
    "reactor": {"access", "cluster", "spill", "contracts", "durable", "engine", "journal", "memory", "message", "protocol", "proxy", "router", "session", "tls", "websocket"},
    "server": {
        "access", "bridge", "cluster", "contracts", "durable", "engine", "generate", "identity", "journal", "json", "memory", "message", "mosquitto", "nats", "protocol",
        "proxy", "reactor", "router", "session", "tls", "websocket",
        # `pub` and `sub` are clients like any other.
        "client",
    },
}
# The tests of a crate may depend on all crates before it.
LAYERS = list(MAY_DEPEND_ON)
# These get the time and the bytes from outside.
WITHOUT_IO = ["protocol", "json", "topics", "memory", "message", "session", "router", "contracts", "access", "identity", "engine", "cluster", "tls", "websocket", "proxy", "bridge", "mosquitto"]
IO_NAMES = re.compile(r"\b(std::net|std::fs|std::thread|Instant::now|SystemTime::now|mio::)")

# The rooms of a shard know none of each other, only what is below all of them.
ENGINE_ROOMS = [
    "connection/ack.rs", "connection/connections/", "connection/mount.rs", "connection/origin.rs", "connection/paused_readers.rs", "connection/quotas/",
    "index.rs", "mode/cluster/cluster_state/", "operations/publish_range.rs", "routing/shard_outbox.rs", "scheduling/work_budget.rs", "session/drops.rs",
    "session/sessions.rs", "storage/journal_writer.rs",
]
LEAVES = ["index", "text", "connection::ack", "connection::mount", "connection::origin", "connection::quotas", "operations::publish_range", "session::drops"]
ENGINE_IMPORT = re.compile(rf"^(?!\s*//)(?>(?:\s*pub\(in [\w:]+\))?).*\bcrate::(?!(?:{'|'.join(LEAVES)})\b)([\w{{]+(?:::\w+)?)")

# The core of the engine knows no mode but by the seam. These name what all modes count, say or break.
CORE_EXCEPT = ("mode/", "lib.rs", "counters.rs", "mutant.rs")
NAMES_A_MODE = re.compile(r"[Cc]luster|\b(Volatile|NoJournal|PERSISTENT)\b")

# Circles of imports between files, and the files of the largest one. Both numbers may only fall: docs/decisions/0045-rooms-of-the-engine.md.
CIRCLES = 1
CIRCLE_MAX_FILES = 3
OF_TESTS = re.compile(r"(^|/)(tests|test_\w+)(/|\.rs$)")

# Each with a reason in the file, and a line in docs/internals/architecture.md.
WITH_UNSAFE_CODE = ["broker/reactor/src/heap.rs"]
ALLOWS_UNSAFE = re.compile(r"\b(allow|expect)\(\s*unsafe_code")

GLOSSARY = "docs/internals/glossary.md"
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')

CITATION = re.compile(r"\[(MQTT-\d[\w.]*-\d+)\]")
LINK = re.compile(r"\]\(([^)\s]+)\)")
# Pages of registries, which have no folders, link to the repository with this address.
REPOSITORY = "https://github.com/tautwire/tautwire/blob/main/"


@dataclass(frozen=True)
class Tree:
    """The files to check: those that are or could be committed."""

    root: Path
    files: list[Path]

    def name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    @cached_property
    def texts(self) -> dict[Path, str]:
        texts = {}
        for path in self.files:
            if path.suffix in TEXT and not self.is_corpus(path):
                try:
                    texts[path] = path.read_text()
                except UnicodeDecodeError:
                    continue
        return texts

    def code(self) -> Iterator[tuple[Path, str]]:
        return ((path, text) for path, text in self.texts.items() if path.suffix in CODE)

    def under(self, folder: str, suffix: str) -> Iterator[tuple[Path, str]]:
        for path, text in self.texts.items():
            if self.name(path).startswith(folder) and path.suffix == suffix:
                yield path, text

    def text(self, name: str) -> str | None:
        return self.texts.get(self.root / name)

    def is_corpus(self, path: Path) -> bool:
        return "/corpus/" in f"/{self.name(path)}"


def lines(tree: Tree, path: Path, text: str, wrong: Callable[[str], str | None]) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), 1):
        if what := wrong(line):
            yield f"{tree.name(path)}:{number}: {what}"


def files_are_short(tree: Tree) -> Iterator[str]:
    for path, text in tree.code():
        count = text.count("\n")
        if count > FILE_MAX_LINES:
            yield f"{tree.name(path)}: {count} lines, at most {FILE_MAX_LINES}: split it by topic"


def whitespace_is_plain(tree: Tree) -> Iterator[str]:
    for path, text in tree.texts.items():
        tabs = path.suffix == ".go" or path.name in ("Makefile", "go.mod", "go.sum", ".gitmodules")

        def wrong(line: str, tabs: bool = tabs) -> str | None:
            if line != line.rstrip():
                return "trailing space"
            return "a tab" if "\t" in line and not tabs else None

        yield from lines(tree, path, text, wrong)
        if text and not text.endswith("\n"):
            yield f"{tree.name(path)}: no newline at the end of the file"


def nothing_is_left_undone(tree: Tree) -> Iterator[str]:
    def wrong(line: str) -> str | None:
        return next((f"{word} is not committed" for word in BANNED_WORDS if word in line), None)

    for path, text in tree.code():
        yield from lines(tree, path, text, wrong)


def no_path_of_a_machine(tree: Tree) -> Iterator[str]:
    def wrong(line: str) -> str | None:
        return f"a machine-specific path, {found[1]}" if (found := MACHINE_PATH.search(line)) else None

    for path, text in tree.texts.items():
        yield from lines(tree, path, text, wrong)


def locks_name_no_mirror(tree: Tree) -> Iterator[str]:
    for path, text in tree.texts.items():
        if path.name == "Cargo.lock":
            sources = {package.get("source") for package in tomllib.loads(text).get("package", [])}
            for source in sources - {None, "registry+https://github.com/rust-lang/crates.io-index"}:
                yield f"{tree.name(path)}: a source other than the default registry, {source}"
        if path.name == "package-lock.json":
            for name, package in json.loads(text).get("packages", {}).items():
                resolved = package.get("resolved", "")
                if "://" in resolved and not resolved.startswith("https://registry.npmjs.org/"):
                    yield f"{tree.name(path)}: {name} is resolved elsewhere; set omit-lockfile-registry-resolved"
        if path.name in (".npmrc", "pip.conf") and re.search(r"(?m)^\s*(registry|index-url)\s*=", text):
            yield f"{tree.name(path)}: it names a registry; leave that to the machine"


def files_can_be_parsed(tree: Tree) -> Iterator[str]:
    parsers = {".py": ast.parse, ".json": json.loads, ".toml": tomllib.loads}
    for path, text in tree.texts.items():
        if parse := parsers.get(path.suffix):
            try:
                parse(text)
            except (SyntaxError, ValueError) as error:
                yield f"{tree.name(path)}: {error}"


def crates_depend_downwards(tree: Tree) -> Iterator[str]:
    for height, layer in enumerate(LAYERS):
        name = f"broker/{layer}/Cargo.toml"
        manifest = tomllib.loads(tree.text(name) or "")
        # Tests may enable a feature of their own crate.
        of_tests = {*LAYERS[: height + 1], *MAY_DEPEND_ON[layer]}
        for table, below in (("dependencies", MAY_DEPEND_ON[layer]), ("build-dependencies", MAY_DEPEND_ON[layer]), ("dev-dependencies", of_tests)):
            ours = {crate for crate in manifest.get(table, {}) if crate.startswith("tautwire-")}
            for crate in sorted(ours - {f"tautwire-{lower}" for lower in below}):
                yield f"{name}: {table}: {crate} is not below it; if it is to be, say so in MAY_DEPEND_ON"
        if layer == "protocol" and manifest.get("dependencies"):
            yield f"{name}: the protocol crate must not have dependencies"


def unsafe_code_is_where_it_is_known(tree: Tree) -> Iterator[str]:
    for layer in LAYERS:
        name = f"broker/{layer}/src/{'main' if layer == 'server' else 'lib'}.rs"
        excepted = any(known.startswith(f"broker/{layer}/") for known in WITH_UNSAFE_CODE)
        wanted = "#![deny(unsafe_code)]" if excepted else "#![forbid(unsafe_code)]"
        if wanted not in (tree.text(name) or ""):
            yield f"{name}: {wanted} is missing"
    for path, text in tree.under("", ".rs"):
        if ALLOWS_UNSAFE.search(text) and tree.name(path) not in WITH_UNSAFE_CODE:
            yield f"{tree.name(path)}: unsafe code is allowed here but not listed in tools/tidy"


def the_core_does_no_io(tree: Tree) -> Iterator[str]:
    for layer in WITHOUT_IO:
        for path, text in tree.under(f"broker/{layer}/src/", ".rs"):
            yield from lines(
                tree, path, text,
                lambda line: f"{found[1]} in a crate without I/O" if (found := IO_NAMES.search(line)) else None,
            )


def rooms_of_the_engine_import_only_leaves(tree: Tree) -> Iterator[str]:
    for room in ENGINE_ROOMS:
        for path, text in tree.under(f"broker/engine/src/{room}", ".rs"):
            yield from lines(
                tree, path, text,
                lambda line: f"{found[1]} is not a leaf of the engine" if (found := ENGINE_IMPORT.search(line)) else None,
            )


def the_core_of_the_engine_names_no_mode(tree: Tree) -> Iterator[str]:
    source = "broker/engine/src/"
    for path, text in tree.under(source, ".rs"):
        if tree.name(path).removeprefix(source).startswith(CORE_EXCEPT) or path.name == "journal_writer.rs":
            continue
        code = STRING.sub('""', text.partition("#[cfg(test)]")[0])
        yield from lines(
            tree, path, code,
            lambda line: f"{found[0]} in the core: it is for a mode, see engine/src/mode" if (found := NAMES_A_MODE.search(line.partition("//")[0])) else None,
        )


def import_circles(tree: Tree) -> list[list[str]]:
    """In Rust, by crate, what stands in tests left out."""
    crates: dict[str, dict[str, str]] = {}
    for path, text in tree.under("", ".rs"):
        folder, is_source, inside = tree.name(path).partition("/src/")
        if is_source and not OF_TESTS.search(inside):
            crates.setdefault(f"{folder}/src/", {})[tree.name(path)] = text
    found = (circles.circles(circles.imports(source, texts)) for source, texts in crates.items())
    return sorted((circle for of_crate in found for circle in of_crate), key=len, reverse=True)


def imports_go_one_way(tree: Tree) -> Iterator[str]:
    found = import_circles(tree)
    largest = max(map(len, found), default=0)
    for name, count, limit in (("CIRCLES", len(found), CIRCLES), ("CIRCLE_MAX_FILES", largest, CIRCLE_MAX_FILES)):
        if count > limit:
            yield f"tools/tidy/rules.py: {name} is {limit}, and there are {count}; the largest circles of imports:"
            yield from (f"  {len(circle)} files: {', '.join(circle)}" for circle in found[:3])
        elif count < limit:
            yield f"tools/tidy/rules.py: {name} can be {count} now"


def citations_exist(tree: Tree) -> Iterator[str]:
    known = set()
    for _path, text in tree.under("spec/statements/mqtt-", ".json"):
        known |= {statement["id"] for statement in json.loads(text)["statements"]}
    if not known:
        return

    def wrong(line: str) -> str | None:
        unknown = next((name for name in CITATION.findall(line) if name not in known), None)
        return f"{unknown} is in no ledger of spec/statements" if unknown else None

    for path, text in [*tree.under("broker/", ".rs"), *tree.under("", ".md")]:
        yield from lines(tree, path, text, wrong)


def names_are_the_words_of_the_field(tree: Tree) -> Iterator[str]:
    """Uses the table of words that are not used at the end of the glossary."""
    table = (tree.text(GLOSSARY) or "").partition("## Words that are not used")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    banned = {word for row in rows for word in re.findall(r"`(\w+)`", row)}
    if not banned:
        return
    name = re.compile(r"\b(" + "|".join(sorted(banned)) + r")\b")

    def wrong(line: str) -> str | None:
        code = STRING.sub('""', line.partition("//")[0])
        return f"{found[1]} is not used here, see {GLOSSARY}" if (found := name.search(code)) else None

    for path, text in tree.under("broker/", ".rs"):
        yield from lines(tree, path, text, wrong)


def limits_are_documented(tree: Tree) -> Iterator[str]:
    page = "docs/operating/limits.md"
    keys = tree.text("docs/configuration.md") or ""
    for key in re.findall(r"^\| `(limits\.\w+|mqtt\.\w+_s|mqtt\.\w*maximum\w*)` ", keys, re.M):
        if f"`{key}`" not in (tree.text(page) or ""):
            yield f"{page}: {key} is missing"


def counters_are_documented(tree: Tree) -> Iterator[str]:
    page = "docs/operating/metrics.md"
    source = tree.text("broker/engine/src/counters.rs") or ""
    declared = source.partition("\ncounters! {")[2].partition("\n}")[0]
    for name in re.findall(r"^    (\w+),$", declared, re.M):
        if f"`{name}`" not in (tree.text(page) or ""):
            yield f"{page}: the counter {name} is missing"


def links_lead_somewhere(tree: Tree) -> Iterator[str]:
    for path, text in tree.under("", ".md"):
        for target in LINK.findall(re.sub(r"```.*?```", "", text, flags=re.S)):
            place = target.partition("#")[0]
            folder = tree.root if place.startswith(REPOSITORY) else path.parent
            place = place.removeprefix(REPOSITORY)
            if place and not re.match(r"[a-z]+:", place) and not (folder / place).exists():
                yield f"{tree.name(path)}: the link {target} is broken"


ALL = [
    files_are_short,
    whitespace_is_plain,
    nothing_is_left_undone,
    no_path_of_a_machine,
    locks_name_no_mirror,
    files_can_be_parsed,
    crates_depend_downwards,
    unsafe_code_is_where_it_is_known,
    the_core_does_no_io,
    rooms_of_the_engine_import_only_leaves,
    the_core_of_the_engine_names_no_mode,
    imports_go_one_way,
    citations_exist,
    names_are_the_words_of_the_field,
    limits_are_documented,
    counters_are_documented,
    links_lead_somewhere,
]
