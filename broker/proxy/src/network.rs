//! An IP address range.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

/// A range of IP addresses with a common prefix, such as `10.0.0.0/8`, `fd00::/8` or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    prefix_bits: u8,
}

/// The text is not an address range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidNetwork;

impl Network {
    /// Whether the range contains the address. IPv4-mapped IPv6 addresses count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let host_bits = 32 - u32::from(self.prefix_bits);
                (first.to_bits() ^ address.to_bits()).checked_shr(host_bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let host_bits = 128 - u32::from(self.prefix_bits);
                (first.to_bits() ^ address.to_bits()).checked_shr(host_bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    /// Parses an address, or an address with a prefix length, whose other bits must be 0.
    fn from_str(text: &str) -> Result<Network, InvalidNetwork> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let first: IpAddr = address.parse().map_err(|_| InvalidNetwork)?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let is_number = |bits: &&str| bits.bytes().all(|byte| byte.is_ascii_digit());
        let prefix_bits = match bits {
            None => most,
            Some(bits) => Some(bits).filter(is_number).and_then(|bits| bits.parse().ok()).ok_or(InvalidNetwork)?,
        };
        let host_bits = |width: u8| u32::from(width - prefix_bits);
        let is_first = prefix_bits <= most
            && match first {
                IpAddr::V4(first) => first.to_bits().trailing_zeros() >= host_bits(32),
                IpAddr::V6(first) => first.to_bits().trailing_zeros() >= host_bits(128),
            };
        // A range of IPv4-mapped addresses would never match.
        let is_canonical = first.to_canonical() == first;
        if is_first && is_canonical { Ok(Network { first, prefix_bits }) } else { Err(InvalidNetwork) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().expect("a network")
    }

    fn contains(text: &str, address: &str) -> bool {
        network(text).contains(address.parse().expect("an address"))
    }

    #[test]
    fn only_the_prefix_bits_count() {
        assert!(contains("10.0.0.0/8", "10.255.0.1") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("192.0.2.128/25", "192.0.2.128") && !contains("192.0.2.128/25", "192.0.2.127"));
        assert!(contains("127.0.0.1", "127.0.0.1") && !contains("127.0.0.1", "127.0.0.2"));
        assert!(contains("0.0.0.0/0", "203.0.113.9") && !contains("0.0.0.0/0", "::1"));
        assert!(contains("::/0", "2001:db8::1") && !contains("::/0", "10.0.0.1"));
        assert!(contains("fd00::/8", "fdff::1") && !contains("fd00::/8", "fe00::1"));
        assert!(contains("10.0.0.0/8", "::ffff:10.0.0.1"), "it came by a socket of both families");
        assert!(contains("2001:db8::7", "2001:db8::7") && !contains("2001:db8::7", "2001:db8::8"));
    }

    #[test]
    fn invalid_networks_are_refused() {
        for wrong in [
            "",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "fd00::1/8",
            "::/129",
            "::ffff:10.0.0.0/104",
            "host",
        ] {
            assert_eq!(wrong.parse::<Network>(), Err(InvalidNetwork), "{wrong}");
        }
        assert_eq!(network("10.0.0.0/8").to_string(), "10.0.0.0/8");
        assert_eq!(network("::1").to_string(), "::1/128");
    }
}
