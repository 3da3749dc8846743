//! `tautwire bans`: lists, adds and removes bans.

use std::ffi::OsString;
use std::process::ExitCode;

use super::super::arguments::{Arguments, Command, OptionGroup, value};
use super::super::{CommandExit, parser, print};
use super::clients::split;
use super::{ADMIN, CA, EXITS, JSON, RemoteArguments, TOKEN_FILE, moment, parsed, shown, table, wrong_group};
use crate::json::push_string;

const BROKER: OptionGroup = OptionGroup { title: "Broker", options: &[ADMIN, TOKEN_FILE, CA, JSON] };
const KIND: &str = "client_id, user or network";

pub(crate) static LIST: Command = Command {
    name: "bans list",
    usage: &["--admin URL --token-file FILE [OPTION]…"],
    about: "Lists the current bans.",
    groups: &[BROKER],
    notes: &[EXITS],
};

pub(crate) static ADD: Command = Command {
    name: "bans add",
    usage: &["--admin URL --token-file FILE [OPTION]… KIND NAME"],
    about: "Bans a client, a user or a network. Matching connected clients are disconnected.",
    groups: &[
        OptionGroup {
            title: "Options",
            options: &[
                value(None, "duration", "SECONDS", "Duration. Default: no end."),
                value(None, "reason", "TEXT", "The reason, for the list and the log."),
            ],
        },
        BROKER,
    ],
    notes: &["KIND is client_id, user or network. NAME of a network is like 192.0.2.0/24.", EXITS],
};

pub(crate) static DELETE: Command = Command {
    name: "bans delete",
    usage: &["--admin URL --token-file FILE [OPTION]… KIND NAME"],
    about: "Removes a ban.",
    groups: &[BROKER],
    notes: &["KIND is client_id, user or network.", EXITS],
};

pub(in crate::cli) fn run(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let (action, rest) = split(arguments);
    match action.as_deref() {
        Some("list") => list(Arguments::new(&LIST, parser(rest))),
        Some("add") => change(Arguments::new(&ADD, parser(rest)), "POST"),
        Some("delete") => change(Arguments::new(&DELETE, parser(rest)), "DELETE"),
        other => Err(wrong_group(&[&LIST, &ADD, &DELETE], other)),
    }
}

fn list(mut arguments: Arguments) -> Result<ExitCode, CommandExit> {
    let given = RemoteArguments::read(&mut arguments, |_, _, arguments| {
        Err(arguments.failure("is not supported by this command"))
    })?;
    let [] = given.word(&arguments, "no further arguments")?;
    let response = given.request(&arguments, "GET", "/v1/bans")?;
    if given.json {
        return Ok(print(&response.body));
    }
    let value = parsed(&response)?;
    let rows: Vec<Vec<String>> = value
        .list("bans")
        .iter()
        .map(|ban| {
            let kind = ["client_id", "user", "network"].into_iter().find(|kind| ban.get(kind).is_some());
            let kind = kind.unwrap_or_default();
            let until = moment(ban.get("until_unix_s"), 1);
            vec![kind.to_owned(), shown(ban.get(kind)), until, shown(ban.get("reason"))]
        })
        .collect();
    Ok(print(&table(&["kind", "name", "until", "reason"], &rows)))
}

fn change(mut arguments: Arguments, method: &str) -> Result<ExitCode, CommandExit> {
    let (mut seconds, mut why) = (None, None);
    let given = RemoteArguments::read(&mut arguments, |_, name, arguments| {
        match name {
            "duration" => seconds = Some(arguments.number::<u64>(1..=u64::from(u32::MAX))?),
            _ => why = Some(arguments.string()?),
        }
        Ok(())
    })?;
    let [kind, name] = given.word(&arguments, "KIND and NAME")?;
    if !["client_id", "user", "network"].contains(&kind) {
        return Err(arguments.command_failure(&format!("\"{kind}\": expected {KIND}")));
    }
    let mut body = format!("{{\"{kind}\":");
    push_string(&mut body, name);
    if let Some(seconds) = seconds {
        body.push_str(&format!(",\"seconds\":{seconds}"));
    }
    if let Some(why) = why {
        body.push_str(",\"reason\":");
        push_string(&mut body, &why);
    }
    body.push('}');
    given.request_with_body(&arguments, method, "/v1/bans", &body)?;
    Ok(print(""))
}
