//! Whom the broker becomes once it listens, where it has been started as root.

use std::os::unix::fs::lchown;
use std::path::Path;

use crate::files;

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";
/// Longest of these files that is read.
const FILE_MAX_BYTES: usize = 16 << 20;

/// A user, by numbers. The names are looked up in the files of the system alone: what else knows users, such as LDAP, is asked by libraries
/// that a static binary cannot load. Numbers need no look-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    name: String,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// All groups, with that of `gid`.
    groups: Vec<u32>,
}

impl User {
    /// The user that `text` is about: a name, a number, or the numbers of a user and a group, `UID:GID`.
    ///
    /// # Errors
    /// There is none, or the system's files cannot be read.
    pub(crate) fn find(text: &str) -> Result<User, String> {
        let read = |path: &str| {
            files::text(Path::new(path), FILE_MAX_BYTES).map_err(|why| format!("user: {path} {why} [user]"))
        };
        if let Some((uid, gid)) = text.split_once(':') {
            return match (uid.parse(), gid.parse()) {
                (Ok(uid), Ok(gid)) => Ok(User { name: text.to_owned(), uid, gid, groups: vec![gid] }),
                _ => Err(format!("user: \"{text}\" is not UID:GID, two numbers [user]")),
            };
        }
        find_in(text, &read(USERS)?, &read(GROUPS)?).ok_or_else(|| {
            format!("user: there is no user \"{text}\" in {USERS}; make one, or name numbers as UID:GID [user]")
        })
    }

    /// The process is this user's from now on, in all its threads and for good. The files `own` are the user's, too: sockets that have been
    /// bound before. Only root becomes somebody else: otherwise nothing is done.
    ///
    /// # Errors
    /// The system does not let it, or would let the process come back.
    pub(crate) fn assume(&self, own: &[&Path]) -> Result<(), String> {
        let now = effective_uid();
        if now == self.uid && now != ROOT {
            return Ok(());
        }
        if now != ROOT {
            log::warn!(
                "user \"{}\" has no effect: the broker has not been started as root, but as user {now}",
                self.name
            );
            return Ok(());
        }
        if self.uid == ROOT {
            return Ok(());
        }
        for path in own {
            lchown(path, Some(self.uid), Some(self.gid)).map_err(|error| {
                format!("user: {} cannot be given to \"{}\": {error} [user]", path.display(), self.name)
            })?;
        }
        become_user(self).map_err(|why| format!("user: cannot become \"{}\": {why} [user]", self.name))?;
        log::info!("the broker is user {} (group {}) from now on", self.uid, self.gid);
        Ok(())
    }
}

/// Whether the broker would go on as root without anybody having said so.
pub(crate) fn is_implicit_root(user: Option<&User>) -> bool {
    user.is_none() && effective_uid() == ROOT
}

pub(super) const ROOT: u32 = 0;

/// See passwd(5) and group(5).
fn find_in(wanted: &str, users: &str, groups: &str) -> Option<User> {
    let lines = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let known = lines.filter_map(|fields| match fields[..] {
        [name, _, uid, gid, ..] => Some((name, uid.parse::<u32>().ok()?, gid.parse::<u32>().ok()?)),
        _ => None,
    });
    // A name comes before a number: some are called by one.
    let known: Vec<_> = known.collect();
    let by_name = known.iter().find(|(name, ..)| *name == wanted);
    let (name, uid, gid) = *by_name.or_else(|| known.iter().find(|(_, uid, _)| wanted.parse() == Ok(*uid)))?;
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
    Some(User { name: wanted.to_owned(), uid, gid, groups: member_of })
}

#[cfg(target_os = "linux")]
pub(super) fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// By the C library: the system calls alone would change the thread that makes them, and leave the others root.
#[cfg(target_os = "linux")]
fn become_user(user: &User) -> Result<(), String> {
    use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};

    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    // The groups first: afterwards it may not any more.
    setgroups(&groups).map_err(|error| format!("its groups: {}", error.desc()))?;
    setresgid(gid, gid, gid).map_err(|error| format!("its group: {}", error.desc()))?;
    setresuid(uid, uid, uid).map_err(|error| error.desc().to_owned())?;
    let root = Uid::from_raw(ROOT);
    if setresuid(root, root, root).is_ok() || Uid::effective() != uid || Gid::effective() != gid {
        return Err("the process can become root again".to_owned());
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn effective_uid() -> u32 {
    u32::MAX
}

#[cfg(not(target_os = "linux"))]
fn become_user(_: &User) -> Result<(), String> {
    Err("there is no such thing on this system; have the service manager start the broker as that user".to_owned())
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
    fn numbers_need_no_entry() {
        let user = User::find("12345:54321").expect("two numbers");
        assert_eq!((user.uid, user.gid, &*user.groups), (12345, 54321, &[54321][..]));
        for wrong in ["a:b", "1:", ":1", "1:2:3", "-1:2"] {
            assert!(User::find(wrong).expect_err("it is none").contains("is not UID:GID"), "{wrong}");
        }
        let error = User::find("no such user").expect_err("there is none");
        assert!(error.contains("there is no user \"no such user\" in /etc/passwd"), "{error}");
    }
}
