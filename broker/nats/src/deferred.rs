//! Commands that wait because too many messages of a partition are in flight.
//!
//! Later commands of the same client wait behind such a message, so that the client's order is kept. Other clients continue: a partition
//! whose stream is electing a leader stops only those that publish to it. The size is bounded, because reading from a client is paused as
//! soon as its first message is deferred.

use std::collections::{HashMap, VecDeque};

use tautwire_cluster::names::{ClientKey, PARTITIONS, Partition};

use crate::command::Command;

#[derive(Debug, Default)]
pub(crate) struct DeferredCommands {
    clients: HashMap<ClientKey, VecDeque<Command>>,
    /// Clients whose first command waits for a partition, in order of arrival.
    queues: [VecDeque<ClientKey>; PARTITIONS as usize],
    bytes: usize,
}

impl DeferredCommands {
    pub(crate) fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Returns the total size of the commands.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a command that must wait behind others of its client. Returns it if there are none.
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

    /// Defers a message whose partition is full. It becomes the first command of its client, which goes to the end of the queue, or stays
    /// at the front if it was there.
    pub(crate) fn defer(&mut self, client: ClientKey, partition: Partition, command: Command, was_first: bool) {
        self.bytes += command.bytes();
        self.clients.entry(client).or_default().push_front(command);
        let queue = &mut self.queues[partition.index()];
        if was_first { queue.push_front(client) } else { queue.push_back(client) }
    }

    /// Removes the client at the front of a queue, with all its commands. The caller defers those that it cannot execute.
    pub(crate) fn next(&mut self, partition: Partition) -> Option<(ClientKey, VecDeque<Command>)> {
        let client = self.queues[partition.index()].pop_front()?;
        let commands = self.clients.remove(&client).unwrap_or_default();
        self.bytes -= commands.iter().map(Command::bytes).sum::<usize>();
        Some((client, commands))
    }

    /// Puts the rest of a client's commands back after the one that was deferred again.
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
    fn clients_take_turns_and_each_keeps_its_order() {
        let (mut deferred, partition) = (DeferredCommands::default(), Partition::new(3).expect("a partition"));
        for client in [1, 2] {
            let message = deferred.join(publish(client, 1)).expect("nothing is deferred");
            deferred.defer(ClientKey(client), partition, message, false);
            assert!(deferred.join(publish(client, 2)).is_none() && deferred.join(publish(client, 3)).is_none());
        }
        assert!(deferred.join(publish(3, 1)).is_some(), "other clients continue");
        assert_eq!(deferred.bytes(), 60);

        let (client, mut commands) = deferred.next(partition).expect("a client");
        assert_eq!((client, tickets(&commands)), (ClientKey(1), vec![1, 2, 3]));
        commands.pop_front();
        let second = commands.pop_front().expect("a command");
        deferred.defer(client, partition, second, true);
        deferred.requeue_rest(client, commands);

        let (client, commands) = deferred.next(partition).expect("a client");
        assert_eq!(
            (client, tickets(&commands)),
            (ClientKey(1), vec![2, 3]),
            "it was not executed, and stays at the front"
        );
        let (client, commands) = deferred.next(partition).expect("a client");
        assert_eq!((client, tickets(&commands)), (ClientKey(2), vec![1, 2, 3]));
        assert!(deferred.next(partition).is_none() && deferred.is_empty() && deferred.bytes() == 0);
    }
}
