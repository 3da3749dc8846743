//! Loads the access rules.

use std::path::Path;
use std::sync::Arc;

use tautwire_access::{Policy, limits};

use crate::config::Config;
use crate::config::listener::Listener;
use crate::config::value::FilePath;
use crate::files;
use crate::shared::{Part, Parts};

/// Reads and compiles a file with access rules.
///
/// # Errors
/// All errors, one line each.
pub(crate) fn load(path: &Path) -> Result<Arc<Policy>, Vec<String>> {
    read_policy(path, "").map(Arc::new)
}

/// Reads the rules of `acl.file`; without a file, everything is allowed.
fn configured_policy(file: &FilePath) -> Result<Policy, Vec<String>> {
    let setting = || format!("{}: ", file.setting("acl.file"));
    file.get().map_or_else(|| Ok(Policy::open()), |path| read_policy(path, &setting()))
}

/// `setting` is the prefix of the message about an unreadable file.
fn read_policy(path: &Path, setting: &str) -> Result<Policy, Vec<String>> {
    let name = path.display().to_string();
    let text = files::text(path, limits::FILE_BYTES_MAX);
    let text = text.map_err(|why| vec![format!("{setting}{name}: {why} [access_unreadable]")])?;
    parse(&name, &text)
}

fn parse(name: &str, text: &str) -> Result<Policy, Vec<String>> {
    Policy::parse(name, text).map_err(|errors| errors.iter().map(ToString::to_string).collect())
}

/// Loads the rules of a configuration, including those of listeners. Shared rules replace the common ones.
///
/// # Errors
/// All errors, one line each.
pub(crate) fn load_all(config: &Config, shared: &Parts) -> Result<Arc<Policy>, Vec<String>> {
    let mut errors = Vec::new();
    let mut checked = |read: Result<Policy, Vec<String>>| {
        read.unwrap_or_else(|wrong| {
            errors.extend(wrong);
            Policy::open()
        })
    };
    let common = checked(match &shared.acl {
        Some(text) => parse(Part::Acl.file(), text),
        None => configured_policy(&config.acl.file),
    });
    let listener_policy = |listener: Listener| Some((listener.name.into(), checked(configured_policy(&listener.acl?))));
    let listeners = config.listeners().into_iter().filter_map(listener_policy).collect();
    if errors.is_empty() { Ok(Arc::new(common.with_listeners(listeners))) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Override;

    #[test]
    fn shared_rules_replace_the_file() {
        let file = Override::from_argument("acl.file=/no/such/file").expect("a key and a value");
        let config = Config::load(None, &[file]).expect("good");
        let shared = |acl: &str| Parts { acl: Some(acl.to_owned()), ..Parts::default() };
        let load_error = |parts| load_all(&config, &parts).expect_err("refused").join("\n");
        assert!(load_error(Parts::default()).starts_with("--set acl.file: acl.file: /no/such/file: "));
        assert!(load_error(shared("[[role]]")).starts_with("cluster/acl:"), "{}", load_error(shared("[[role]]")));
        let rules = "[[role]]\nname = \"a\"\nrules = [{ allow = \"publish\", topics = \"#\" }]\n";
        assert!(load_all(&config, &shared(rules)).is_ok_and(|policy| policy.rule_count() == 1));
    }
}
