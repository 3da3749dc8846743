//! Reason codes: all of them, and the subset that each packet may carry (section 2.4).

mod code;
mod per_packet;

pub use code::ReasonCode;
pub use per_packet::{
    AuthReason, ConnectReason, DisconnectReason, PubAckReason, PubCompReason, PubRecReason, PubRelReason,
    SubscribeReason, UnsubscribeReason,
};
