"""Checks that each rule finds violations and accepts valid files."""

import tempfile
import unittest
from pathlib import Path

import rules


class Rules(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def tree(self, files):
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        return rules.Tree(self.root, [self.root / name for name in files])

    def check(self, rule, files, *expected):
        findings = list(rule(self.tree(files)))
        self.assertEqual(len(findings), len(expected), findings)
        for finding, part in zip(findings, expected, strict=True):
            self.assertIn(part, finding)

    def test_long_files_are_found(self):
        files = {"a.rs": "x\n" * 700, "b.rs": "x\n" * 701, "vectors.json": "[]\n" * 900}
        self.check(rules.files_are_short, files, "b.rs: 701 lines")

    def test_tabs_and_trailing_space_are_found(self):
        files = {"a.rs": "fn a() {}\n\tlet\nb \n", "Makefile": "all:\n\ttrue\n", "b.md": "no end"}
        self.check(rules.whitespace_is_plain, files, "a.rs:2: a tab", "a.rs:3: trailing space", "b.md: no newline")

    def test_unfinished_work_is_found(self):
        files = {"a.rs": "// " + rules.BANNED_WORDS[0] + "\n", "notes.md": rules.BANNED_WORDS[1] + "\n"}
        self.check(rules.nothing_is_left_undone, files, "a.rs:1")

    def test_machine_specific_paths_are_found(self):
        path = rules.MACHINE_PATHS[0] + "main"
        files = {"a.md": f"in {path}\n", "b.rs": f'"{path}"\n', "topics.rs": f"jobs{path} $share/g{path}\n"}
        self.check(rules.no_path_of_a_machine, files, "a.md:1", "b.rs:1")

    def test_foreign_registries_are_found(self):
        good = '[[package]]\nname = "a"\nsource = "registry+https://github.com/rust-lang/crates.io-index"\n'
        files = {
            "Cargo.lock": good,
            "b/Cargo.lock": good.replace("github.com", "mirror.example"),
            "package-lock.json": '{"packages": {"x": {"resolved": "https://mirror.example/x.tgz"}, "y": {"resolved": "local/y"}}}\n',
            ".npmrc": "registry=https://mirror.example\n",
        }
        self.check(rules.locks_name_no_mirror, files, "b/Cargo.lock", "package-lock.json: x", ".npmrc")

    def test_broken_files_are_found(self):
        files = {"a.py": "def\n", "b.json": "{,}\n", "c.toml": "a = \n", "d.py": "pass\n"}
        self.check(rules.files_can_be_parsed, files, "a.py", "b.json", "c.toml")

    def test_upward_dependencies_are_found(self):
        files = {
            "broker/protocol/Cargo.toml": "[dependencies]\nlibc = '1'\n",
            "broker/session/Cargo.toml": "[dev-dependencies]\ntautwire-engine.workspace = true\n",
            "broker/engine/Cargo.toml": "[dependencies]\ntautwire-session.workspace = true\n",
        }
        self.check(rules.crates_depend_downwards, files, "must not have dependencies", "tautwire-engine is not below it")

    def test_sessions_and_routes_do_not_import_contracts(self):
        on_contracts = "[dependencies]\ntautwire-contracts.workspace = true\n"
        files = {f"broker/{layer}/Cargo.toml": on_contracts for layer in ("session", "router", "engine")}
        self.check(rules.crates_depend_downwards, files, "broker/session/Cargo.toml", "broker/router/Cargo.toml")

    def test_a_crate_has_exactly_the_documented_dependencies(self):
        files = {
            "broker/access/Cargo.toml": "[dependencies]\ntautwire-protocol.workspace = true\ntautwire-topics.workspace = true\n",
            "broker/contracts/Cargo.toml": "[dependencies]\ntautwire-router.workspace = true\n",
            "broker/websocket/Cargo.toml": "[dev-dependencies]\ntautwire-protocol.workspace = true\n",
            "broker/server/Cargo.toml": "[dependencies]\ntautwire-client.workspace = true\n",
        }
        self.check(rules.crates_depend_downwards, files, "tautwire-router", "access/Cargo.toml: dependencies: tautwire-topics")

    def test_unsafe_code_in_a_new_place_is_found(self):
        roots = {layer: f"broker/{layer}/src/{'main' if layer == 'server' else 'lib'}.rs" for layer in rules.LAYERS}
        files = {name: "#![forbid(unsafe_code)]\n" for name in roots.values()}
        files[roots["reactor"]] = "#![deny(unsafe_code)]\n"
        files[rules.WITH_UNSAFE_CODE[0]] = "#![allow(unsafe_code)]\n"
        self.check(rules.unsafe_code_is_where_it_is_known, files)
        files[roots["engine"]] = "#![deny(unsafe_code)]\n"
        files["broker/engine/src/a.rs"] = "#![allow(unsafe_code)]\n"
        self.check(rules.unsafe_code_is_where_it_is_known, files, "broker/engine/src/lib.rs", "a.rs: unsafe code")

    def test_clocks_and_sockets_in_the_core_are_found(self):
        files = {
            "broker/engine/src/a.rs": "let now = Instant::now();\nuse std::net::TcpStream;\n",
            "broker/reactor/src/a.rs": "let now = Instant::now();\n",
        }
        self.check(rules.the_core_does_no_io, files, "a.rs:1: Instant::now", "a.rs:2: std::net")

    def test_import_cycles_among_engine_folders_are_found(self):
        files = {
            "broker/engine/src/connection/connections/mod.rs": "use crate::index::ConnectionId;\nuse crate::session::drops::DropReason;\nuse crate::session::sessions::Sessions;\n",
            # A visibility is no import; the type behind it is one.
            "broker/engine/src/connection/connections/extras.rs": "pub(in crate::connection) a: u8,\npub(in crate::connection) b: crate::shard::Shard,\n",
            "broker/engine/src/routing/shard_outbox.rs": "/// See [`ShardState`](crate::shard::ShardState).\nuse crate::{shard::Shard, index};\nlet a = crate::session::sessions::A;\n",
            "broker/engine/src/shard/mod.rs": "use crate::session::sessions::Sessions;\n",
        }
        self.check(
            rules.rooms_of_the_engine_import_only_leaves, files, "connections/mod.rs:3: session::sessions", "extras.rs:2: shard", "shard_outbox.rs:2: {", "shard_outbox.rs:3: session::sessions"
        )

    def test_modes_in_the_core_of_the_engine_are_found(self):
        files = {
            "broker/engine/src/routing/deliver/steps.rs": "// A cluster.\nlet why = \"cluster\";\nif self.is_in_cluster() {}\nif J::PERSISTENT {}\n#[cfg(test)]\nmod tests { use crate::mode::Volatile; }\n",
            "broker/engine/src/mode/cluster/mod.rs": "struct ClusterState;\n",
            "broker/engine/src/lib.rs": "pub use mode::Volatile;\n",
        }
        self.check(rules.the_core_of_the_engine_names_no_mode, files, "steps.rs:3: cluster", "steps.rs:4: PERSISTENT")

    def test_import_cycles_are_counted(self):
        files = {
            # By a re-export, through `super`, and in an expression.
            "a/src/lib.rs": "mod b;\nmod c;\nmod d;\npub use b::One;\n",
            "a/src/b/mod.rs": "mod inner;\npub use self::inner::One;\n",
            "a/src/b/inner.rs": "use super::super::c::{self, Two};\npub struct One;\n",
            "a/src/c.rs": "pub struct Two;\nfn f() { crate::d::three(crate::b::One) }\n",
            "a/src/d.rs": "pub(in crate::c) struct Three;\npub fn three() {}\n// use crate::c::Two;\n#[cfg(test)]\nmod tests { use crate::c::Two; fn f() {} }\n",
            # A test, and another crate, are no part of it.
            "a/src/tests.rs": "use crate::d::three;\n",
            "e/src/lib.rs": "use a::One;\n",
        }
        self.assertEqual(rules.import_circles(self.tree(files)), [["a/src/b/inner.rs", "a/src/c.rs"]])

    def test_a_module_imports_what_it_re_exports_and_uses(self):
        files = {
            "a/src/lib.rs": "mod b;\npub use b::Two;\npub struct One;\nfn f(two: Two) {}\n",
            "a/src/b.rs": "use crate::One;\npub struct Two;\n",
            "c/src/lib.rs": "mod d;\npub use d::Two;\npub struct One;\n",
            "c/src/d.rs": "use crate::One;\npub struct Two;\n",
        }
        self.assertEqual(rules.import_circles(self.tree(files)), [["a/src/b.rs", "a/src/lib.rs"]])

    def test_the_number_of_cycles_can_only_decrease(self):
        files = {"a/src/lib.rs": "mod b;\nuse b::One;\n", "a/src/b.rs": "pub struct One;\nuse crate::lib_item;\n"}
        limits = rules.CIRCLES, rules.CIRCLE_MAX_FILES
        try:
            rules.CIRCLES, rules.CIRCLE_MAX_FILES = 1, 2
            self.check(rules.imports_go_one_way, files)
            rules.CIRCLES = 2
            self.check(rules.imports_go_one_way, files, "CIRCLES can be 1 now")
            rules.CIRCLES = 0
            self.check(rules.imports_go_one_way, files, "CIRCLES is 0, and there are 1", "2 files: a/src/b.rs, a/src/lib.rs")
        finally:
            rules.CIRCLES, rules.CIRCLE_MAX_FILES = limits

    def test_names_that_the_glossary_bans_are_found(self):
        table = "## Words\n\n| `Shard` | a part |\n\n## Words that are not used\n\n| Not | But |\n|---|---|\n| `Bell`, `Alarm` | `Waker` |\n"
        code = {"broker/a.rs": "// A Bell.\nstruct Shard;\nlet a = \"Alarm\";\nstruct Alarm;\nfn of(a: Alarms, b: &Bell) {}\n"}
        self.check(rules.names_are_the_words_of_the_field, code)
        self.check(
            rules.names_are_the_words_of_the_field, {rules.GLOSSARY: table, **code},
            "a.rs:4: Alarm is not used here, see docs/internals/glossary.md", "a.rs:5: Bell is not used here, see docs/internals/glossary.md",
        )

    def test_citations_of_unknown_statements_are_found(self):
        ledger = '{"statements": [{"id": "MQTT-3.1.0-1"}]}\n'
        code = {"broker/a.rs": "// [MQTT-3.1.0-1]\n// [MQTT-3.1.0-9]\n"}
        self.check(rules.citations_exist, code)
        self.check(rules.citations_exist, {"spec/statements/mqtt-5.0.json": ledger, **code}, "a.rs:2: MQTT-3.1.0-9")

    def test_undocumented_limits_and_counters_are_found(self):
        files = {
            "docs/configuration.md": "| `limits.sessions` | x |\n| `limits.connections` | x |\n| `log.level` | x |\n",
            "docs/operating/limits.md": "`limits.sessions`\n",
            "broker/engine/src/counters.rs": "\ncounters! {\n    /// A.\n    connects,\n    /// B.\n    sessions,\n}\n",
            "docs/operating/metrics.md": "`connects`\n",
        }
        self.check(rules.limits_are_documented, files, "limits.connections")
        self.check(rules.counters_are_documented, files, "the counter sessions")

    def test_dead_links_are_found(self):
        text = "[a](b.md#part) [c](gone.md) [d](https://example.org) [e](#here)\n```\n[x](y)\n```\n"
        self.check(rules.links_lead_somewhere, {"a.md": text, "b.md": "b\n"}, "gone.md")

    def test_dead_links_to_the_repository_are_found(self):
        text = f"[a]({rules.REPOSITORY}b.md#part) [c]({rules.REPOSITORY}gone.md)\n"
        self.check(rules.links_lead_somewhere, {"far/a.md": text, "b.md": "b\n"}, "gone.md")


if __name__ == "__main__":
    unittest.main()
