use crate::Error;

/// This client's side of an extended authentication (section 4.12).
///
/// It is called in the middle of the protocol, so it must not wait for anything, unless it says that it may. With feature `scram`, `Scram` is one.
///
/// ```
/// use tautwire_client::{Authenticator, Error, Options};
///
/// /// A token, and one challenge.
/// struct Token(Vec<u8>);
///
/// impl Authenticator for Token {
///     fn method(&self) -> &str {
///         "JWT"
///     }
///
///     fn begin(&mut self) -> Result<Option<Vec<u8>>, Error> {
///         Ok(Some(self.0.clone()))
///     }
///
///     fn respond(&mut self, _challenge: Option<&[u8]>) -> Result<Option<Vec<u8>>, Error> {
///         Err(Error::Authentication("a token is all there is".into()))
///     }
/// }
///
/// let options = Options::new("mqtt://localhost:1883")?.authenticator(Token(b"eyJhbGciOi...".to_vec()));
/// # Ok::<(), Error>(())
/// ```
pub trait Authenticator: Send {
    /// Name of the method, such as `SCRAM-SHA-256`.
    fn method(&self) -> &str;

    /// The data that goes with CONNECT, or with the AUTH that begins a re-authentication. An exchange begins anew.
    ///
    /// # Errors
    /// Whatever keeps the exchange from beginning.
    fn begin(&mut self) -> Result<Option<Vec<u8>>, Error>;

    /// The answer to what the server sent in AUTH.
    ///
    /// # Errors
    /// Where the server cannot be believed; the connection ends then.
    fn respond(&mut self, data: Option<&[u8]>) -> Result<Option<Vec<u8>>, Error>;

    /// The server says that the exchange has succeeded, with its last data. Here its proof is checked, if it owes one.
    ///
    /// # Errors
    /// Where the server cannot be believed; the connection ends then.
    fn finish(&mut self, data: Option<&[u8]>) -> Result<(), Error> {
        let _ = data;
        Ok(())
    }

    /// Whether the others may wait, or use the client. They are called without any lock of the client then, on the thread or in the task that drives
    /// it, which does nothing else meanwhile. The answer is always the same.
    fn may_wait(&self) -> bool {
        false
    }
}
