//! `tautwire serve`: parses the arguments and runs the broker.

use std::path::PathBuf;
use std::process::ExitCode;

use tautwire_reactor::OnDamage;

use super::arguments::{Argument, Arguments, Command, OptionGroup, OptionSpec, flag, value};
use super::{CommandExit, Exit};
use crate::config::{Config, ConfigError, LISTEN_OPTION, Override};
use crate::serve::LoadedConfig;
use crate::serve::reload::Source;

pub(crate) static COMMAND: Command = Command {
    name: "serve",
    usage: &[
        "[--config FILE] [--listen ADDRESS]… [--cluster SERVERS] [--threads N] [--memory] [--set KEY=VALUE]… [--recover]",
    ],
    about: "Runs the broker until it is interrupted (Ctrl-C or SIGTERM). Without options it listens on 127.0.0.1:1883,\n\
            and for MQTT over WebSocket on ws://127.0.0.1:8083/mqtt.\n\
            It is ready when it prints `listening on mqtt://ADDRESS:PORT` to standard output; the log goes to standard error.",
    groups: &[
        OptionGroup { title: "Options", options: CONFIG_OPTIONS },
        OptionGroup { title: "After damage", options: &[RECOVER] },
    ],
    notes: &["`tautwire config show` lists every key with its meaning and default.\n\n\
            Exit codes: 0 stopped by a signal; 1 invalid arguments or configuration, or an address or a data directory that\n\
            cannot be used."],
};

/// The options of a configuration, shared with `config check` and `config show`.
pub(super) const CONFIG_OPTIONS: &[OptionSpec] = &[
    value(None, "config", "FILE", "Read the configuration from this TOML file."),
    value(
        None,
        "listen",
        "ADDRESS",
        "Listen only here, instead of on the addresses of the configuration: ADDRESS:PORT, \
         ws://ADDRESS:PORT/PATH for WebSocket, mqtts:// or wss:// for the same over TLS, unix:/PATH for a Unix socket. \
         Port 0 lets the kernel choose. May be repeated.",
    ),
    flag(None, "memory", "Store nothing on disk: the same as --set data.path=\"\". Existing data stays unchanged."),
    value(
        None,
        "cluster",
        "SERVERS",
        "Join a cluster on these NATS servers with JetStream: nats://a:4222,b,c. The same as \
         --set cluster.servers=SERVERS; see docs/operating/cluster.md for the other settings.",
    ),
    value(None, "threads", "N", "Reactor threads; 0 means the number of cores minus one, and at least one."),
    value(
        None,
        "set",
        "KEY=VALUE",
        "Override a configuration key of the file, for example mqtt.max_qos=1. May be repeated.",
    ),
];

const RECOVER: OptionSpec = flag(
    None,
    "recover",
    "Start although a part of the data directory is lost: report the loss, serve the rest, and discard damaged data. \
     `tautwire data check` reports the loss without changing anything, and a backup may contain it.",
);

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut on_damage = OnDamage::Refuse;
    let source = source_of(Arguments::new(&COMMAND, parser), |option| {
        let is_recover = option == RECOVER.name;
        if is_recover {
            on_damage = OnDamage::Skip;
        }
        is_recover
    })?;
    let source = source.map_err(configuration_failure)?;
    let config = source.load().map_err(configuration_failure)?;
    if on_damage == OnDamage::Skip && config.data.path.is_none() {
        return Err(CommandExit::failure(Exit::Usage, "--recover needs data.path: without it nothing is stored"));
    }
    let prepared = prepare(&config)?;
    crate::log::init(&config.log);
    if let Some(path) = config.audit.file.get() {
        let failed = |error| format!("audit.file: {}: {error}", path.display());
        crate::log::audit::start(path, prepared.owner())
            .map_err(|error| CommandExit::failure(Exit::Usage, failed(error)))?;
    }
    for warning in config.warnings().into_iter().chain(prepared.warnings()) {
        log::warn!("{warning}");
    }
    let code = crate::serve::run(source, config, prepared, on_damage);
    log::logger().flush();
    Ok(code)
}

/// The configuration of the arguments, or all its errors.
pub(super) fn load(arguments: Arguments) -> Result<Result<Config, Vec<ConfigError>>, CommandExit> {
    Ok(source_of(arguments, |_| false)?.and_then(|source| source.load()))
}

/// The sources of the configuration. `take` handles further options of the command.
pub(super) fn source_of(
    mut arguments: Arguments,
    mut take: impl FnMut(&str) -> bool,
) -> Result<Result<Source, Vec<ConfigError>>, CommandExit> {
    let mut file: Option<PathBuf> = None;
    let mut listen = Vec::new();
    let mut overrides = Vec::new();
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("config") => {
                if file.replace(arguments.os_string()?.into()).is_some() {
                    return Err(arguments.failure("only one configuration file is allowed"));
                }
            }
            Argument::Option("listen") => listen.push(arguments.string()?),
            Argument::Option("threads") => {
                overrides.push(Override::from_option("--threads", "threads", arguments.string()?));
            }
            Argument::Option("cluster") => {
                overrides.push(Override::from_option("--cluster", "cluster.servers", arguments.string()?));
            }
            Argument::Option("memory") => {
                overrides.push(Override::from_option("--memory", "data.path", String::new()));
            }
            Argument::Option("set") => {
                let given = arguments.string()?;
                match Override::from_argument(&given) {
                    Ok(change) => overrides.push(change),
                    Err(error) => return Ok(Err(vec![error])),
                }
            }
            Argument::Option(name) if take(name) => {}
            Argument::Option(_) => return Err(arguments.failure("is not supported by this command")),
            Argument::Positional(text) => {
                return Err(arguments.command_failure(&format!("unexpected argument \"{text}\"")));
            }
        }
    }
    if !listen.is_empty() {
        overrides.push(Override::from_option(LISTEN_OPTION, "listen", listen.join(",")));
    }
    Ok(Ok(Source { file, overrides }))
}

/// The files that the configuration names, or all their errors.
pub(super) fn prepare(config: &Config) -> Result<LoadedConfig, CommandExit> {
    crate::serve::prepare(config).map_err(|errors| failure(&errors))
}

pub(super) fn configuration_failure(errors: Vec<ConfigError>) -> CommandExit {
    failure(&errors.iter().map(ToString::to_string).collect::<Vec<_>>())
}

/// One line for each error.
pub(super) fn failure(errors: &[String]) -> CommandExit {
    CommandExit::failure(Exit::Usage, errors.join("\ntautwire: "))
}

#[cfg(test)]
mod tests {
    use super::super::arguments::tests::{arguments, message};
    use super::*;

    fn config(given: &[&str]) -> Result<Config, String> {
        match load(arguments(&COMMAND, given)) {
            Ok(Ok(config)) => Ok(config),
            Ok(Err(errors)) => Err(message(configuration_failure(errors))),
            Err(stop) => Err(message(stop)),
        }
    }

    #[test]
    fn specific_options_override_set() {
        let config =
            config(&["--listen", "127.0.0.1:0", "--set", "listen=127.0.0.1:9", "--threads", "2", "--listen=[::1]:0"]);
        let config = config.expect("good");
        let listen: Vec<String> = config.listeners().iter().map(ToString::to_string).collect();
        assert_eq!(listen, ["mqtt://127.0.0.1:0", "mqtt://[::1]:0"]);
        assert_eq!(config.threads, 2);
    }

    #[test]
    fn errors_name_the_option() {
        assert!(
            config(&["--threads", "many"])
                .expect_err("refused")
                .starts_with("--threads: threads: expected whole number")
        );
        assert!(
            config(&["--listen", "here"])
                .expect_err("refused")
                .starts_with("--listen: listen: \"here\" is not an IP address")
        );
        assert!(config(&["--sett", "a=b"]).expect_err("refused").contains("did you mean --set?"));
        assert!(config(&["extra"]).expect_err("refused").contains("unexpected argument \"extra\""));
        assert!(config(&["--config", "a", "--config", "b"]).expect_err("refused").contains("only one"));
    }

    #[test]
    fn every_documented_option_is_accepted() {
        for option in CONFIG_OPTIONS {
            let name = format!("--{}", option.name);
            let result = config(&[&name, "1"]);
            assert!(
                !result.as_ref().is_err_and(|text| text.contains("not supported by this command")),
                "{name}: {result:?}"
            );
        }
    }
}
