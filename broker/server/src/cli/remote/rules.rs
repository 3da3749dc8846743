//! `tautwire acl list`: the access rules of a running broker.

use std::process::ExitCode;

use super::super::arguments::{Arguments, Command, OptionGroup, value};
use super::super::{CommandExit, print};
use super::{ADMIN, EXITS, JSON, RemoteArguments, TOKEN_FILE, parsed, shown, table};
use crate::json::Value;

pub(crate) static LIST: Command = Command {
    name: "acl list",
    usage: &["--admin URL --token-file FILE [OPTION]…"],
    about: "Lists the access rules of a running broker in the order of evaluation, with file and line.",
    groups: &[
        OptionGroup {
            title: "Options",
            options: &[
                value(None, "role", "NAME", "Only rules of this role."),
                value(None, "limit", "N", "Maximum number of rows, 1 to 1,000. Default: 100."),
                value(None, "after", "NUMBER", "Continue after this rule."),
            ],
        },
        OptionGroup { title: "Broker", options: &[ADMIN, TOKEN_FILE, JSON] },
    ],
    notes: &[EXITS],
};

pub(in crate::cli) fn list(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&LIST, parser);
    let given = RemoteArguments::read(&mut arguments, |given, name, arguments| {
        given.query.push((name, arguments.string()?));
        Ok(())
    })?;
    let [] = given.word(&arguments, "no further arguments")?;
    let response = given.request(&arguments, "GET", "/v1/rules")?;
    if given.json {
        return Ok(print(&response.body));
    }
    let value = parsed(&response)?;
    if value.get("unrestricted") == Some(&Value::Bool(true)) {
        return Ok(print("there are no access rules: clients may publish and subscribe to everything\n"));
    }
    let row = |rule: &Value| {
        let place = format!("{}:{}", shown(rule.get("file")), shown(rule.get("line")));
        let cells = ["number", "listener", "role"].map(|name| shown(rule.get(name)));
        cells.into_iter().chain([shown(rule.get("text")), place]).collect()
    };
    let rows: Vec<Vec<String>> = value.list("rules").iter().map(row).collect();
    let mut text = table(&["number", "listener", "role", "rule", "place"], &rows);
    text.push_str(&format!("{} of {}\n", rows.len(), shown(value.get("total"))));
    if !value.text("next").is_empty() {
        text.push_str(&format!("more: --after {}\n", shown(value.get("next"))));
    }
    Ok(print(&text))
}
