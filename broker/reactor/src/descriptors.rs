//! The table of the process's descriptors.

/// So many descriptors have room in the table from the start, as far as the system allows them: 128 KiB of the kernel's.
#[cfg(target_os = "linux")]
const DESCRIPTORS_RESERVED: i32 = 16 << 10;
/// The table has room for so many by itself, and grows quickly while it is small.
#[cfg(target_os = "linux")]
const DESCRIPTORS_RESERVED_MIN: i32 = 64;

/// Has the table grow before there are threads. Each time that it doubles in a process with threads, the kernel waits until all
/// processors have passed a quiet moment: some ten milliseconds within `accept`, in which the thread serves nobody, five times
/// on the way to a thousand connections.
#[cfg(target_os = "linux")]
pub(crate) fn reserve() {
    let Ok(file) = std::fs::File::open("/dev/null") else { return };
    let mut room = DESCRIPTORS_RESERVED;
    // The table stays as large as it has been. One that is not allowed to be so large is tried with less.
    while room > DESCRIPTORS_RESERVED_MIN && rustix::io::fcntl_dupfd_cloexec(&file, room - 1).is_err() {
        room /= 2;
    }
}

/// Other systems are left alone.
#[cfg(not(target_os = "linux"))]
pub(crate) fn reserve() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_room_afterwards() {
        reserve();
        let status = std::fs::read_to_string("/proc/self/status").expect("there is one");
        let size = status.lines().find_map(|line| line.strip_prefix("FDSize:")).expect("it says so");
        let limits = std::fs::read_to_string("/proc/self/limits").expect("there is one");
        let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("it says so");
        let allowed =
            limit.split_whitespace().next().and_then(|soft| soft.parse().ok()).unwrap_or(DESCRIPTORS_RESERVED);
        let size: i32 = size.trim().parse().expect("a number");
        assert!(size >= allowed.min(DESCRIPTORS_RESERVED) / 2, "{size} of {allowed}");
    }
}
