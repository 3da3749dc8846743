//! `[users]`: the roles of each user.

use toml::de::DeTable;

use super::assign::{RoleNumbers, roles};
use super::reader::Reader;
use crate::error::ErrorCode;
use crate::limits::USERS_MAX;
use crate::users::{Users, UsersBuilder};

pub(super) fn read(reader: &mut Reader<'_>, known: &RoleNumbers, table: &DeTable<'_>) -> Users {
    let mut users = UsersBuilder::default();
    if table.len() > USERS_MAX {
        let span = table.keys().next().map_or(0..0, toml::Spanned::span);
        let message =
            format!("there are {} users, and may be {USERS_MAX}: give roles to users by their claims", table.len());
        reader.fault(ErrorCode::Limit, span, message);
        return users.finish();
    }
    for (name, value) in table {
        let name_text = name.get_ref().as_ref();
        if name_text.len() > usize::from(u16::MAX) {
            reader.fault(ErrorCode::Value, name.span(), "the name is longer than 65,535 bytes: shorten it");
            continue;
        }
        let mut numbers = roles(reader, known, name_text, value);
        numbers.sort_unstable();
        numbers.dedup();
        users.add(name_text, &numbers);
    }
    users.finish()
}
