//! Lookup of fields by name, without a search if names come in schema order.

/// The index of a field in the fields of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FieldIndex(pub(crate) u16);

/// The names of a message's fields: in JSON and in the schema.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Open addressing by [`Names::hash`]; the length is a power of two, at most half of it used.
    table: Box<[Option<NameEntry>]>,
    text: Box<str>,
}

#[derive(Debug, Clone, Copy)]
struct NameEntry {
    start: u32,
    len: u16,
    field: FieldIndex,
}

impl Names {
    pub(crate) fn new<'a>(names: impl Iterator<Item = (&'a str, FieldIndex)> + Clone) -> Names {
        let size = (names.clone().count() * 2).next_power_of_two().max(2);
        let mut table = vec![None; size].into_boxed_slice();
        let mut text = String::new();
        for (name, field) in names {
            let place = NameEntry { start: text.len() as u32, len: name.len() as u16, field };
            text.push_str(name);
            let mut at = Self::hash(name.as_bytes()) & (size - 1);
            while table[at].is_some() {
                at = (at + 1) & (size - 1);
            }
            table[at] = Some(place);
        }
        Names { table, text: text.into() }
    }

    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<FieldIndex> {
        let mask = self.table.len().checked_sub(1)?;
        let mut at = Self::hash(name) & mask;
        loop {
            let place = self.table[at]?;
            let start = place.start as usize;
            if usize::from(place.len) == name.len() && &self.text.as_bytes()[start..start + name.len()] == name {
                return Some(place.field);
            }
            at = (at + 1) & mask;
        }
    }

    /// Names come from the schema, not from the network, so nobody can choose them to collide; a lookup takes at most as many steps as
    /// there are fields.
    #[inline]
    fn hash(name: &[u8]) -> usize {
        let end = |at: usize| name.get(at).copied().map_or(0, usize::from);
        let len = name.len();
        let mixed = end(0) ^ end(len / 2) << 5 ^ end(len.wrapping_sub(1)) << 9 ^ len << 3;
        mixed.wrapping_mul(0x9E37_79B1) >> 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_lengths_are_found_and_others_are_not() {
        let names: Vec<String> = (0..40).map(|length| "abcdefghij".repeat(4)[..length].to_owned()).collect();
        let of = Names::new(names.iter().enumerate().map(|(at, name)| (&**name, FieldIndex(at as u16))));
        for (at, name) in names.iter().enumerate() {
            assert_eq!(of.find(name.as_bytes()), Some(FieldIndex(at as u16)));
            for wrong in 0..name.len() {
                let mut other = name.clone().into_bytes();
                other[wrong] = b'X';
                assert_eq!(of.find(&other), None, "{name} {wrong}");
            }
        }
        assert_eq!(Names::default().find(b"a"), None);
    }
}
