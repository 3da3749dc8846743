//! `[users]`: the roles of each user.

use toml::de::DeTable;

use super::assignments::{RoleNumbers, roles};
use super::reader::Reader;
use crate::error::ErrorCode;
use crate::limits::USERS_MAX;
use crate::users::UsersBuilder;

pub(super) fn add(reader: &mut Reader<'_>, known: &RoleNumbers, table: &DeTable<'_>, users: &mut UsersBuilder) {
    for (name, value) in table {
        let name_text = name.get_ref().as_ref();
        if users.len() == USERS_MAX {
            let message = format!("there are more than {USERS_MAX} users: assign roles by claims instead");
            return reader.fault(ErrorCode::Limit, name.span(), message);
        }
        if name_text.len() > usize::from(u16::MAX) {
            reader.fault(ErrorCode::Value, name.span(), "the name is longer than 65,535 bytes: shorten it");
            continue;
        }
        let mut numbers = roles(reader, known, name_text, value);
        numbers.sort_unstable();
        numbers.dedup();
        if !users.add(name_text, &numbers) {
            let message =
                format!("the user {} is defined twice: put all roles into one list", name_text.escape_debug());
            reader.fault(ErrorCode::Duplicate, name.span(), message);
        }
    }
}
