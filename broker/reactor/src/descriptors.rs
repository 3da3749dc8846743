//! The file descriptor table of the process.

/// The size to which the table is grown at start, if the limit allows: 128 KiB of kernel memory.
#[cfg(target_os = "linux")]
const DESCRIPTORS_RESERVED: i32 = 16 << 10;
/// The initial size of the table, which grows quickly while it is small.
#[cfg(target_os = "linux")]
const DESCRIPTORS_RESERVED_MIN: i32 = 64;

/// Grows the table before threads exist. Each time it doubles in a process with threads, the kernel waits for an RCU grace period: some ten
/// milliseconds within `accept`, during which the thread serves no client, five times up to a thousand connections.
#[cfg(target_os = "linux")]
pub(crate) fn reserve() {
    let Ok(file) = std::fs::File::open("/dev/null") else { return };
    let mut room = DESCRIPTORS_RESERVED;
    // The table never shrinks. If the size is not allowed, try a smaller one.
    while room > DESCRIPTORS_RESERVED_MIN && rustix::io::fcntl_dupfd_cloexec(&file, room - 1).is_err() {
        room /= 2;
    }
}

/// Other systems need no preparation.
#[cfg(not(target_os = "linux"))]
pub(crate) fn reserve() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_capacity_afterwards() {
        reserve();
        let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).expect("the line exists");
        let limits = std::fs::read_to_string("/proc/self/limits").expect("procfs");
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("the line exists");
        let allowed =
            limit.split_whitespace().next().and_then(|soft| soft.parse().ok()).unwrap_or(DESCRIPTORS_RESERVED);
        let size: i32 = size.trim().parse().expect("a number");
        assert!(size >= allowed.min(DESCRIPTORS_RESERVED) / 2, "{size} of {allowed}");
    }
}
