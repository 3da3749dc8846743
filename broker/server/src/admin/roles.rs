//! What callers of the API may do: three roles, each with all that the one before it may do, and one permission beside them.

use std::fmt;

use super::response::{Response, Status};

/// How much a caller may do. Each role may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Look at everything but payloads.
    Read,
    /// Act on clients and messages: disconnect, ban, publish, delete what is retained, reload.
    Operate,
    /// Everything else, contracts above all.
    Administer,
}

impl Role {
    pub(crate) const ALL: [Role; 3] = [Role::Read, Role::Operate, Role::Administer];

    /// As files, answers and the audit log call it.
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

/// All that a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) role: Role,
    /// It may see what clients send. No role has this of itself: whoever keeps a broker running need not read its messages.
    pub(crate) payloads: bool,
}

/// What a route asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permission {
    /// Nothing: it answers everybody.
    Nothing,
    /// That it is known who asks.
    Somebody,
    Role(Role),
    /// The role `read`, and the permission to see payloads.
    Payloads,
}

impl Permission {
    /// As the OpenAPI document calls it.
    #[cfg(test)]
    pub(super) fn name(self) -> &'static str {
        match self {
            Permission::Nothing => "nothing",
            Permission::Somebody => "somebody",
            Permission::Role(role) => role.name(),
            Permission::Payloads => "payloads",
        }
    }

    /// # Errors
    /// The answer to a caller who may not do this; it names what is missing.
    pub(super) fn check(self, grant: Grant) -> Result<(), Response> {
        let missing = match self {
            Permission::Role(role) if grant.role < role => {
                format!("this needs the role {role}; the role here is {}", grant.role)
            }
            Permission::Payloads if !grant.payloads => {
                "this shows payloads, and needs the permission payloads".to_owned()
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
    fn a_role_may_do_what_those_before_it_may_and_none_sees_payloads_of_itself() {
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
