use crate::Error;

/// This client's side of an extended authentication (section 4.12).
///
/// It is called in the middle of the protocol, so it must not wait for anything.
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
}
