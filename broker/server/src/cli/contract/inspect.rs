//! `tautwire contract check`, `list` and `show`.

use std::fmt::Write as _;
use std::process::ExitCode;

use tautwire_contracts::{Catalogue, Contract, OnViolation, Unacknowledged, discovery};
use tautwire_reactor::counted;

use super::super::arguments::{Argument, Arguments, Command, OptionGroup, OptionSpec, flag};
use super::super::{CommandExit, Exit, print};
use super::source::{self, Source, SourceOptions};

pub(crate) static CHECK: Command = Command {
    name: "contract check",
    usage: &["[--path DIR]"],
    about: "Checks the contracts of a folder and reports all errors with file, line and column.",
    groups: &[OptionGroup { title: "Options", options: &[source::PATH] }],
    notes: &["Exit codes: 0 valid; 1 invalid."],
};

pub(crate) static LIST: Command = Command {
    name: "contract list",
    usage: &["[--path DIR | --admin URL --token-file FILE] [--json]"],
    about: "Lists contracts. `tautwire discover` does the same over MQTT.",
    groups: &[
        OptionGroup { title: "Options", options: source::OPTIONS },
        OptionGroup { title: "Output", options: &[JSON] },
    ],
    notes: &[NOTES],
};

pub(crate) static SHOW: Command = Command {
    name: "contract show",
    usage: &["[--path DIR | --admin URL --token-file FILE] [--json] NAME"],
    about: "Shows a contract with its schema.",
    groups: &[
        OptionGroup { title: "Options", options: source::OPTIONS },
        OptionGroup { title: "Output", options: &[JSON] },
    ],
    notes: &[NOTES],
};

const JSON: OptionSpec = flag(None, "json", "Print JSON, as the broker publishes it below $SYS/contracts/.");

/// Exit codes of commands that use the admin API.
pub(super) const NOTES: &str = "Exit codes: 0 done; 1 invalid arguments, files or contracts; 2 no connection to the admin API; \
                                3 refused by it.";

pub(super) fn check(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let inspect = InspectArguments::parse(&CHECK, parser)?;
    inspect.no_names()?;
    let count = inspect.source.load()?.contracts().len();
    Ok(print(&format!("{} {} valid\n", counted(count, "contract"), if count == 1 { "is" } else { "are" })))
}

pub(super) fn list(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let inspect = InspectArguments::parse(&LIST, parser)?;
    inspect.no_names()?;
    let catalogue = inspect.source.load()?;
    Ok(print(&if inspect.json { index_json(&catalogue) } else { table(&catalogue) }))
}

pub(super) fn show(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let inspect = InspectArguments::parse(&SHOW, parser)?;
    let [name] = inspect.names.as_slice() else {
        return Err(inspect.arguments.command_failure("write the name of one contract"));
    };
    let catalogue = inspect.source.load()?;
    Ok(print(&description(named(&catalogue, name)?, inspect.json)))
}

/// The values of the arguments.
struct InspectArguments {
    arguments: Arguments,
    source: Source,
    json: bool,
    names: Vec<String>,
}

impl InspectArguments {
    fn parse(command: &'static Command, parser: lexopt::Parser) -> Result<InspectArguments, CommandExit> {
        let mut arguments = Arguments::new(command, parser);
        let mut options = SourceOptions::default();
        let (mut json, mut names) = (false, Vec::new());
        while let Some(argument) = arguments.next()? {
            match argument {
                Argument::Option("json") => json = true,
                Argument::Option(name) if options.take(name, &mut arguments)? => {}
                Argument::Option(_) => return Err(arguments.failure("is not supported by this command")),
                Argument::Positional(name) => names.push(name),
            }
        }
        Ok(InspectArguments { source: options.source(&arguments)?, arguments, json, names })
    }

    fn no_names(&self) -> Result<(), CommandExit> {
        match self.names.first() {
            Some(name) => Err(self.arguments.command_failure(&format!("unexpected argument \"{name}\""))),
            None => Ok(()),
        }
    }
}

/// The contract with this name, or an error that lists the existing ones.
pub(super) fn named<'c>(catalogue: &'c Catalogue, name: &str) -> Result<&'c Contract, CommandExit> {
    catalogue.named(name).map(|contract| &**contract).ok_or_else(|| {
        let known = catalogue.contracts().iter().map(|contract| contract.name());
        let near = crate::nearest::nearest(name, known.clone());
        let hint = match near {
            Some(near) => format!("; did you mean {near}?"),
            None => format!("; existing contracts: {}", known.collect::<Vec<_>>().join(", ")),
        };
        CommandExit::failure(Exit::Usage, format!("unknown contract {}{hint}", name.escape_debug()))
    })
}

/// All contracts as JSON, like `$SYS/contracts/index.json`.
pub(in crate::cli) fn index_json(catalogue: &Catalogue) -> String {
    String::from_utf8(discovery::index_json(catalogue)).unwrap_or_default() + "\n"
}

/// A line for each contract.
pub(in crate::cli) fn table(catalogue: &Catalogue) -> String {
    let mut rows = vec![["NAME", "TOPICS", "FORMAT", "ON VIOLATION", "TYPE"].map(str::to_owned)];
    for contract in catalogue.contracts() {
        rows.push([
            contract.name().to_owned(),
            contract.topics().as_str().to_owned(),
            formats(contract),
            policy(contract).to_owned(),
            type_name(contract).to_owned(),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    let mut text = String::new();
    for [name, topics, formats, policy, type_name] in &rows {
        let [a, b, c, d] = widths;
        let _ = writeln!(text, "{name:a$}  {topics:b$}  {formats:c$}  {policy:d$}  {type_name}");
    }
    text
}

/// All details of a contract, with the text of its schema.
pub(in crate::cli) fn description(contract: &Contract, json: bool) -> String {
    if json {
        return String::from_utf8(discovery::describe(contract)).unwrap_or_default() + "\n";
    }
    let unacknowledged = if contract.unacknowledged() == Unacknowledged::Drop { "drop" } else { "disconnect" };
    let unknown_fields = if contract.unknown_fields_refused() { "reject" } else { "allow" };
    let topic_fields: Vec<String> =
        contract.topic_fields().map(|(level, field)| format!("{level} = {field}")).collect();
    let mut text = String::new();
    for (key, value) in [
        ("name", contract.name()),
        ("topics", contract.topics().as_str()),
        ("filter", contract.topics().filter()),
        ("format", &formats(contract)),
        ("on_violation", contract.on_violation().name()),
        ("unacknowledged", unacknowledged),
        ("unknown_fields", unknown_fields),
        ("topic_fields", &topic_fields.join(", ")),
        ("schema", &contract.schema().file),
        ("message", &contract.schema().message),
        ("sha256", &contract.schema().sha256),
    ] {
        if !value.is_empty() {
            let _ = writeln!(text, "{key:16}{value}");
        }
    }
    let source = contract.schema().source.trim_end();
    let _ = writeln!(text, "\n{source}");
    text
}

fn formats(contract: &Contract) -> String {
    contract.formats().iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
}

/// The policy for violations. It points out that `observe` delivers them, which is unusual for a contract.
fn policy(contract: &Contract) -> &'static str {
    match contract.on_violation() {
        OnViolation::Observe => "observe (delivers)",
        policy => policy.name(),
    }
}

/// The message type, or the file of a JSON Schema.
fn type_name(contract: &Contract) -> &str {
    let schema = contract.schema();
    if schema.message.is_empty() { &schema.file } else { &schema.message }
}
