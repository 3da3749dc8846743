//! The mode of a broker without storage: nothing outlives the process.

use tautwire_session::NoJournal;

use super::Mode;
use crate::shard_context::ShardContext;

/// The mode of a broker without storage: nothing outlives the process.
#[derive(Debug, Default, Clone, Copy)]
pub struct Volatile;

#[expect(private_interfaces, reason = "modes are part of the engine")]
impl Mode for Volatile {
    type Journal = NoJournal;
    type State = ();

    fn begin(self, _context: &mut ShardContext) -> (NoJournal, ()) {
        (NoJournal, ())
    }
}
