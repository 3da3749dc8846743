//! Addresses and networks.

use core::net::{IpAddr, Ipv6Addr};
use std::fmt;
use std::str::FromStr;

/// An address, or a network: `192.0.2.7`, `192.0.2.0/24`, `2001:db8::/32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    /// IPv4 is `::ffff:0:0/96`, as on dual-stack sockets.
    bits: u128,
    prefix: u8,
}

/// Prefix length of IPv4-mapped addresses.
const IPV4_PREFIX: u8 = 96;
/// The longest prefix.
pub(super) const PREFIX_MAX: u8 = 128;
/// The prefix that a customer of a network usually gets.
const IPV6_CUSTOMER_PREFIX: u8 = 64;

impl Network {
    /// The network of this prefix length around an address. `prefix` counts bits of the IPv6 form: for IPv4 add 96.
    pub(super) fn around(address: IpAddr, prefix: u8) -> Network {
        let bits = match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        let mask = u128::MAX.checked_shl(u32::from(PREFIX_MAX.saturating_sub(prefix))).unwrap_or(0);
        Network { bits: bits.to_bits() & mask, prefix }
    }

    /// A single address.
    #[must_use]
    pub fn of(address: IpAddr) -> Network {
        Network::around(address, PREFIX_MAX)
    }

    /// The addresses that one client may use: an IPv4 address, or an IPv6 network of 64 bits, of which a client can take any address.
    #[must_use]
    pub fn of_client(address: IpAddr) -> Network {
        let prefix = if address.to_canonical().is_ipv4() { PREFIX_MAX } else { IPV6_CUSTOMER_PREFIX };
        Network::around(address, prefix)
    }

    pub(super) fn prefix(self) -> u8 {
        self.prefix
    }

    /// Whether the network contains the address.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        Network::around(address, self.prefix) == self
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let wrong =
            || format!("{} is not an address or network; write 192.0.2.0/24 or 2001:db8::/32", text.escape_debug());
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let before = if address.is_ipv4() { IPV4_PREFIX } else { 0 };
        let prefix = match prefix {
            Some(prefix) => {
                let is_plain = prefix.bytes().all(|byte| byte.is_ascii_digit());
                let prefix: u8 = prefix.parse().ok().filter(|_| is_plain).ok_or_else(wrong)?;
                prefix.checked_add(before).filter(|prefix| *prefix <= PREFIX_MAX).ok_or_else(wrong)?
            }
            None => PREFIX_MAX,
        };
        let network = Network::around(address, prefix);
        if network.bits != Network::around(address, PREFIX_MAX).bits {
            return Err(format!("{text} has bits set after its prefix; the network is {network}"));
        }
        Ok(network)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from_bits(self.bits);
        let ipv4 = address.to_ipv4_mapped().filter(|_| self.prefix >= IPV4_PREFIX);
        let (address, prefix) = match ipv4 {
            Some(ipv4) => (IpAddr::V4(ipv4), self.prefix - IPV4_PREFIX),
            None => (IpAddr::V6(address), self.prefix),
        };
        write!(f, "{address}")?;
        if self.prefix < PREFIX_MAX { write!(f, "/{prefix}") } else { Ok(()) }
    }
}
