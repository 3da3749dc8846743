use crate::Error;

/// The client side of an extended authentication (section 4.12).
///
/// It is called in the middle of the protocol, so it must not block unless [`Authenticator::may_wait`] says so. With feature `scram`,
/// `Scram` implements it.
///
/// ```
/// use tautwire_client::{Authenticator, Error, Options};
///
/// /// A token, sent with CONNECT.
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
///         Err(Error::Authentication("unexpected challenge".into()))
///     }
/// }
///
/// let options = Options::new("mqtt://localhost:1883")?.authenticator(Token(b"eyJhbGciOi...".to_vec()));
/// # Ok::<(), Error>(())
/// ```
pub trait Authenticator: Send {
    /// The name of the method, such as `SCRAM-SHA-256`.
    fn method(&self) -> &str;

    /// Starts an exchange: returns the data for CONNECT, or for the AUTH that starts a re-authentication.
    ///
    /// # Errors
    /// The exchange cannot start.
    fn begin(&mut self) -> Result<Option<Vec<u8>>, Error>;

    /// Answers the server's AUTH.
    ///
    /// # Errors
    /// The server cannot be trusted; the connection ends.
    fn respond(&mut self, data: Option<&[u8]>) -> Result<Option<Vec<u8>>, Error>;

    /// Ends a successful exchange, with the server's last data. Checks the server's proof, if the method has one.
    ///
    /// # Errors
    /// The server cannot be trusted; the connection ends.
    fn finish(&mut self, data: Option<&[u8]>) -> Result<(), Error> {
        let _ = data;
        Ok(())
    }

    /// Whether the other methods may block or use the client. They are then called without any lock of the client, on the thread or task
    /// that drives it, which does nothing else meanwhile. The result must not change.
    fn may_wait(&self) -> bool {
        false
    }
}
