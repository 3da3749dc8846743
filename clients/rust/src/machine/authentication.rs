//! Enhanced authentication (section 4.12): AUTH packets, and calls to authenticators that may wait.
//!
//! An authenticator that may wait is called outside of the machine. The machine stops before the packet that needs the result, and continues
//! when it has it.

use tautwire_protocol::{Auth, AuthReason, DisconnectReason, Packet, Properties, Property};

use super::Machine;
use super::auth_call::{AuthCall, AuthResult, Step};
use super::events::{Event, Handler};
use super::link::Phase;
use crate::{Authenticator, Error};

impl<T> Machine<T> {
    pub(super) fn on_auth(&mut self, auth: &Auth<'_>, handler: &mut impl Handler<T>) -> Result<(), Error> {
        let connecting = matches!(self.phase, Phase::Connecting { .. });
        let Some(authenticator) = &mut self.options.authenticator else {
            // [MQTT-4.12.0-6]
            return Err(self.breach("AUTH without an authentication method in CONNECT"));
        };
        let properties = auth.properties;
        if properties.authentication_method() != Some(authenticator.method()) {
            // [MQTT-4.12.0-5]
            return Err(self.breach("AUTH with another authentication method"));
        }
        match auth.reason {
            // [MQTT-4.12.0-3]
            AuthReason::ContinueAuthentication if connecting || self.reauthentication.is_some() => {
                let answer = self.answer.take();
                let answer = answer.unwrap_or_else(|| authenticator.respond(properties.authentication_data()));
                let data = answer.inspect_err(|_| self.leave(DisconnectReason::NotAuthorized))?;
                self.write_auth(AuthReason::ContinueAuthentication, data.as_deref())
            }
            AuthReason::Success if self.reauthentication.is_some() => {
                let finished = match self.answer.take() {
                    Some(answer) => answer.map(drop),
                    None => authenticator.finish(properties.authentication_data()),
                };
                // [MQTT-4.12.1-2]
                finished.inspect_err(|_| self.leave(DisconnectReason::NotAuthorized))?;
                if let Some(tag) = self.reauthentication.take() {
                    handler.event(Event::Reauthenticated(tag));
                }
                Ok(())
            }
            _ => Err(self.breach("unexpected AUTH")),
        }
    }

    /// Starts a re-authentication (section 4.12.1). [`Event::Reauthenticated`] returns `tag`. If it fails, the connection ends
    /// and [`Machine::take_reauthentication`] has the tag.
    ///
    /// # Errors
    /// There is no authenticator, it fails, a re-authentication is in progress, or there is no connection.
    pub fn reauthenticate(&mut self, tag: T) -> Result<(), Error> {
        if self.phase != Phase::Open {
            return Err(Error::NotConnected);
        }
        if self.reauthentication.is_some() {
            return Err(Error::argument("a re-authentication is in progress"));
        }
        let Some(authenticator) = &mut self.options.authenticator else {
            return Err(Error::argument("the client has no authenticator"));
        };
        let data = self.answer.take().unwrap_or_else(|| authenticator.begin())?;
        // [MQTT-4.12.1-1]
        self.write_auth(AuthReason::ReAuthenticate, data.as_deref())?;
        self.reauthentication = Some(tag);
        Ok(())
    }

    /// The tag of a re-authentication that was interrupted by the end of the connection.
    pub fn take_reauthentication(&mut self) -> Option<T> {
        self.reauthentication.take()
    }

    fn write_auth(&mut self, reason: AuthReason, data: Option<&[u8]>) -> Result<(), Error> {
        let method = self.options.authenticator.as_deref().map_or("", <dyn Authenticator>::method);
        let properties =
            [Property::AuthenticationMethod(method), Property::AuthenticationData(data.unwrap_or_default())];
        let properties = &properties[..if data.is_some() { 2 } else { 1 }];
        let auth = Packet::Auth(Auth { reason, properties: Properties::from_list(properties) });
        auth.append_to(self.options.version, &mut self.output)
            .map_err(|error| Error::Encode { packet: "AUTH", error })?;
        Ok(())
    }

    /// The driver calls authenticators from now on.
    pub(crate) fn ask_outside(&mut self) {
        self.asks_outside = true;
    }

    /// The call that is needed before CONNECT.
    pub(crate) fn auth_call_of_connect(&mut self) -> Option<AuthCall> {
        self.auth_call(Step::Begin, None)
    }

    /// The call that is needed before a re-authentication.
    pub(crate) fn auth_call_of_reauthentication(&mut self) -> Option<AuthCall> {
        (self.phase == Phase::Open && self.reauthentication.is_none()).then(|| self.auth_call(Step::Begin, None))?
    }

    /// The call that is needed before the machine can handle the received packet.
    pub(crate) fn take_auth_call(&mut self) -> Option<Box<AuthCall>> {
        self.auth_call.take()
    }

    /// Returns the authenticator. The next step takes the result.
    pub(crate) fn finish_auth_call(&mut self, result: AuthResult) {
        self.options.authenticator = Some(result.authenticator);
        self.answer = Some(result.answer);
    }

    /// The step that needed the result was not taken.
    pub(crate) fn forget_answer(&mut self) {
        self.answer = None;
    }

    /// Whether the authenticator must be called before this packet is handled.
    pub(super) fn asks_before(&mut self, packet: &Packet<'_>) -> bool {
        let connecting = matches!(self.phase, Phase::Connecting { .. });
        let (step, properties) = match packet {
            Packet::ConnAck(connack) if connecting && !connack.reason.is_error() => (Step::Finish, connack.properties),
            Packet::Auth(auth) if connecting || self.reauthentication.is_some() => match auth.reason {
                AuthReason::ContinueAuthentication => (Step::Respond, auth.properties),
                AuthReason::Success if !connecting => (Step::Finish, auth.properties),
                _ => return false,
            },
            _ => return false,
        };
        // Without a call to an authenticator of this method, the packet is a protocol violation.
        let method = self.options.authenticator.as_deref().map(<dyn Authenticator>::method);
        if self.answer.is_some() || method.is_none() || properties.authentication_method() != method {
            return false;
        }
        let data = properties.authentication_data().map(<[u8]>::to_vec);
        self.auth_call = self.auth_call(step, data).map(Box::new);
        self.auth_call.is_some()
    }

    fn auth_call(&mut self, step: Step, data: Option<Vec<u8>>) -> Option<AuthCall> {
        let asks_outside = self.asks_outside;
        let authenticator =
            self.options.authenticator.take_if(|authenticator| asks_outside && authenticator.may_wait())?;
        Some(AuthCall { authenticator, step, data })
    }
}
