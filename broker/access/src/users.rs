//! The table `[users]`: user names and their roles.

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};
use std::hash::BuildHasher as _;

/// Users and their roles. Names are concatenated, and equal role lists are stored once: a user costs its name and about 16 bytes.
#[derive(Debug, Default)]
pub(crate) struct Users {
    names: String,
    entries: Vec<Entry>,
    by_name: HashTable<u32>,
    role_sets: Vec<Box<[u32]>>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u32,
    len: u16,
    role_set: u32,
}

/// Users while they are parsed.
#[derive(Debug, Default)]
pub(crate) struct UsersBuilder {
    users: Users,
    known_sets: HashMap<Box<[u32]>, u32, FixedState>,
}

impl UsersBuilder {
    pub(crate) fn len(&self) -> usize {
        self.users.len()
    }

    /// Adds a user whose name is at most 65,535 bytes long; returns whether it is new.
    #[must_use]
    pub(crate) fn add(&mut self, name: &str, roles: &[u32]) -> bool {
        if self.users.find(name).is_some() {
            return false;
        }
        let Users { names, entries, by_name, role_sets } = &mut self.users;
        let role_set = match self.known_sets.get(roles) {
            Some(&known) => known,
            None => {
                role_sets.push(roles.into());
                let new = role_sets.len() as u32 - 1;
                self.known_sets.insert(roles.into(), new);
                new
            }
        };
        let entry = Entry { start: names.len() as u32, len: name.len() as u16, role_set };
        names.push_str(name);
        entries.push(entry);
        let hash_of = |&index: &u32| hash(name_of(names, entries[index as usize]));
        by_name.insert_unique(hash(name), entries.len() as u32 - 1, hash_of);
        true
    }

    pub(crate) fn finish(mut self) -> Users {
        let Users { names, entries, by_name, role_sets } = &mut self.users;
        names.shrink_to_fit();
        entries.shrink_to_fit();
        role_sets.shrink_to_fit();
        by_name.shrink_to_fit(|&index| hash(name_of(names, entries[index as usize])));
        self.users
    }
}

impl Users {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Indices of the user's roles; empty for an unknown user.
    pub(crate) fn roles_of(&self, name: &str) -> &[u32] {
        self.find(name).map_or(&[], |entry| &self.role_sets[entry.role_set as usize])
    }

    fn find(&self, name: &str) -> Option<Entry> {
        let is_it = |&index: &u32| name_of(&self.names, self.entries[index as usize]) == name;
        self.by_name.find(hash(name), is_it).map(|&index| self.entries[index as usize])
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let sets: usize = self.role_sets.iter().map(|set| size_of_val(set) + size_of_val(&**set)).sum();
        self.names.capacity() + self.entries.capacity() * size_of::<Entry>() + self.by_name.allocation_size() + sets
    }
}

fn name_of(names: &str, entry: Entry) -> &str {
    names.get(entry.start as usize..entry.start as usize + usize::from(entry.len)).unwrap_or_default()
}

/// Only the operator chooses the entries of the table, so the hash needs no secret.
fn hash(name: &str) -> u64 {
    FixedState::default().hash_one(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_has_its_roles_and_equal_role_sets_are_shared() {
        let mut builder = UsersBuilder::default();
        for number in 0..1_000_u32 {
            assert!(builder.add(&format!("user-{number}"), &[number % 3, 7]));
        }
        assert!(!builder.add("user-7", &[1]));
        let users = builder.finish();
        assert_eq!((users.len(), users.role_sets.len()), (1_000, 3));
        assert_eq!(users.roles_of("user-10"), [1, 7]);
        assert_eq!(users.roles_of("user-999"), [0, 7]);
        assert!(users.roles_of("user-1000").is_empty() && users.roles_of("").is_empty());
        assert!(users.memory_bytes() < 40_000, "{}", users.memory_bytes());
    }
}
