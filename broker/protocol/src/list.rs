use core::fmt;

/// An item of SUBSCRIBE, SUBACK, UNSUBSCRIBE or UNSUBACK. Implemented only by the crate's own item types.
pub trait ListItem<'a>: sealed::Item<'a> {}

impl<'a, T: sealed::Item<'a>> ListItem<'a> for T {}

pub(crate) mod sealed {
    /// The wire form of an item.
    pub trait Item<'a>: Copy + PartialEq {
        /// Reads the item at the start of checked bytes, with its length.
        fn read(bytes: &'a [u8]) -> Option<(Self, usize)>;

        /// The length in bytes.
        fn encoded_len(&self) -> usize;

        /// Writes the item at the start of `out`.
        fn write(&self, out: &mut [u8]);
    }
}

/// The list at the end of a packet: checked bytes that were decoded, or a slice to encode.
///
/// Equality compares the items in order, in either form.
#[derive(Clone, Copy)]
pub struct List<'a, T> {
    form: Representation<'a, T>,
}

#[derive(Clone, Copy)]
enum Representation<'a, T> {
    Wire { bytes: &'a [u8], len: u32 },
    Items(&'a [T]),
}

impl<'a, T> List<'a, T> {
    /// The empty list.
    pub const EMPTY: Self = Self { form: Representation::Items(&[]) };

    /// A list to send.
    #[inline]
    pub const fn from_slice(items: &'a [T]) -> Self {
        Self { form: Representation::Items(items) }
    }

    /// A list of `len` items from `bytes` that have been checked.
    #[inline]
    pub(crate) const fn trusted(bytes: &'a [u8], len: u32) -> Self {
        Self { form: Representation::Wire { bytes, len } }
    }

    /// The number of items.
    #[inline]
    pub const fn len(&self) -> usize {
        match self.form {
            Representation::Wire { len, .. } => len as usize,
            Representation::Items(items) => items.len(),
        }
    }

    /// Whether the list is empty.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a, T: ListItem<'a>> List<'a, T> {
    /// The items in order.
    #[inline]
    pub fn iter(&self) -> ListIter<'a, T> {
        ListIter { form: self.form }
    }

    /// The length on the wire in bytes.
    pub(crate) fn encoded_len(&self) -> usize {
        match self.form {
            Representation::Wire { bytes, .. } => bytes.len(),
            Representation::Items(items) => items.iter().map(sealed::Item::encoded_len).sum(),
        }
    }

    /// Writes all items into `out`, which has [`Self::encoded_len`] bytes.
    pub(crate) fn write(&self, out: &mut [u8]) {
        match self.form {
            Representation::Wire { bytes, .. } => {
                if let Some(slot) = out.get_mut(..bytes.len()) {
                    slot.copy_from_slice(bytes);
                }
            }
            Representation::Items(items) => {
                let mut rest = out;
                for item in items {
                    let Some((slot, after)) = rest.split_at_mut_checked(item.encoded_len()) else { return };
                    item.write(slot);
                    rest = after;
                }
            }
        }
    }
}

/// The items of a [`List`] in order.
#[derive(Clone)]
pub struct ListIter<'a, T> {
    form: Representation<'a, T>,
}

impl<'a, T: ListItem<'a>> Iterator for ListIter<'a, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        match &mut self.form {
            Representation::Wire { bytes, len } => {
                let (item, item_len) = T::read(bytes)?;
                *bytes = bytes.get(item_len..)?;
                *len = len.saturating_sub(1);
                Some(item)
            }
            Representation::Items(items) => {
                let (item, rest) = items.split_first()?;
                *items = rest;
                Some(*item)
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = match self.form {
            Representation::Wire { len, .. } => len as usize,
            Representation::Items(items) => items.len(),
        };
        (len, Some(len))
    }
}

impl<'a, T: ListItem<'a>> ExactSizeIterator for ListIter<'a, T> {}

impl<'a, T: ListItem<'a>> IntoIterator for &List<'a, T> {
    type Item = T;
    type IntoIter = ListIter<'a, T>;

    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

impl<'a, T> From<&'a [T]> for List<'a, T> {
    fn from(items: &'a [T]) -> Self {
        Self::from_slice(items)
    }
}

impl<T> Default for List<'_, T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<'a, T: ListItem<'a>> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: ListItem<'a> + Eq> Eq for List<'a, T> {}

impl<'a, T: ListItem<'a> + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
