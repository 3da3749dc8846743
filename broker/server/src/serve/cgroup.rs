//! The memory limit of the process's control groups. See cgroups(7).

use std::path::{Component, Path, PathBuf};

const GROUPS: &str = "/proc/self/cgroup";
const MOUNTS: &str = "/proc/self/mountinfo";

/// The lowest limit of the process's group and its visible ancestors; `None` if there is no limit. `read` returns the content of a file.
pub(super) fn memory_limit_bytes(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let (groups, mounts) = (read(Path::new(GROUPS))?, read(Path::new(MOUNTS))?);
    let limits = mounts.lines().filter_map(Mount::parse).flat_map(|mount| {
        let group = groups.lines().find_map(|line| mount.group_of(line));
        let folders = group.map_or_else(Vec::new, |group| mount.folders(group));
        folders
            .into_iter()
            .filter_map(|folder| read(&folder.join(mount.file))?.trim().parse().ok())
            .collect::<Vec<u64>>()
    });
    limits.min()
}

/// A mounted hierarchy with the memory controller.
struct Mount<'a> {
    /// The group at the mount point.
    root: &'a str,
    point: PathBuf,
    /// The file with the limit of a group.
    file: &'static str,
    is_unified: bool,
}

impl Mount<'_> {
    /// Parses a line of proc_pid_mountinfo(5).
    fn parse(line: &str) -> Option<Mount<'_>> {
        let (mount, kind) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (mount.next()?, unescape(mount.next()?));
        let mut kind = kind.split(' ');
        match (kind.next()?, kind.nth(1)) {
            ("cgroup2", _) => Some(Mount { root, point, file: "memory.max", is_unified: true }),
            ("cgroup", Some(options)) if options.split(',').any(|option| option == "memory") => {
                Some(Mount { root, point, file: "memory.limit_in_bytes", is_unified: false })
            }
            _ => None,
        }
    }

    /// The group on this line of /proc/self/cgroup, if the line is about this hierarchy.
    fn group_of<'l>(&self, line: &'l str) -> Option<&'l str> {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
        let is_this = if self.is_unified {
            controllers.is_empty()
        } else {
            controllers.split(',').any(|controller| controller == "memory")
        };
        is_this.then_some(group)
    }

    /// The directories of a group and of its ancestors up to the mount point. A group outside of the mount point, as seen in a container
    /// that mounts only its own group, is the one at the mount point.
    fn folders(&self, group: &str) -> Vec<PathBuf> {
        let below = Path::new(group).strip_prefix(self.root).unwrap_or(Path::new(""));
        let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        let below = if is_plain { below } else { Path::new("") };
        below.ancestors().map(|group| self.point.join(group)).collect()
    }
}

/// Decodes the octal escapes of mountinfo, such as `\040` for a space.
fn unescape(text: &str) -> PathBuf {
    let replaced = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    replaced.iter().fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "\
        24 30 0:22 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw\n\
        35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";
    const HYBRID: &str = "\
        32 25 0:28 / /sys/fs/cgroup/unified rw,nosuid,nodev,noexec,relatime shared:10 - cgroup2 cgroup2 rw,nsdelegate\n\
        33 25 0:29 / /sys/fs/cgroup/systemd rw,nosuid,nodev,noexec,relatime shared:11 - cgroup cgroup rw,xattr,name=systemd\n\
        41 25 0:36 / /sys/fs/cgroup/memory rw,nosuid,nodev,noexec,relatime shared:19 - cgroup cgroup rw,memory\n\
        42 25 0:37 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid,nodev,noexec,relatime shared:20 - cgroup cgroup rw,cpu,cpuacct\n";

    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        memory_limit_bytes(|path| {
            files.iter().find(|(name, _)| path == Path::new(name)).map(|(_, text)| (*text).to_owned())
        })
    }

    /// A systemd service with `MemoryMax=`.
    #[test]
    fn the_group_of_the_process_applies() {
        let own = "/sys/fs/cgroup/system.slice/tautwire.service/memory.max";
        let group = (GROUPS, "0::/system.slice/tautwire.service\n");
        assert_eq!(limit(&[(MOUNTS, UNIFIED), group, (own, "536870912\n")]), Some(512 << 20));
        assert_eq!(limit(&[(MOUNTS, UNIFIED), group, (own, "max\n")]), None);
        assert_eq!(limit(&[(MOUNTS, UNIFIED), group]), None);
        let other = "/sys/fs/cgroup/system.slice/other.service/memory.max";
        assert_eq!(limit(&[(MOUNTS, UNIFIED), group, (other, "1\n")]), None);
    }

    #[test]
    fn the_smallest_limit_of_the_parent_groups_applies() {
        let group = (GROUPS, "0::/system.slice/tautwire.service\n");
        let slice = "/sys/fs/cgroup/system.slice/memory.max";
        let own = "/sys/fs/cgroup/system.slice/tautwire.service/memory.max";
        assert_eq!(limit(&[(MOUNTS, UNIFIED), group, (slice, "1000\n"), (own, "2000\n")]), Some(1_000));
        assert_eq!(limit(&[(MOUNTS, UNIFIED), group, (slice, "2000\n"), (own, "1000\n")]), Some(1_000));
        assert_eq!(limit(&[(MOUNTS, UNIFIED), group, ("/sys/fs/cgroup/memory.max", "10\n")]), Some(10));
    }

    /// A container with its own cgroup namespace.
    #[test]
    fn in_a_container_the_mount_point_is_the_group() {
        let own = ("/sys/fs/cgroup/memory.max", "1048576\n");
        assert_eq!(limit(&[(MOUNTS, UNIFIED), (GROUPS, "0::/\n"), own]), Some(1 << 20));
        // A process that was moved in from outside.
        assert_eq!(limit(&[(MOUNTS, UNIFIED), (GROUPS, "0::/../other\n"), own]), Some(1 << 20));
    }

    #[test]
    fn version_1_has_a_memory_hierarchy() {
        let groups = (
            GROUPS,
            "11:memory:/system.slice/tautwire.service\n4:cpu,cpuacct:/\n1:name=systemd:/system.slice/x\n0::/system.slice/x\n",
        );
        let own = "/sys/fs/cgroup/memory/system.slice/tautwire.service/memory.limit_in_bytes";
        let root = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit(&[(MOUNTS, HYBRID), groups, (own, "4096\n"), root]), Some(4_096));
    }

    /// A container with version 1: its group is mounted, under its name outside of the container.
    #[test]
    fn a_mounted_group_is_at_the_mount_point() {
        let mounts = "41 25 0:36 /docker/0a1b /sys/fs/cgroup/memory ro,nosuid,nodev,noexec,relatime master:19 - cgroup cgroup rw,memory\n";
        let own = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
        assert_eq!(limit(&[(MOUNTS, mounts), (GROUPS, "11:memory:/docker/0a1b\n"), own]), Some(4_096));
        let nested = ("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "1024\n");
        assert_eq!(limit(&[(MOUNTS, mounts), (GROUPS, "11:memory:/docker/0a1b/inner\n"), own, nested]), Some(1_024));
    }

    #[test]
    fn without_control_groups_there_is_no_limit() {
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[(MOUNTS, "nonsense\n1 2 3 - cgroup2\n"), (GROUPS, "\n:\n")]), None);
    }
}
