//! Permissions of API callers: three roles, each including the one before it, and a separate permission for payloads.

use std::fmt;

use super::response::{Response, Status};

/// The role of a caller. Each role includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Read everything except payloads.
    Read,
    /// Act on clients and messages: disconnect, ban, publish, delete retained messages, reload.
    Operate,
    /// Everything else, including changes to contracts.
    Administer,
}

impl Role {
    pub(crate) const ALL: [Role; 3] = [Role::Read, Role::Operate, Role::Administer];

    /// The name in files, responses and the audit log.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Operate => "operate",
            Role::Administer => "administer",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Everything a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) role: Role,
    /// May see the content of messages. No role includes this: operating a broker does not require reading its messages.
    pub(crate) payloads: bool,
}

/// What a route requires of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permission {
    /// Open to everybody.
    Public,
    /// Any valid credentials.
    Authenticated,
    Role(Role),
    /// The role `read`, and the permission to see payloads.
    Payloads,
}

impl Permission {
    /// The name in the OpenAPI document.
    #[cfg(test)]
    pub(super) fn name(self) -> &'static str {
        match self {
            Permission::Public => "none",
            Permission::Authenticated => "authenticated",
            Permission::Role(role) => role.name(),
            Permission::Payloads => "payloads",
        }
    }

    /// # Errors
    /// The response to a caller without the permission; it names what is missing.
    pub(super) fn check(self, grant: Grant) -> Result<(), Response> {
        let missing = match self {
            Permission::Role(role) if grant.role < role => {
                format!("this needs the role {role}; your role is {}", grant.role)
            }
            Permission::Payloads if !grant.payloads => {
                "this shows payloads and needs the permission payloads".to_owned()
            }
            _ => return Ok(()),
        };
        Err(Response::error(Status::FORBIDDEN, "forbidden", &missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_includes_the_lower_roles_and_none_sees_payloads_by_default() {
        for (at, role) in Role::ALL.into_iter().enumerate() {
            assert_eq!(Role::named(role.name()), Some(role));
            let grant = Grant { role, payloads: false };
            for (needed, needs) in Role::ALL.into_iter().enumerate() {
                let checked = Permission::Role(needs).check(grant);
                assert_eq!(checked.is_ok(), needed <= at, "{role} for {needs}");
                if let Err(refusal) = checked {
                    assert_eq!(refusal.status(), Status::FORBIDDEN);
                }
            }
            assert!(Permission::Payloads.check(grant).is_err());
            assert!(Permission::Payloads.check(Grant { payloads: true, ..grant }).is_ok());
        }
        assert_eq!(Role::named("root"), None);
    }
}
