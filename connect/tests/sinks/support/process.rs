//! A process that can be killed and started again.

use std::process::{Child, Command};

/// A server or connector.
pub(crate) struct Process {
    make: Box<dyn Fn() -> Command + Send>,
    child: Option<Child>,
}

impl Process {
    pub(crate) fn new(make: impl Fn() -> Command + Send + 'static) -> Process {
        Process { make: Box::new(make), child: None }
    }

    pub(crate) fn start(&mut self) {
        self.child = Some((self.make)().spawn().unwrap());
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
