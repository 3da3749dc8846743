//! `tautwire data dump`: prints every record of a data directory, one per line.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufWriter, StdoutLock, Write as _};
use std::process::ExitCode;

use tautwire_journal::record::{Record, Records};
use tautwire_journal::{
    DirectoryUsage, Disk, Frame, LogError, Position, Reader, SessionId, SnapshotReader, Snapshots, Step,
};
use tautwire_message::MessageId;
use tautwire_protocol::{TopicFilter, topic_matches};
use tautwire_session::split_session_name;

use super::super::arguments::{Argument, Arguments, Command, OptionGroup, flag, value};
use super::super::{CommandExit, Exit};
use super::check::JSON;
use super::record::{fields, message_of};
use super::source::{self, Source};
use crate::fields::Fields;

pub(crate) static COMMAND: Command = Command {
    name: "data dump",
    usage: &[
        "[--data DIR | --config FILE | --set data.path=DIR] [--json] [--payloads] [--session ID] [--topic FILTER]",
    ],
    about: "Prints the records of a data directory, one per line: those of the snapshot, then those of the log after it.\n\
            A line has `snapshot` or `log`, position, epoch, shard and turn of the frame, and the record. It changes nothing.",
    groups: &[
        OptionGroup { title: "Options", options: source::OPTIONS },
        OptionGroup {
            title: "Filters",
            options: &[
                value(None, "session", "ID", "Only records of the session with this client identifier."),
                value(
                    None,
                    "topic",
                    "FILTER",
                    "Only messages with matching topics, matching filters, and records that refer to such a message in the same frame.",
                ),
            ],
        },
        OptionGroup {
            title: "Output",
            options: &[
                JSON,
                flag(None, "payloads", "Print payloads, too: as text, or in hexadecimal if they are not text."),
            ],
        },
    ],
    notes: &[
        "Damage is printed on a separate line at its position. While a broker runs, the dump ends where the broker is writing.",
        source::EXIT_CODES,
    ],
};

pub(super) fn run(parser: lexopt::Parser) -> Result<ExitCode, CommandExit> {
    let mut arguments = Arguments::new(&COMMAND, parser);
    let mut source = Source::default();
    let (mut json, mut payloads, mut session, mut topic) = (false, false, None, None);
    while let Some(argument) = arguments.next()? {
        match argument {
            Argument::Option("json") => json = true,
            Argument::Option("payloads") => payloads = true,
            Argument::Option("session") => session = Some(arguments.string()?),
            Argument::Option("topic") => {
                let text = arguments.string()?;
                if let Err(error) = TopicFilter::new(&text) {
                    return Err(arguments.failure(&error.to_string()));
                }
                topic = Some(text);
            }
            Argument::Option(name) if source.take(name, &mut arguments)? => {}
            Argument::Option(_) => return Err(arguments.failure("is not supported by this command")),
            Argument::Positional(text) => {
                return Err(arguments.command_failure(&format!("unexpected argument \"{text}\"")));
            }
        }
    }
    let path = source.path(&arguments)?;
    let (disk, is_in_use) = source::open(&path)?;
    let out = BufWriter::new(io::stdout().lock());
    let mut dump = Dump { json, payloads, session, topic, clients: HashMap::new(), lost: false, out };
    match dump.all(&disk, is_in_use) {
        Ok(()) => {}
        Err(DumpError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::Success.into()),
        Err(DumpError::Output(error)) => {
            return Err(CommandExit::failure(Exit::Usage, format!("cannot write to standard output: {error}")));
        }
        Err(DumpError::Log(error)) => return Err(source::failed(&path, &error)),
    }
    Ok(if dump.lost { Exit::DAMAGED.into() } else { Exit::Success.into() })
}

/// Why a dump ends early.
enum DumpError {
    Output(io::Error),
    Log(LogError),
}

impl From<io::Error> for DumpError {
    fn from(error: io::Error) -> DumpError {
        DumpError::Output(error)
    }
}

impl From<LogError> for DumpError {
    fn from(error: LogError) -> DumpError {
        DumpError::Log(error)
    }
}

struct Dump {
    json: bool,
    payloads: bool,
    session: Option<String>,
    topic: Option<String>,
    /// Client identifiers of sessions that have begun and not ended.
    clients: HashMap<SessionId, String>,
    lost: bool,
    out: BufWriter<StdoutLock<'static>>,
}

impl Dump {
    fn all<D: Disk>(&mut self, disk: &D, is_in_use: bool) -> Result<(), DumpError> {
        if DirectoryUsage::of(disk)? == DirectoryUsage::default() {
            return Err(LogError::Empty.into());
        }
        let Snapshots { whole, damaged } = Snapshots::of(disk)?;
        for name in &damaged {
            self.loss(&format!("{name} is incomplete"))?;
        }
        let snapshot = match (whole, damaged.first()) {
            (None, Some(newest)) => SnapshotReader::salvage(disk, newest)?,
            (whole, _) => whole,
        };
        let mut covered = Position::START;
        if let Some(mut snapshot) = snapshot {
            covered = snapshot.covered();
            while let Some(frame) = snapshot.step()? {
                self.frame("snapshot", &frame)?;
            }
        }
        let mut reader = if is_in_use { Reader::open_in_use(disk, covered)? } else { Reader::open(disk, covered)? };
        while let Some(step) = reader.step()? {
            match step {
                Step::Frame(frame) => self.frame("log", &frame)?,
                Step::Damage(damage) => self.loss(&damage.to_string())?,
            }
        }
        Ok(self.out.flush()?)
    }

    fn frame(&mut self, from: &'static str, frame: &Frame<'_>) -> Result<(), DumpError> {
        let mut records = Vec::new();
        for record in Records::new(frame.body) {
            match record {
                Ok(record) => records.push(record),
                Err(error) => self.loss(&format!("the frame at position {}: {error}", frame.position))?,
            }
        }
        for record in &records {
            if let Record::Opened { session, client_id, .. } = record {
                let (_, client_id) = split_session_name(client_id);
                self.clients.insert(*session, client_id.to_owned());
            }
        }
        let selected = self.selected_messages(&records);
        for record in &records {
            if self.is_selected(record, &selected) {
                self.line(from, frame, record)?;
            }
        }
        for record in &records {
            if let Record::Ended { session } = record {
                self.clients.remove(session);
            }
        }
        Ok(())
    }

    /// The messages of the frame that match the filters, or that a matching record refers to.
    fn selected_messages(&self, records: &[Record<'_>]) -> HashSet<MessageId> {
        let of_session = |record: &&Record<'_>| self.session.is_none() || self.is_of_session(record);
        let named: HashSet<MessageId> = records.iter().filter(of_session).filter_map(message_of).collect();
        let of_topic = |record: &&Record<'_>| self.topic.is_none() || self.is_of_topic(record);
        let messages = records.iter().filter(|record| matches!(record, Record::Message(_)));
        messages.filter(of_topic).filter_map(message_of).filter(|id| named.contains(id)).collect()
    }

    fn is_selected(&self, record: &Record<'_>, messages: &HashSet<MessageId>) -> bool {
        let names_one = message_of(record).is_some_and(|id| messages.contains(&id));
        let of_session =
            self.session.is_none() || self.is_of_session(record) || matches!(record, Record::Message(_)) && names_one;
        let of_topic = self.topic.is_none() || self.is_of_topic(record) || names_one;
        of_session && of_topic
    }

    fn is_of_session(&self, record: &Record<'_>) -> bool {
        let client = record.session().and_then(|session| self.clients.get(&session));
        client.is_some() && client == self.session.as_ref()
    }

    fn is_of_topic(&self, record: &Record<'_>) -> bool {
        match (&self.topic, record.topic()) {
            (Some(filter), Some(topic)) => filter == topic || topic_matches(filter, topic),
            _ => false,
        }
    }

    fn line(&mut self, from: &'static str, frame: &Frame<'_>, record: &Record<'_>) -> Result<(), DumpError> {
        let mut text = String::new();
        let session = record.session();
        let client_id = session.and_then(|session| self.clients.get(&session)).map(String::as_str);
        let owner = Fields::default().with("session", session.map(SessionId::get)).with("client_id", client_id);
        let values = fields(record, self.payloads);
        let (position, epoch, shard, turn) = (frame.position.0, frame.epoch.get(), frame.shard.0, frame.turn.0);
        if self.json {
            Fields::default()
                .with("from", from)
                .with("position", position)
                .with("epoch", format!("{epoch:016x}"))
                .with("shard", u64::from(shard))
                .with("turn", turn)
                .with("record", record.name())
                .with("session", session.map(SessionId::get))
                .with("client_id", client_id)
                .with("fields", values)
                .push_json(&mut text);
        } else {
            text = format!("{from} {position} {epoch:016x} {shard} {turn} {}", record.name());
            owner.push_text(&mut text);
            values.push_text(&mut text);
        }
        Ok(writeln!(self.out, "{text}")?)
    }

    fn loss(&mut self, description: &str) -> Result<(), DumpError> {
        self.lost = true;
        if !self.json {
            return Ok(writeln!(self.out, "damage: {description}")?);
        }
        let mut text = String::new();
        Fields::default().with("damage", description).push_json(&mut text);
        Ok(writeln!(self.out, "{text}")?)
    }
}
