//! `tautwire why`: explains whether a message would reach a client.

use std::process::ExitCode;

use super::super::arguments::{Arguments, Command, OptionGroup, flag, value};
use super::super::{CommandExit, Exit, print};
use super::clients::drops;
use super::{ADMIN, CA, JSON, MOUNT_POINT, RemoteArguments, TOKEN_FILE, parsed, percent_encoded, shown};

pub(crate) static COMMAND: Command = Command {
    name: "why",
    usage: &["--admin URL --token-file FILE [OPTION]… CLIENT TOPIC"],
    about: "Explains whether a message published to TOPIC now would reach CLIENT: everything that affects it, how to change it,\n\
            and the last messages that were not delivered to the client.",
    groups: &[
        OptionGroup {
            title: "Options",
            options: &[
                value(Some('q'), "qos", "QOS", "The QoS of the message. Default: 1."),
                flag(None, "retain", "The message is retained."),
                value(None, "payload", "TEXT", "The payload, to validate it against the contract of the topic."),
                value(None, "payload-bytes", "COUNT", "The size of the payload, if its content does not matter."),
                value(
                    None,
                    "publisher",
                    "CLIENT",
                    "The client that publishes the message, to check its access rules and quotas.",
                ),
                MOUNT_POINT,
            ],
        },
        OptionGroup { title: "Broker", options: &[ADMIN, TOKEN_FILE, CA, JSON] },
    ],
    notes: &[
        "TOPIC is the full topic, including the mount point.",
        "Exit codes: 0 it arrives, now or later, or goes to one of several clients; 1 invalid arguments; 2 no connection to the broker; \
         3 it does not arrive, or another node of the cluster serves the client.",
    ],
};

pub(in crate::cli) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&COMMAND, parser);
    let mut given = RemoteArguments::read(&mut arguments, |given, name, arguments| {
        let (name, value) = match name {
            "retain" => (name, "true".to_owned()),
            "payload-bytes" => ("payload_bytes", arguments.string()?),
            _ => (name, arguments.string()?),
        };
        given.query.push((name, value));
        Ok(())
    })?;
    let [client, topic] = given.word(&arguments, "CLIENT and TOPIC")?.map(str::to_owned);
    given.query.push(("topic", topic));
    let response = given.request(&arguments, "GET", &format!("/v1/clients/{}/why", percent_encoded(&client)))?;
    let value = parsed(&response)?;
    let outcome = value.text("outcome");
    if given.json {
        print(&response.body);
    } else {
        let mut text = format!("{}\n", sentence(outcome));
        for finding in value.list("findings") {
            text.push_str(&format!("- {} [{}]\n", shown(finding.get("text")), shown(finding.get("code"))));
            if !finding.text("remedy").is_empty() {
                text.push_str(&format!("  to change it: {}\n", shown(finding.get("remedy"))));
            }
        }
        text.push_str(&drops(&value));
        print(&text);
    }
    Ok(if matches!(outcome, "does_not_arrive" | "other_node") { Exit::Refused } else { Exit::Success }.into())
}

fn sentence(outcome: &str) -> &str {
    match outcome {
        "arrives" => "a message would arrive",
        "queued" => "a message would be queued and arrive later",
        "shared" => "a message would go to one of several clients, perhaps to this one",
        "does_not_arrive" => "a message would not arrive",
        "other_node" => "unknown: this node of the cluster does not serve the client",
        other => other,
    }
}
