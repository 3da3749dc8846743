//! Errors of PostgreSQL.

use crate::sinks::SinkError;

/// Errors of the classes 22 (data exception) and 23 (integrity constraint violation) are about a value; all others may pass.
pub(super) fn explain(error: &tokio_postgres::Error) -> SinkError {
    match error.as_db_error() {
        Some(database) if matches!(database.code().code().get(..2), Some("22" | "23")) => {
            let column =
                database.column().or(database.constraint()).map(|name| format!(" of {name}")).unwrap_or_default();
            SinkError::Refused(format!(
                "PostgreSQL refuses a value{column}: SQLSTATE {} [postgresql_value]",
                database.code().code()
            ))
        }
        _ => transient(error),
    }
}

pub(super) fn transient(error: &tokio_postgres::Error) -> SinkError {
    SinkError::Transient(match error.as_db_error() {
        Some(error) => format!("PostgreSQL: {} (SQLSTATE {}) [postgresql]", error.message(), error.code().code()),
        None => format!("the connection to PostgreSQL has failed: {error} [postgresql_unreachable]"),
    })
}
