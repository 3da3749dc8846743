//! `tautwire user`: manages the users of a password file.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use tautwire_identity::edit::{self, Derived};
use tautwire_identity::{Account, PasswordCost, PasswordFile, ScramHash, Secret};

use super::arguments::{Argument, Arguments, Command, OptionGroup, OptionSpec, flag, value};
use super::client_options::environment_password;
use super::serve::configuration_failure;
use super::{CommandExit, Exit, parser, print, unknown_command};
use crate::config::Config;
use crate::identity;

const FILE: OptionSpec = value(
    Some('f'),
    "file",
    "FILE",
    "The password file. Default: auth.password_file of --config, or else the file users in the working directory.",
);
const CONFIG: OptionSpec =
    value(None, "config", "FILE", "The configuration of the broker, for auth.password_file and auth.password_cost.");
const PASSWORD_OPTIONS: &[OptionSpec] = &[
    FILE,
    CONFIG,
    value(
        None,
        "cost",
        "COST",
        "Cost of the hash: low, for long random passwords; default; high; or m=KIB,t=ITERATIONS,p=LANES of Argon2id. It determines how long \
         each login takes. Default: auth.password_cost of --config, or else default.",
    ),
    value(
        None,
        "password-file",
        "FILE",
        "Read the user's password from this file; a trailing line end is ignored. Default: the environment variable \
         TAUTWIRE_PASSWORD, if it is set; otherwise the program prompts for it, or reads it from standard input.",
    ),
    flag(
        None,
        "no-scram",
        "Store only the Argon2id hash. The user cannot log in by SCRAM then, and passwords are harder to guess from the file.",
    ),
];
const NOTES: &str = "Exit codes: 0 done; 1 invalid arguments, file or user.";

pub(crate) static ADD: Command = Command {
    name: "user add",
    usage: &["[--file FILE] [--cost COST] [--password-file FILE] [--no-scram] NAME"],
    about: "Adds a user to a password file. A missing file is created; only its owner can read it.",
    groups: &[OptionGroup { title: "Options", options: PASSWORD_OPTIONS }],
    notes: &[NOTES],
};

pub(crate) static PASSWD: Command = Command {
    name: "user passwd",
    usage: &["[--file FILE] [--cost COST] [--password-file FILE] [--no-scram] NAME"],
    about: "Changes the password of a user in a password file.",
    groups: &[OptionGroup { title: "Options", options: PASSWORD_OPTIONS }],
    notes: &[NOTES],
};

pub(crate) static REMOVE: Command = Command {
    name: "user remove",
    usage: &["[--file FILE] NAME"],
    about: "Removes a user from a password file.",
    groups: &[OptionGroup { title: "Options", options: &[FILE, CONFIG] }],
    notes: &[NOTES],
};

pub(crate) static LIST: Command = Command {
    name: "user list",
    usage: &["[--file FILE]"],
    about: "Lists the users of a password file with their login methods, and reports all errors in the file.",
    groups: &[OptionGroup { title: "Options", options: &[FILE, CONFIG] }],
    notes: &[NOTES],
};

pub(super) fn run(arguments: Vec<OsString>) -> Result<ExitCode, CommandExit> {
    let mut arguments = arguments.into_iter();
    let action = arguments.next().map(|word| word.to_string_lossy().into_owned());
    let rest = parser(arguments.collect());
    match action.as_deref() {
        Some("add") => add(&Options::read(&ADD, rest)?),
        Some("passwd") => change(&Options::read(&PASSWD, rest)?),
        Some("remove") => remove(&Options::read(&REMOVE, rest)?),
        Some("list") => list(&Options::read(&LIST, rest)?),
        Some("--help") => {
            Err(CommandExit::Text([&ADD, &PASSWD, &REMOVE, &LIST].map(|command| command.help()).join("\n")))
        }
        Some(other) => Err(unknown_command(&format!("user {other}"))),
        None => Err(CommandExit::failure(
            Exit::Usage,
            "write `tautwire user add`, `passwd`, `remove` or `list`; `tautwire user --help` explains",
        )),
    }
}

struct Options {
    file: PathBuf,
    password_file: Option<PathBuf>,
    has_scram: bool,
    cost: PasswordCost,
    /// Empty for `list`.
    name: String,
}

impl Options {
    fn read(command: &'static Command, parser: lexopt::Parser) -> Result<Options, CommandExit> {
        let mut arguments = Arguments::new(command, parser);
        let (mut file, mut config, mut cost): (Option<PathBuf>, Option<PathBuf>, Option<PasswordCost>) =
            Default::default();
        let (mut password_file, mut has_scram, mut names) = (None, true, Vec::new());
        while let Some(argument) = arguments.next()? {
            match argument {
                Argument::Option("file") => file = Some(arguments.os_string()?.into()),
                Argument::Option("config") => config = Some(arguments.os_string()?.into()),
                Argument::Option("cost") => {
                    let text = arguments.string()?;
                    let wrong = |why| arguments.failure(&format!("\"{}\": {why}", text.escape_debug()));
                    cost = Some(PasswordCost::parse(&text).map_err(wrong)?);
                }
                Argument::Option("password-file") => password_file = Some(arguments.os_string()?.into()),
                Argument::Option(_) => has_scram = false,
                Argument::Positional(name) => names.push(name),
            }
        }
        let takes_name = command.name != LIST.name;
        let name = match (names.len(), takes_name) {
            (1, true) => names.remove(0),
            (0, false) => String::new(),
            (_, true) => return Err(arguments.command_failure("write the name of one user")),
            (_, false) => return Err(arguments.command_failure("this command lists all users and takes no name")),
        };
        let auth = match &config {
            Some(config) => Some(Config::load(Some(config), &[]).map_err(configuration_failure)?.auth),
            None => None,
        };
        let configured_file = auth.as_ref().and_then(|auth| auth.password_file.get().map(PathBuf::from));
        Ok(Options {
            file: file.or(configured_file).unwrap_or_else(|| "users".into()),
            cost: cost.or(auth.map(|auth| auth.password_cost.0)).unwrap_or_default(),
            password_file,
            has_scram,
            name,
        })
    }

    fn password(&self) -> Result<Secret, CommandExit> {
        let password = match (&self.password_file, environment_password().filter(|password| !password.is_empty())) {
            (Some(path), _) => identity::from_file(path),
            (None, Some(password)) => Ok(Secret::new(password.into_encoded_bytes())),
            (None, None) => identity::prompt_password(&self.name),
        };
        password.map_err(failure)
    }

    fn account(&self) -> Result<Account, CommandExit> {
        let password = self.password()?;
        let mut failed = None;
        let account = edit::account(&password, Derived { scram: self.has_scram, cost: self.cost }, &mut |bytes| {
            failed = identity::random(bytes).err().or(failed.take());
        });
        match failed {
            Some(why) => Err(failure(why)),
            None => account.map_err(failure),
        }
    }
}

fn add(options: &Options) -> Result<ExitCode, CommandExit> {
    // Check this before prompting for a password.
    let text = identity::read(&options.file).unwrap_or_default();
    edit::can_add(&text, &options.name).map_err(failure)?;
    let account = options.account()?;
    identity::edit(&options.file, true, |text| edit::add(text, &options.name, &account)).map_err(failure)?;
    Ok(done(options, "added to"))
}

fn change(options: &Options) -> Result<ExitCode, CommandExit> {
    let text = identity::read(&options.file).map_err(failure)?;
    edit::remove(&text, &options.name).map_err(failure)?;
    let account = options.account()?;
    identity::edit(&options.file, false, |text| edit::change(text, &options.name, &account)).map_err(failure)?;
    Ok(done(options, "changed in"))
}

fn remove(options: &Options) -> Result<ExitCode, CommandExit> {
    identity::edit(&options.file, false, |text| edit::remove(text, &options.name)).map_err(failure)?;
    Ok(done(options, "removed from"))
}

fn list(options: &Options) -> Result<ExitCode, CommandExit> {
    let text = identity::read(&options.file).map_err(failure)?;
    let file = PasswordFile::parse(&options.file.display().to_string(), &text)
        .map_err(|errors| failure(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    let width = file.users().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    let lines = file.users().map(|(name, account)| format!("{name:width$}  {}\n", login_methods(account)));
    Ok(print(&lines.collect::<String>()))
}

/// The login methods of a user.
fn login_methods(account: &Account) -> String {
    let scram = ScramHash::ALL.into_iter().filter(|hash| account.has_scram(*hash)).map(ScramHash::method);
    let login_methods: Vec<&str> = std::iter::once(account.hash_name()).chain(scram).collect();
    login_methods.join(", ")
}

fn done(options: &Options, action: &str) -> ExitCode {
    print(&format!("user {} {action} {}\n", options.name, options.file.display()))
}

fn failure(why: impl std::fmt::Display) -> CommandExit {
    CommandExit::failure(Exit::Usage, why)
}
