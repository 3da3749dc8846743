//! The user that a broker started as root switches to.

use std::os::unix::fs::lchown;
use std::path::Path;

use crate::files;

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";
/// Largest accepted size of these files.
const FILE_MAX_BYTES: usize = 16 << 20;

/// A user by numeric IDs. Names are looked up in the system's files only: other sources such as LDAP need libraries that a static binary
/// cannot load. Numeric IDs need no lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// All groups, including `gid`.
    groups: Vec<u32>,
}

impl User {
    /// Looks up a user by name, by UID, or by `UID:GID`.
    ///
    /// # Errors
    /// There is no such user, or the system's files cannot be read.
    pub(crate) fn find(text: &str) -> Result<User, String> {
        let read = |path: &str| {
            files::text(Path::new(path), FILE_MAX_BYTES).map_err(|why| format!("user: {path} {why} [user]"))
        };
        if let Some((uid, gid)) = text.split_once(':') {
            return match (uid.parse(), gid.parse()) {
                (Ok(uid), Ok(gid)) => Ok(User { name: text.to_owned(), uid, gid, groups: vec![gid] }),
                _ => Err(format!("user: \"{text}\" is not UID:GID with two numbers [user]")),
            };
        }
        find_in(text, &read(USERS)?, &read(GROUPS)?)
            .ok_or_else(|| format!("user: no user \"{text}\" in {USERS}; create it, or give UID:GID [user]"))
    }

    /// Switches the process to this user, in all threads and permanently, and gives it the files in `owned`: sockets that are already
    /// bound.
    /// Does nothing unless the process is root.
    ///
    /// # Errors
    /// The system denies it, or the process could become root again.
    pub(crate) fn assume(&self, owned: &[&Path]) -> Result<(), String> {
        let now = effective_uid();
        if now == self.uid && now != ROOT {
            return Ok(());
        }
        if now != ROOT {
            log::warn!("user \"{}\" has no effect: the broker was started as user {now}, not as root", self.name);
            return Ok(());
        }
        if self.uid == ROOT {
            return Ok(());
        }
        for path in owned {
            lchown(path, Some(self.uid), Some(self.gid)).map_err(|error| {
                format!("user: cannot change the owner of {} to \"{}\": {error} [user]", path.display(), self.name)
            })?;
        }
        become_user(self).map_err(|why| format!("user: cannot switch to \"{}\": {why} [user]", self.name))?;
        log::info!("the broker now runs as user {} (group {})", self.uid, self.gid);
        Ok(())
    }
}

/// Whether the broker would keep running as root without being configured to.
pub(crate) fn is_implicit_root(user: Option<&User>) -> bool {
    user.is_none() && effective_uid() == ROOT
}

pub(super) const ROOT: u32 = 0;

/// Finds a user in the text of passwd(5) and group(5).
fn find_in(name_or_uid: &str, users: &str, groups: &str) -> Option<User> {
    let lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let known = lines.filter_map(|fields| match fields[..] {
        [name, _, uid, gid, ..] => Some((name, uid.parse::<u32>().ok()?, gid.parse::<u32>().ok()?)),
        _ => None,
    });
    // Names take precedence over numbers: some names are numeric.
    let known: Vec<_> = known.collect();
    let by_name = known.iter().find(|(name, ..)| *name == name_or_uid);
    let (name, uid, gid) = *by_name.or_else(|| known.iter().find(|(_, uid, _)| name_or_uid.parse() == Ok(*uid)))?;
    let mut member_of = vec![gid];
    for line in groups.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        if let [_, _, group, members, ..] = fields[..]
            && let Ok(group) = group.parse()
            && members.split(',').any(|member| member == name)
            && !member_of.contains(&group)
        {
            member_of.push(group);
        }
    }
    Some(User { name: name_or_uid.to_owned(), uid, gid, groups: member_of })
}

#[cfg(target_os = "linux")]
pub(super) fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Uses the C library, which changes all threads; the bare system calls change only the calling thread.
#[cfg(target_os = "linux")]
fn become_user(user: &User) -> Result<(), String> {
    use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    // Groups first: without root it is no longer allowed.
    setgroups(&groups).map_err(|error| format!("cannot set its groups: {}", error.desc()))?;
    setresgid(gid, gid, gid).map_err(|error| format!("cannot set its group: {}", error.desc()))?;
    setresuid(uid, uid, uid).map_err(|error| error.desc().to_owned())?;
    let root = Uid::from_raw(ROOT);
    if setresuid(root, root, root).is_ok() || Uid::effective() != uid || Gid::effective() != gid {
        return Err("the process could become root again".to_owned());
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn effective_uid() -> u32 {
    u32::MAX
}

#[cfg(not(target_os = "linux"))]
fn become_user(_: &User) -> Result<(), String> {
    Err("not supported on this system; have the service manager start the broker as that user".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0::/root:/bin/sh\nbroken\nmosquitto:x:105:113::/nonexistent:/bin/false\n107:x:9:9::/:\nother:x:107:1::/:\n";
    const GROUPS: &str = "root:x:0:\nssl-cert:x:104:postgres,mosquitto\nmosquitto:x:113:mosquitto\nadm:x:4:mosquitto2\nbad:x:y:mosquitto\n";

    fn found(text: &str) -> Option<(u32, u32, Vec<u32>)> {
        find_in(text, USERS, GROUPS).map(|user| (user.uid, user.gid, user.groups))
    }

    #[test]
    fn a_user_is_found_with_all_its_groups() {
        assert_eq!(found("mosquitto"), Some((105, 113, vec![113, 104])));
        assert_eq!(found("105"), Some((105, 113, vec![113, 104])));
        assert_eq!(found("root"), Some((0, 0, vec![0])));
        assert_eq!(found("107"), Some((9, 9, vec![9])), "a name comes before a number");
        assert_eq!(found("nobody"), None);
        assert_eq!(found("broken"), None);
    }

    #[test]
    fn numeric_ids_need_no_entry() {
        let user = User::find("12345:54321").expect("two numbers");
        assert_eq!((user.uid, user.gid, &*user.groups), (12345, 54321, &[54321][..]));
        for wrong in ["a:b", "1:", ":1", "1:2:3", "-1:2"] {
            assert!(User::find(wrong).expect_err("it is invalid").contains("is not UID:GID"), "{wrong}");
        }
        let error = User::find("no such user").expect_err("there is none");
        assert!(error.contains("no user \"no such user\" in /etc/passwd"), "{error}");
    }
}
