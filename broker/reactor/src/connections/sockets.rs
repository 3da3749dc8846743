//! The sockets of one thread, indexed like the connections of the shard.

use std::sync::Arc;

use mio::net::TcpStream;
use tautwire_engine::{ConnectionId, reserved_slots};
use tautwire_tls::Scratch;

use super::input::PartialInput;
use super::layers::Layers;
use super::quickack::DelayedAckDetector;
use super::transport::Transport;
use crate::accept_limiter::AcceptLimiter;

/// One socket.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) stream: TcpStream,
    pub(crate) generation: u32,
    /// Registered for events.
    pub(crate) watched: bool,
    /// Waiting for a writable event; until then no write is tried.
    pub(crate) write_armed: bool,
    /// Input is discarded: the connection has ended and its last bytes are being written.
    pub(crate) draining: bool,
    pub(crate) stage: LifecycleStage,
    /// In the list of sockets that may have more to read.
    pub(crate) is_queued: bool,
    pub(crate) layer_state: LayerState,
    /// Detects whether the client waits for TCP acknowledgements.
    pub(crate) ack_detector: DelayedAckDetector,
    pub(crate) rest: Option<Box<PartialInput>>,
}

/// The stage of a connection between accept and close: the number of its reads, as long as that matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LifecycleStage(u8);

impl LifecycleStage {
    /// Before this many reads, CONNECT, SUBSCRIBE, a first message and DISCONNECT arrive.
    const SETTLED: LifecycleStage = LifecycleStage(4);
    /// The peer has closed its half, though input may be unread.
    pub(crate) const ENDED: LifecycleStage = LifecycleStage(u8::MAX);

    /// Whether the client is new.
    #[inline]
    pub(crate) fn is_new(self) -> bool {
        self.0 < LifecycleStage::SETTLED.0
    }

    pub(crate) fn has_ended(self) -> bool {
        self == LifecycleStage::ENDED
    }

    /// Records a read with data.
    #[inline]
    pub(crate) fn record_progress(&mut self) {
        self.0 += u8::from(self.is_new());
    }
}

/// The layers between TCP and MQTT; see [`Sockets::transport`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerState {
    Nothing,
    /// Layers, preceded by a PROXY header that is still expected.
    ProxyHeader,
    /// Layers with a TLS handshake in progress.
    Handshaking,
    /// Layers.
    Layers,
}

impl LayerState {
    fn of(layers: Option<&Layers>) -> LayerState {
        match layers {
            None => LayerState::Nothing,
            Some(layers) if layers.awaits_proxy_header.is_some() => LayerState::ProxyHeader,
            Some(layers) if layers.is_handshaking() => LayerState::Handshaking,
            Some(_) => LayerState::Layers,
        }
    }
}

// There may be hundreds of thousands of idle sockets, so rarely needed data is kept elsewhere. mio's part is larger in debug builds.
const _: () = assert!(cfg!(debug_assertions) || size_of::<Option<Socket>>() <= 24);

/// A table of sockets.
#[derive(Debug)]
pub(crate) struct Sockets {
    sockets: Vec<Option<Socket>>,
    /// Indexed like `sockets`, but only as long as needed, so that plain connections take no space here.
    layers: Vec<Option<Box<Layers>>>,
    scratch: Scratch,
    /// The number of sockets in [`LayerState::Handshaking`], or on the way to it.
    handshake_count: usize,
}

/// A socket that was removed from the table.
#[derive(Debug)]
pub(crate) struct RemovedSocket {
    pub(crate) stream: TcpStream,
    pub(crate) watched: bool,
    pub(crate) rest: Option<PartialInput>,
    pub(crate) layers: Option<Box<Layers>>,
}

impl Sockets {
    pub(crate) fn new() -> Sockets {
        Sockets {
            sockets: Vec::with_capacity(reserved_slots::<Option<Socket>>()),
            layers: Vec::new(),
            scratch: Scratch::default(),
            handshake_count: 0,
        }
    }

    /// Frees the buffers for TLS and unused capacity.
    pub(crate) fn shrink(&mut self) {
        self.scratch = Scratch::default();
        let needed = self.layers.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        self.layers.truncate(needed);
        self.layers.shrink_to_fit();
    }

    pub(crate) fn insert(
        &mut self,
        id: ConnectionId,
        stream: TcpStream,
        rest: Option<PartialInput>,
        layers: Option<Box<Layers>>,
        ack_detector: DelayedAckDetector,
    ) {
        let place = id.index as usize;
        if self.sockets.len() <= place {
            self.sockets.resize_with(place + 1, || None);
        }
        let layer_state = LayerState::of(layers.as_deref());
        self.handshake_count += usize::from(layers.as_ref().is_some_and(|layers| layers.is_handshaking()));
        if layer_state != LayerState::Nothing {
            if self.layers.len() <= place {
                self.layers.resize_with(place + 1, || None);
            }
            self.layers[place] = layers;
        }
        self.sockets[place] = Some(Socket {
            stream,
            generation: id.generation,
            watched: false,
            write_armed: false,
            draining: false,
            stage: LifecycleStage::default(),
            is_queued: false,
            layer_state,
            ack_detector,
            rest: rest.map(Box::new),
        });
    }

    /// Returns the socket of `id`, unless its slot was reused.
    pub(crate) fn get(&mut self, id: ConnectionId) -> Option<&mut Socket> {
        self.sockets.get_mut(id.index as usize)?.as_mut().filter(|socket| socket.generation == id.generation)
    }

    /// Returns the transport of the socket of `id`.
    #[inline]
    pub(crate) fn transport(&mut self, id: ConnectionId) -> Option<Transport<'_>> {
        let place = id.index as usize;
        let socket = self.sockets.get_mut(place)?.as_mut().filter(|socket| socket.generation == id.generation)?;
        let is_plain = socket.layer_state == LayerState::Nothing;
        let layers = if is_plain { None } else { self.layers.get_mut(place)?.as_deref_mut() };
        Some(Transport::new(&mut socket.stream, layers, &mut self.scratch, socket.draining))
    }

    pub(crate) fn remove(&mut self, id: ConnectionId) -> Option<RemovedSocket> {
        let layer_state = self.get(id)?.layer_state;
        let place = id.index as usize;
        let socket = self.sockets.get_mut(place)?.take()?;
        let mut layers = if layer_state == LayerState::Nothing { None } else { self.layers.get_mut(place)?.take() };
        layers.iter_mut().for_each(|layers| layers.leave());
        // A handshake that has just ended may still be counted.
        let was_handshaking =
            layers.as_ref().is_some_and(|layers| layer_state == LayerState::ProxyHeader && layers.is_handshaking());
        self.handshake_count -= usize::from(layer_state == LayerState::Handshaking || was_handshaking);
        Some(RemovedSocket {
            stream: socket.stream,
            watched: socket.watched,
            rest: socket.rest.map(|rest| *rest),
            layers,
        })
    }

    /// Finishes the PROXY header. Returns the limiter that decides about the client it names.
    pub(crate) fn finish_proxy_header(&mut self, id: ConnectionId) -> Option<Arc<AcceptLimiter>> {
        let layers = self.layers.get_mut(id.index as usize)?;
        let accept_limiter = layers.as_mut()?.awaits_proxy_header.take();
        if layers.as_ref().is_some_and(|layers| layers.is_empty()) {
            *layers = None;
        }
        let layer_state = LayerState::of(layers.as_deref());
        self.get(id)?.layer_state = layer_state;
        accept_limiter
    }

    /// Returns the number of sockets in a TLS handshake, or on the way to it.
    pub(crate) fn handshaking(&self) -> usize {
        self.handshake_count
    }

    /// Returns the layers of a socket whose TLS handshake is in progress or will be.
    pub(super) fn handshaking_layers(&mut self, id: ConnectionId) -> Option<&mut Layers> {
        let layer_state = self.get(id)?.layer_state;
        let layers = self.layers.get_mut(id.index as usize)?.as_deref_mut();
        layers.filter(|layers| {
            layer_state == LayerState::Handshaking
                || (layer_state == LayerState::ProxyHeader && layers.is_handshaking())
        })
    }

    /// Returns the layers of a socket whose TLS handshake has finished, once.
    pub(crate) fn take_finished_handshake(&mut self, id: ConnectionId) -> Option<&Layers> {
        let is_handshaking = self.get(id)?.layer_state == LayerState::Handshaking;
        let layers = self
            .layers
            .get(id.index as usize)?
            .as_deref()
            .filter(|layers| is_handshaking && !layers.is_handshaking())?;
        self.handshake_count -= 1;
        let socket = self.sockets.get_mut(id.index as usize)?.as_mut()?;
        socket.layer_state = LayerState::Layers;
        Some(layers)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.iter().all(Option::is_none)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_new_for_four_reads_unless_it_disconnects() {
        let mut stage = LifecycleStage::default();
        for _ in 0..4 {
            assert!(stage.is_new() && !stage.has_ended());
            stage.record_progress();
        }
        for _ in 0..300 {
            assert!(!stage.is_new() && !stage.has_ended());
            stage.record_progress();
        }
        let mut stage = LifecycleStage::ENDED;
        stage.record_progress();
        assert!(stage.has_ended() && !stage.is_new(), "its earlier input is read");
    }
}
