//! The bytes of headers, frames and `VERSION`. See `docs/internals/journal-format.md`.

mod frame;
mod header;
mod names;
mod seal;
mod version;

pub use frame::Frame;
pub(crate) use frame::{
    EPOCH_OFFSET, FRAME_ALIGN, FRAME_HEADER_BYTES, FrameKind, FrameLocation, frame_bytes, is_frame_start, parse, stamp,
};
pub(crate) use header::{FileKind, Header, HeaderFault};
pub use names::{LOCK_NAME, RESERVE_NAME};
pub(crate) use names::{NEW_SUFFIX, Name, VERSION_NAME};
pub(crate) use seal::{read_seal, sealed_block};
pub(crate) use version::{Version, VersionFault};

/// The format version that is written.
pub const FORMAT_VERSION: u32 = 2;
/// The oldest format version that can be read.
pub(crate) const FORMAT_MIN_VERSION: u32 = 1;
/// Groups of frames begin and end at multiples of this.
pub const BLOCK_BYTES: usize = 4096;
/// The largest body of a frame in bytes. An MQTT packet is at most half as large.
pub const FRAME_BODY_MAX_BYTES: usize = 512 << 20;
/// The offset of the first frame, after the header and its copy.
pub(crate) const FIRST_FRAME_OFFSET: usize = 2 * BLOCK_BYTES;

pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    field(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    field(bytes, at).map(u64::from_le_bytes)
}
