//! Time, for the tests whose subject it is.

use std::thread;
use std::time::Duration;

/// Lets real time pass, because the standard counts seconds: an expiry is due only after it.
///
/// Never a way to wait for the broker to have done something.
pub(crate) fn time_passes(duration: Duration) {
    thread::sleep(duration);
}
