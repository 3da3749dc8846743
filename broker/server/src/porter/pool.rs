//! Threads that compute what takes too long for those that serve clients.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use tautwire_identity::Work;
use tautwire_reactor::Ticket;

use super::{Shared, verdict};

/// Something to compute, and where the verdict goes.
pub(super) struct Task {
    pub(super) work: Work,
    pub(super) ticket: Ticket,
    pub(super) listener: Arc<str>,
}

/// The threads. They begin with the first task, and end when this is dropped.
pub(super) struct Pool {
    queue: Arc<Queue>,
    threads: usize,
    tasks_max: usize,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    bell: Condvar,
}

#[derive(Default)]
struct Waiting {
    tasks: VecDeque<Task>,
    has_threads: bool,
    is_over: bool,
}

impl Pool {
    /// So many threads, or as many as suit the machine for 0; `tasks_max` tasks may wait for them.
    pub(super) fn new(threads: usize, tasks_max: usize) -> Pool {
        let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = if threads == 0 { (cores() / 2).max(1) } else { threads };
        Pool { queue: Arc::default(), threads, tasks_max }
    }

    /// Has a task done.
    ///
    /// # Errors
    /// As many wait as may, or no thread can be started.
    pub(super) fn give(&self, task: Task, shared: &Arc<Shared>) -> Result<(), Task> {
        let mut waiting = self.queue.lock();
        if waiting.tasks.len() >= self.tasks_max {
            return Err(task);
        }
        if !waiting.has_threads {
            if let Err(error) = self.start(shared) {
                log::error!("a thread for authentication cannot be started: {error}");
                return Err(task);
            }
            waiting.has_threads = true;
        }
        waiting.tasks.push_back(task);
        drop(waiting);
        self.queue.bell.notify_one();
        Ok(())
    }

    /// Fails only if there is no thread at all.
    fn start(&self, shared: &Arc<Shared>) -> io::Result<()> {
        for number in 0..self.threads {
            let (queue, shared) = (self.queue.clone(), shared.clone());
            let started = thread::Builder::new().name(format!("auth-{number}")).spawn(move || queue.work(&shared));
            if let Err(error) = started {
                if number == 0 {
                    return Err(error);
                }
                log::warn!("authentication goes on with {number} threads: {error}");
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue.lock().is_over = true;
        self.queue.bell.notify_all();
    }
}

impl Queue {
    fn work(&self, shared: &Shared) {
        while let Some(Task { work, ticket, listener }) = self.next() {
            // Of work that has been run, nothing is left.
            if let Ok(verdict) = verdict(&listener, work.run(&(), shared.now())) {
                ticket.decide(verdict);
            }
        }
    }

    fn next(&self) -> Option<Task> {
        let mut waiting = self.lock();
        loop {
            if waiting.is_over {
                return None;
            }
            if let Some(task) = waiting.tasks.pop_front() {
                return Some(task);
            }
            waiting = self.bell.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
