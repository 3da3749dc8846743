//! The configuration as text: a TOML file with comments, and the reference page.

use std::fmt::Write as _;

use super::listener::{self, ListenerConfig};
use super::registry::Key;
use super::reload_effect::ReloadEffect;
use super::settings::{Config, KEYS, SECTIONS};

/// Longest line of a comment in the TOML form.
const COMMENT_COLUMNS: usize = 100;

/// The whole configuration as TOML, each key with its meaning, its type and its default as comments.
/// Reading it back gives the same configuration.
pub(crate) fn to_toml(config: &Config) -> String {
    let defaults = Config::default();
    let mut text = String::new();
    for key in KEYS.iter().filter(|key| key.section().is_none()) {
        push_toml_key(&mut text, key, config, &defaults);
    }
    for section in SECTIONS {
        push_comment(&mut text, section.doc);
        let _ = writeln!(text, "[{}]\n", section.name);
        for key in KEYS.iter().filter(|key| key.section() == Some(section.name)) {
            push_toml_key(&mut text, key, config, &defaults);
        }
    }
    for listener in &config.listener {
        push_comment(&mut text, "What the keys mean stands in the reference, docs/configuration.md.");
        text.push_str("[[listener]]\n");
        for key in listener::KEYS {
            let value = (key.show)(listener);
            if !value.is_empty() {
                let _ = writeln!(text, "{} = {value}", key.name);
            }
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// The reference page of all keys.
pub(crate) fn to_markdown() -> String {
    let defaults = Config::default();
    let mut text = String::from(INTRODUCTION);
    text.push_str("\n## Outside a table\n\n");
    push_table(&mut text, KEYS, None, &defaults, ReloadEffect::of);
    for section in SECTIONS {
        let _ = write!(text, "\n## `[{}]`\n\n{}\n\n", section.name, section.doc);
        push_table(&mut text, KEYS, Some(section.name), &defaults, ReloadEffect::of);
    }
    text.push_str(LISTENERS);
    let none = ListenerConfig::default();
    push_table(&mut text, listener::KEYS, None, &none, ReloadEffect::of_listener);
    for section in listener::SECTIONS {
        let _ = write!(text, "\n{}\n\n", section.doc);
        push_table(&mut text, listener::KEYS, Some(section.name), &none, ReloadEffect::of_listener);
    }
    text
}

const INTRODUCTION: &str = "\
# Configuration

This page is generated from the registry of keys in `broker/server/src/config/settings.rs` by `tautwire config doc`.
A test holds the two together.

Tautwire runs without a configuration. To change something, write a TOML file and name it, or set a key on the command line:

```sh
tautwire serve --config tautwire.toml
tautwire serve --set mqtt.max_qos=1 --set log.level=debug
tautwire serve --listen 127.0.0.1:1883 --listen '[::1]:1883' --threads 2
```

- Settings of the command line go over those of the file; a later one over an earlier one.
  `--listen` and `--threads` stand for the keys of the same name.
- A key that does not exist is refused, and the nearest one is named. So is a value of the wrong type or out of range.
- `tautwire config check` says whether a configuration is right. `tautwire config show` prints the effective one as a
  TOML file with comments, which is also a good file to start from. Both take the same options as `serve`.
- **Reload** says from when on a key holds that has changed when the broker [reads its configuration
  again](operating/reload.md): `at once`, also for clients that are connected; `new connections`, for those who connect from then on;
  `restart`, when the broker is started again.
- On the command line a string needs no quotes, and a list may be written with commas.

```toml
listen = [\"127.0.0.1:1883\"]

[mqtt]
max_keep_alive_s = 600

[limits]
slow_consumer = \"drop_old\"
```
";

const LISTENERS: &str = "
## `[[listener]]`

An address that is listened on, and what holds for those who come by it. The table may stand several times, in the file alone, beside
`listen` or in its place. A key that is left out is as it is for all. `--listen` goes over `listen` and over the tables: the broker
then listens there, and only there.

```toml
listen = [\"127.0.0.1:1883\"]

[[listener]]
name = \"devices\"
address = \"mqtts://[::]:8883\"       # IPv6, and IPv4 as well
ack = \"memory\"
connections = 50_000
tls.certificate = \"devices.pem\"
tls.key = \"devices.key\"
```

";

fn push_toml_key(text: &mut String, key: &Key, config: &Config, defaults: &Config) {
    push_comment(text, key.doc);
    push_comment(text, &format!("Takes {}. Default: {}.", key.accepts(), (key.show)(defaults)));
    let _ = writeln!(text, "{} = {}\n", key.leaf(), (key.show)(config));
}

fn push_comment(text: &mut String, comment: &str) {
    let mut column = 0;
    for word in comment.split(' ') {
        if column == 0 || column + 1 + word.len() > COMMENT_COLUMNS {
            if column > 0 {
                text.push('\n');
            }
            text.push('#');
            column = 1;
        }
        text.push(' ');
        text.push_str(word);
        column += 1 + word.len();
    }
    text.push('\n');
}

fn push_table<C>(
    text: &mut String,
    keys: &'static [Key<C>],
    section: Option<&str>,
    defaults: &C,
    reload_effect: impl Fn(&str) -> ReloadEffect,
) {
    text.push_str("| Key | Takes | Default | Reload | Meaning |\n|---|---|---|---|---|\n");
    for key in keys.iter().filter(|key| key.section() == section) {
        let default = (key.show)(defaults);
        let default = if default.is_empty() { "–".to_owned() } else { format!("`{default}`") };
        let _ = writeln!(
            text,
            "| `{}` | {} | {default} | {} | {} |",
            key.name,
            key.accepts().replace('|', "\\|"),
            reload_effect(key.name).short(),
            key.doc.replace('|', "\\|")
        );
    }
}
