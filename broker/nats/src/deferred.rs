//! Commands that wait because the partition of a client's message has too much on the way.
//!
//! What follows such a message from the same client waits behind it, so that the client's order stays. Others go on: a partition whose
//! stream elects a leader stops those who publish to it, and nobody else. How much is here is bounded by the clients: they are not read
//! from as soon as the first of their messages is held.

use std::collections::{HashMap, VecDeque};

use tautwire_cluster::names::{ClientKey, PARTITIONS, Partition};

use crate::command::Command;

#[derive(Debug, Default)]
pub(crate) struct DeferredCommands {
    clients: HashMap<ClientKey, VecDeque<Command>>,
    /// Clients whose first command waits for a partition, in the order in which they came.
    lines: [VecDeque<ClientKey>; PARTITIONS as usize],
    bytes: usize,
}

impl DeferredCommands {
    pub(crate) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// What all of them take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a command that has to wait behind others of its client; gives it back if there are none.
    pub(crate) fn join(&mut self, command: Command) -> Option<Command> {
        match command.client().and_then(|client| self.clients.get_mut(&client)) {
            Some(queue) => {
                self.bytes += command.bytes();
                queue.push_back(command);
                None
            }
            None => Some(command),
        }
    }

    /// A message finds no room in its partition. It becomes the first of its client again, which goes to the end of the line, or stays at
    /// its head if it has just been there.
    pub(crate) fn defer(&mut self, client: ClientKey, partition: Partition, command: Command, was_first: bool) {
        self.bytes += command.bytes();
        self.clients.entry(client).or_default().push_front(command);
        let line = &mut self.lines[partition.index()];
        if was_first { line.push_front(client) } else { line.push_back(client) }
    }

    /// The client at the head of a line, with all its commands. What is not carried out of them is to be held again.
    pub(crate) fn next(&mut self, partition: Partition) -> Option<(ClientKey, VecDeque<Command>)> {
        let client = self.lines[partition.index()].pop_front()?;
        let commands = self.clients.remove(&client).unwrap_or_default();
        self.bytes -= commands.iter().map(Command::bytes).sum::<usize>();
        Some((client, commands))
    }

    /// What is left of a client's commands comes back behind the one that was held again.
    pub(crate) fn requeue_rest(&mut self, client: ClientKey, rest: VecDeque<Command>) {
        if !rest.is_empty() {
            self.bytes += rest.iter().map(Command::bytes).sum::<usize>();
            self.clients.entry(client).or_default().extend(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(client: u128, ticket: u64) -> Command {
        let topic = "t".to_owned();
        Command::Publish {
            client: ClientKey(client),
            ticket,
            refusal_seen: 0,
            topic,
            packet_id: None,
            retain: None,
            message: vec![0; 9],
        }
    }

    fn tickets(commands: &VecDeque<Command>) -> Vec<u64> {
        let ticket = |command: &Command| match command {
            Command::Publish { ticket, .. } => *ticket,
            _ => 0,
        };
        commands.iter().map(ticket).collect()
    }

    #[test]
    fn clients_wait_in_line_and_each_keeps_its_order() {
        let (mut deferred, partition) = (DeferredCommands::default(), Partition::new(3).expect("a partition"));
        for client in [1, 2] {
            let message = deferred.join(publish(client, 1)).expect("nothing is held");
            deferred.defer(ClientKey(client), partition, message, false);
            assert!(deferred.join(publish(client, 2)).is_none() && deferred.join(publish(client, 3)).is_none());
        }
        assert!(deferred.join(publish(3, 1)).is_some(), "others go on");
        assert_eq!(deferred.bytes(), 60);

        let (client, mut commands) = deferred.next(partition).expect("a client");
        assert_eq!((client, tickets(&commands)), (ClientKey(1), vec![1, 2, 3]));
        commands.pop_front();
        let second = commands.pop_front().expect("a command");
        deferred.defer(client, partition, second, true);
        deferred.requeue_rest(client, commands);

        let (client, commands) = deferred.next(partition).expect("a client");
        assert_eq!((client, tickets(&commands)), (ClientKey(1), vec![2, 3]), "it was not done, and stays at the head");
        let (client, commands) = deferred.next(partition).expect("a client");
        assert_eq!((client, tickets(&commands)), (ClientKey(2), vec![1, 2, 3]));
        assert!(deferred.next(partition).is_none() && deferred.is_empty() && deferred.bytes() == 0);
    }
}
